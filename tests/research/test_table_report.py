import csv
import io

from nngcd.research.table_report import TableReport, as_table

HEAD, LINES = ["method", "All"], [["sim_gcd", "49.5 ± 2.1"], ["a, b & 50 %", "1.0†"]]


def test_markdown():
    assert as_table(HEAD, LINES).splitlines()[:3] == ["| method | All |", "|---|---|", "| sim_gcd | 49.5 ± 2.1 |"]


def test_csv_can_be_read_back():
    assert list(csv.reader(io.StringIO(as_table(HEAD, LINES, "csv")))) == [HEAD, *LINES]


def test_latex_escapes_what_latex_reads_otherwise():
    latex = as_table(HEAD, LINES, "latex")
    assert latex.startswith(r"\begin{tabular}{lr}")
    assert r"sim\_gcd & 49.5 $\pm$ 2.1 \\" in latex
    assert r"a, b \& 50 \% & 1.0$\dagger$ \\" in latex
    assert latex.endswith(r"\end{tabular}")


def test_a_report_is_written_with_its_notes(tmp_path):
    report = TableReport("Two methods", HEAD, LINES, ["Protocol: v2.", "† printed wrong"])
    markdown, latex = report.write(tmp_path, "bench")
    assert markdown.read_text().startswith("# Two methods\n\n| method | All |")
    assert markdown.read_text().endswith("Protocol: v2.\n\n† printed wrong\n")
    lines = latex.read_text().splitlines()
    assert lines[:3] == ["% Two methods", "% Protocol: v2.", "% † printed wrong"]
    assert lines[3] == r"\begin{tabular}{lr}"
