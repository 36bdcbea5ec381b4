"""Tables of benchmarks and studies; what runs look like is made up here, published numbers are the package's own."""

import pytest
from finished_runs import scores
from finished_runs import summary as whole_summary

from nngcd.research.benchmark_report import benchmark_report, on_one_backbone, run_table
from nngcd.research.comparison import row_of
from nngcd.research.figures.page import plain_style
from nngcd.research.grid import Variant, make_grid
from nngcd.research.study_report import ablation_report, study_chart, sweep_report


def summary(method="nngcd", seed=0, all_=50.0, **other):
    parts = {"all": all_, "old": all_ + 10, "new": all_ - 5}
    scored = scores(protocol="transductive", n_scored=4496, accuracy=parts, balanced_accuracy=parts, nmi=70.0, ari=40.0)
    facts = {"method": method, "seed": seed, "backbone": "dino", "effort": "full", "preset": "official", "k": 200}
    counts = {"n_labelled": 1498, "n_unlabelled": 4496, "n_known_categories": 100, "k_estimate": None}
    ends = {"split_hash": "b96c68559e", "processor_seconds": {"views": 30.0, "fit": 90.0},
            "peak_gb": {"ram": 1.5, "gpu": 7.0}}  # fmt: skip
    return whole_summary(**{**facts, **counts, **ends, "scores": scored, **other})


def report_of(methods, **other):
    summaries = [summary(method, **other) for method in methods]
    return benchmark_report("cub", [row_of(s["method"], [s]) for s in summaries], summaries)


def test_published_numbers_stand_beside_ours_and_errors_are_marked():
    report = report_of(["gcd", "nngcd", "kmeans"])
    place = report.head.index("published All / Old / New")
    assert [line[place] for line in report.lines] == ["31.3 / 56.6 / 48.7†", "72.4 / 76.3 / 70.5", "-"]
    assert any(note.startswith("† gcd: ") and "51.3" in note for note in report.notes)
    assert report.lines[0][:3] == ["gcd", "50.0", "60.0"]
    assert report.lines[0][-2:] == ["1.5", "7.0"]
    assert [line[place + 1] for line in report.lines] == ["best on old test", "best on hidden labels", "-"]
    assert any(
        note.startswith("of the epoch: ") and "Ours are always from the last epoch" in note for note in report.notes
    )


def test_the_protocol_says_what_the_numbers_are():
    protocol = report_of(["nngcd"]).notes[0]
    for fact in ("transductive", "4,496 images scored", "1,498 labelled in 100 classes", "split b96c6855",
                 "K = 200 given", "backbone dino; effort full; preset official"):  # fmt: skip
        assert fact in protocol
    estimated = report_of(["nngcd"], k_estimate={"low": 1, "high": 9}).notes[0]
    assert "K estimated" in estimated


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"backbone": "efficientnet_lite0"}, "another backbone"),
        ({"effort": "quick"}, "less training"),
        ({"k": 150}, "K = 150 instead of 200"),
        ({"n_labelled": 50}, "other images"),
    ],
)
def test_numbers_of_another_setting_are_not_called_comparable(other, reason):
    assert f"not comparable: {reason}." in report_of(["nngcd"], **other).notes[1]
    assert "not comparable" not in report_of(["nngcd"]).notes[1]


def test_methods_with_a_backbone_of_their_own_are_named_and_not_compared():
    runs = [summary("gcd"), summary("nngcd", seed=0), summary("nngcd", seed=1),
            summary("sptnet", backbone="test_vit", weights="random")]  # fmt: skip
    rows = [row_of(name, [s for s in runs if s["method"] == name]) for name in ("gcd", "nngcd", "sptnet")]
    notes = benchmark_report("cub", rows, runs).notes
    assert "backbone" not in notes[0]
    assert notes[1].startswith("Backbones: dino for gcd, nngcd; test_vit with random weights for sptnet. Numbers with")
    assert [row.name for row in on_one_backbone(rows, runs)] == ["gcd", "nngcd"]
    assert not any(note.startswith("Backbones") for note in report_of(["gcd", "nngcd"]).notes)


