from __future__ import annotations

import pytest
from finished_runs import scores
from finished_runs import summary as whole_summary

from nngcd.core.errors import DataError
from nngcd.research.comparison import HEAD, by_name_note, paired_differences
from nngcd.research.comparison import rows_of as rows_of_settings


def summary(method, seed, all_, **other):
    accuracy = {"all": all_, "old": all_ + 10, "new": all_ - 5}
    scored = scores(protocol="transductive", n_scored=10, accuracy=accuracy, nmi=50.0)
    facts = {"method": method, "seed": seed, "backbone": "b", "effort": "quick", "preset": "default", "k": 10}
    counts = {"split_hash": "same", "n_labelled": 5, "n_images": 20, "seconds": 10.0 * (1 + seed),
              "processor_seconds": {"views": 100.0, "fit": 60.0 * (1 + seed)}}  # fmt: skip
    return whole_summary(**{**facts, **counts, "scores": scored, **other})


def rows_of(summaries, **more):
    """Rows of runs whose settings are what their summaries say, and what is given for all by name."""
    names = ("method", "backbone", "effort", "preset", "k", "seed")
    settings = [{name: s[name] for name in names if name in s} | {n: v[i] for n, v in more.items()}
                for i, s in enumerate(summaries)]  # fmt: skip
    return rows_of_settings(summaries, settings)


THREE = [summary("nngcd", seed, all_) for seed, all_ in ((2, 60.0), (0, 50.0), (1, 55.0))]
TWO = [summary("simgcd", seed, all_) for seed, all_ in ((0, 48.0), (1, 51.0))]


def test_means_deviations_and_order():
    rows = rows_of([*THREE, *TWO])
    assert [row.name for row in rows] == ["simgcd", "nngcd"]
    assert rows[1].cell("All") == "55.0 ± 5.0"  # 50, 55, 60
    assert rows[1].cell("New") == "50.0 ± 5.0"
    assert list(rows[1].scores) == [0, 1, 2]
    assert rows[1].seconds == 20
    assert rows_of(TWO[:1])[0].cell("All") == "48.0"


def test_differences_are_between_runs_of_the_same_seed():
    assert paired_differences(rows_of([*THREE, *TWO])) == [("simgcd", "3.0 ± 1.4", 2)]  # 2 and 4
    apart = [summary("simgcd", 7, 48.0)]
    assert paired_differences(rows_of([*THREE, *apart])) == []


def test_only_what_differs_makes_a_row():
    rows = rows_of([*THREE, summary("nngcd", 0, 40.0, preset="official"), summary("nngcd", 1, 41.0, preset="official")])
    assert [row.name for row in rows] == ["nngcd, preset official", "nngcd, preset default"]


def test_runs_of_one_method_that_differ_in_any_setting_are_different_rows():
    runs = [summary("nngcd", 0, 40.0), summary("nngcd", 0, 50.0), summary("gcd", 0, 30.0)]
    rows = rows_of(runs, **{"loss.nce_mean": [0.1, 0.5, None], "loss.n_starts": [None, None, 9]})
    assert [row.name for row in rows] == [
        "gcd, loss.nce_mean None",
        "nngcd, loss.nce_mean 0.1",
        "nngcd, loss.nce_mean 0.5",
    ]


@pytest.mark.parametrize(
    ("summaries", "message"),
    [
        (
            [*TWO, summary("gcd", 0, 1.0, split_hash="other", n_labelled=7)],
            r"different images or labels \(5 of 20.*7 of",
        ),
        ([*TWO, summary("simgcd", 1, 1.0)], "two runs of simgcd with seed 1"),
        ([{key: value for key, value in TWO[0].items() if key != "scores"}], r"no scores.*not known"),
    ],
)
def test_what_cannot_be_compared_is_refused(summaries, message):
    with pytest.raises(DataError, match=message):
        rows_of(summaries)


def test_a_row_of_the_table():
    rows = rows_of([*THREE, *TWO])
    accuracy = ["49.5 ± 2.1", "59.5 ± 2.1", "44.5 ± 2.1", "50.0 ± 0.0"]
    assert rows[0].cells == ["simgcd", *accuracy, "0.5 ± 0.0", "0.5 ± 0.0", "0 1", "1.5", "-"]
    assert len(HEAD) == len(rows[0].cells)


def test_scores_by_name_have_a_column_and_a_line():
    runs = [with_names(summary("nngcd", seed, 50.0), all_) for seed, all_ in ((0, 40.0), (1, 42.0))]
    row = rows_of(runs)[0]
    assert (row.cell("by name"), row.cell("called known")) == ("41.0 ± 1.4", "45.0 ± 0.0")
    assert row.scores[0]["by name New"] == 35.0
    assert by_name_note(runs).endswith("put into a known category, where 33.5 % belong to one.")
    mixed = [runs[0], *TWO]
    assert by_name_note(mixed).endswith("put into a known category.")


def with_names(run, all_):
    called = {"share": 45.0, "true_share": 33.5, "precision": 70.0, "recall": 90.0}
    by_name = {"all": all_, "old": all_ + 10, "new": all_ - 5}
    return {**run, "scores": {**run["scores"], "by_name": by_name, "called_known": called}}


def test_the_memory_is_the_most_any_run_needed_and_that_of_the_gpu_if_there_is_one():
    ram = [summary("nngcd", 0, 1.0, peak_gb={"ram": 2.0}), summary("nngcd", 1, 1.0, peak_gb={"ram": 3.0})]
    assert rows_of(ram)[0].peak_gb == 3.0
    assert rows_of([summary("nngcd", 0, 1.0, peak_gb={"ram": 9.0, "gpu": 4.0})])[0].cells[-1] == "4.0"
