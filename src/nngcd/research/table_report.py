"""Tables as Markdown, CSV or LaTeX, and the files they are written to."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nngcd.core.files import write_text

Format = Literal["md", "csv", "latex"]
_LATEX = {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "±": r"$\pm$",
          "†": r"$\dagger$"}  # fmt: skip


def as_table(head: Sequence[str], lines: Sequence[Sequence[str]], form: Format = "md") -> str:
    """Return a table with a line of headings; in LaTeX the first column is text and the others are numbers."""
    if form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([head, *lines])
        return text.getvalue().rstrip("\n")
    if form == "latex":
        body = [
            " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in line) + r" \\" for line in [head, *lines]
        ]
        columns = "l" + "r" * (len(head) - 1)
        return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\hline", body[0], r"\hline", *body[1:],
                          r"\hline", r"\end{tabular}"])  # fmt: skip
    rule = "|" + "---|" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table with what must be known to read it."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]
    """The protocol first, then remarks."""

    def with_notes(self, notes: Sequence[str]) -> TableReport:
        """Return the report with further notes."""
        return replace(self, notes=[*self.notes, *notes])

    def of_a_trial(self) -> TableReport:
        """Return the report with a title that says that its runs were a trial."""
        title = f"SMOKE TEST: few images and epochs, so the numbers mean nothing. {self.title}"
        return replace(self, title=title)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write the report as Markdown and LaTeX; the LaTeX table has its notes as comments."""
        markdown = "\n\n".join([f"# {self.title}", as_table(self.head, self.lines, "md"), *self.notes]) + "\n"
        latex = "\n".join([f"% {self.title}", *(f"% {note}" for note in self.notes),
                           as_table(self.head, self.lines, "latex")]) + "\n"  # fmt: skip
        paths = [folder / f"{name}.md", folder / f"{name}.tex"]
        for path, text in zip(paths, (markdown, latex), strict=True):
            write_text(path, text)
        return paths