def test_what_a_preset_makes_of_the_features_is_named_where_it_differs():
    runs = [summary("gcd"), summary("nngcd", n_sizes=3, whitened_features=256)]
    rows = [row_of(s["method"], [s]) for s in runs]
    line = "By their presets, nngcd learns on the mean of 3 sizes and 256 whitened directions: this explains part of"
    assert any(note.startswith(line) for note in benchmark_report("cub", rows, runs).notes)
    alone = benchmark_report("cub", rows[1:], runs[1:]).notes
    assert not any("presets" in note for note in [*alone, *report_of(["gcd", "nngcd"]).notes])


def test_the_protocol_names_only_what_all_rows_share():
    runs = [summary(seed=0, k=100, backbone="dino"), summary(seed=0, k=200, backbone="mae")]
    rows = [row_of(str(run["k"]), [run]) for run in runs]
    protocol = sweep_report("k", "cub", rows, runs).notes[0]
    assert "effort full" in protocol
    for word in ("K =", "K estimated", "backbone", "dino", "mae"):
        assert word not in protocol


def test_numbers_of_the_same_pretraining_are_taken():
    report = report_of(["nngcd"], backbone="dinov2")
    assert "83.1 / 82.5 / 83.4" in report.lines[0]


def test_a_data_set_without_published_numbers_has_no_such_column():
    s = summary()
    report = benchmark_report("digits", [row_of("nngcd", [s])], [s])
    assert not any("published" in name for name in report.head)
    assert not any("Published" in note for note in report.notes)


def test_gains_of_the_ablation_are_taken_seed_by_seed():
    none = [summary(seed=0, all_=40.0), summary(seed=1, all_=44.0)]
    all_ = [summary(seed=0, all_=45.0), summary(seed=1, all_=47.0)]
    report = ablation_report("cub", [row_of("none", none), row_of("all", all_)], [*none, *all_])
    place = report.head.index("gain in All")
    assert [line[place] for line in report.lines] == ["", "4.0 ± 1.4"]  # 5 and 3
    assert [line[place + 1] for line in report.lines] == ["56.1 / 65.5 / 51.5", "65.8 / 73.4 / 62.1†"]


@pytest.mark.needs("matplotlib")
def test_a_sweep_names_its_values_and_pretrainings_have_published_numbers():
    s = summary()
    report = sweep_report("mu", "cub", [row_of("0.1", [s])], [s])
    assert (report.head[0], report.lines[0][0]) == ("mu", "0.1")
    assert "loss.nce_mean" in report.title
    report = sweep_report("pretraining", "cub", [row_of("clip", [s])], [s])
    assert "76.0 / 77.9 / 75.0" in report.lines[0]
    assert any(note.startswith("Published: NN-GCD, Table VI") for note in report.notes)


def test_values_that_are_no_numbers_are_drawn_side_by_side():
    runs = [summary(k=9), summary(k=10)]
    rows = [row_of(name, [run]) for name, run in zip(("auto", "10"), runs, strict=True)]
    with plain_style():
        page = study_chart("k", sweep_report("k", "digits", rows, runs), rows)
    assert [label.get_text() for label in page.panels[0][0].get_xticklabels()] == ["auto", "10"]


def test_every_run_is_a_line_of_numbers(tmp_path):
    cells = make_grid([Variant("nngcd", {})], [0, 1], {"data": "digits"}, tmp_path)
    table = run_table([(cell, summary(seed=seed)) for seed, cell in enumerate(cells)])
    assert list(table["seed"]) == [0, 1]
    assert table["all"].tolist() == [50.0, 50.0]
    assert table["peak_gb_gpu"].tolist() == [7.0, 7.0]
    assert table["run"].tolist() == [str(cell.path) for cell in cells]
