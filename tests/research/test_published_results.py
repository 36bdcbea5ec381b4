from __future__ import annotations

from collections import Counter

import pytest

from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.datasets.published_splits import published_names
from nngcd.research.lineup import every_name
from nngcd.research.published_results import (
    UNCHECKED,
    Published,
    published_ablation,
    published_pretraining,
    published_results,
)

SHARE_OLD = {
    "cifar10": 1 / 3, "cifar100": 2 / 3, "imagenet100": 1 / 3, "cub": 1 / 3, "stanford_cars": 0.326,
    "fgvc_aircraft": 1 / 3,
    # Half of the old images are labelled, so as many are not: 8.9K of the 25.4K unlabelled ones (Table I).
    "herbarium19": 8.9 / 25.4,
}  # fmt: skip
ROUNDING = 0.12
"""Three numbers rounded to 0.1 can miss each other by 0.1; the rest is for shares that are rounded, too."""
METHODS = every_name()
ABLATION = {
    frozenset(): (56.1, 65.5, 51.5),
    frozenset({"nmf-nce"}): (57.9, 67.6, 53.1),
    frozenset({"non-negative", "nmf-nce", "sparse"}): (65.8, 73.4, 62.1),
}


def printed_rows() -> dict[tuple[str, str, str], Published]:
    """Return all rows about one data set by data set, method or pre-training, and table."""
    found = [
        (dataset, method, published_results(dataset, method, pretraining=pretraining))
        for dataset in SHARE_OLD for method in METHODS for pretraining in ("dino", "dinov2")
    ]  # fmt: skip
    found += [(dataset, name, published_pretraining(dataset, name)) for dataset in SHARE_OLD for name in PRE_TRAININGS]
    return {(dataset, name, f"{row.source} {row.backbone}"): row for dataset, name, row in found if row is not None}


def misses(scores: tuple[float, float, float], share: float) -> bool:
    total, old, new = scores
    return abs(total - share * old - (1 - share) * new) > ROUNDING


def test_all_is_the_mean_of_old_and_new_or_the_row_has_an_erratum():
    wrong = {key for key, row in printed_rows().items() if misses(row.scores, SHARE_OLD[key[0]])}
    assert {key[:2] for key in wrong} == {
        ("cub", "gcd"), ("cub", "cipr"), ("cub", "sptnet"), ("stanford_cars", "dccl"), ("stanford_cars", "gcd"),
        ("stanford_cars", "simgcd"), ("stanford_cars", "infosieve"), ("fgvc_aircraft", "infosieve"),
        ("fgvc_aircraft", "pim"), ("cifar10", "dccl"), ("cifar100", "dccl"), ("imagenet100", "dccl"),
        ("herbarium19", "cipr"), ("herbarium19", "nngcd"),
    }  # fmt: skip
    for key in wrong:
        assert printed_rows()[key].erratum, key


def test_a_correction_removes_the_contradiction_and_comes_with_its_reason():
    corrected = {key: row for key, row in printed_rows().items() if row.corrected}
    assert len(corrected) == 4
    for (dataset, _, _), row in corrected.items():
        assert row.corrected and row.erratum
        assert not misses(row.corrected, SHARE_OLD[dataset])


def test_rows_that_contradict_each_other_say_so():
    for method in ("pim", "cipr"):
        aircraft = published_results("fgvc_aircraft", method)
        assert aircraft.scores == published_results("herbarium19", method).scores
        assert "Herbarium" in aircraft.erratum
    for name in ("dino", "dinov2"):
        main = published_results("stanford_cars", "nngcd", pretraining=name)
        other = published_pretraining("stanford_cars", name)
        assert main.scores != other.scores
        assert all(str(score) in main.erratum for score in other.scores)
        assert all(str(score) in other.erratum for score in main.scores)
        assert published_results("cub", "nngcd", pretraining=name).scores == published_pretraining("cub", name).scores
    assert published_results("cifar10", "nngcd").scores == published_results("cifar10", "sptnet").scores
    assert "SPTNet" in published_results("cifar10", "nngcd").erratum


def test_the_ablation_is_of_means_over_three_data_sets():
    table = published_ablation()
    assert len(table) == 8
    assert {name for parts in table for name in parts} == {"non-negative", "nmf-nce", "sparse"}
    for parts, scores in ABLATION.items():
        assert table[parts].scores == scores
    share = (1 / 3 + 0.326 + 1 / 3) / 3
    wrong = {parts for parts, row in table.items() if misses(row.scores, share)}
    assert wrong == {frozenset({"non-negative", "nmf-nce"})}
    assert not misses(table[wrong.pop()].corrected, share)
    simgcd = [published_results(dataset, "simgcd").scores for dataset in ("cub", "stanford_cars", "fgvc_aircraft")]
    means = [sum(column) / 3 for column in zip(*simgcd, strict=True)]
    assert means == pytest.approx(table[frozenset()].scores, abs=0.06)
    assert table[frozenset({"non-negative", "nmf-nce", "sparse"})].erratum


@pytest.mark.parametrize(
    ("dataset", "method", "pretraining", "scores"),
    [
        ("cub", "gcd", "dino", (31.3, 56.6, 48.7)),
        ("stanford_cars", "sptnet", "dino", (59.0, 79.2, 49.3)),
        ("fgvc_aircraft", "promptcal", "dino", (52.2, 52.2, 52.3)),
        ("cub", "kmeans", "dinov2", (67.6, 60.6, 71.1)),
        ("fgvc_aircraft", "mugcd", "dinov2", (66.3, 68.7, 65.1)),
        ("cifar10", "xcon", "dino", (96.0, 97.3, 95.4)),
        ("cifar100", "infosieve", "dino", (78.3, 82.2, 70.5)),
        ("imagenet100", "nngcd", "dino", (85.2, 91.5, 82.0)),
        ("herbarium19", "simgcd", "dino", (44.0, 58.0, 36.4)),
        ("stanford_cars", "pim", "dino", (43.1, 66.9, 31.6)),
    ],
)
def test_numbers_are_those_of_the_paper(dataset, method, pretraining, scores):
    row = published_results(dataset, method, pretraining=pretraining)
    assert (row.scores, row.backbone) == (scores, pretraining)


def test_table_6_is_that_of_the_paper():
    assert published_pretraining("cub", "mocov3").scores == (64.7, 73.7, 60.2)
    assert published_pretraining("stanford_cars", "supervised-22k").scores == (46.5, 68.7, 35.7)
    assert published_pretraining("cub", "clip").source == "NN-GCD, Table VI"


def test_every_row_is_reached_by_a_name_the_package_knows():
    counts = Counter(row.source for row in printed_rows().values())
    of_the_paper = {"II": 11 * 3 - 1 + 5 * 3, "III": 10 * 3, "IV": 8, "VI": 11 * 2}
    assert counts == {f"NN-GCD, Table {table}": n for table, n in of_the_paper.items()} | {
        "HypCD, Table 1": 30 + 4 * 6, "README of EAGC's code": 18 + 2 * 3, "DebGCD, second hand": 7 + 6,
        "README of LegoGCD's code": 7, "ProtoGCD, second hand": 7,
    }  # fmt: skip
    assert set(SHARE_OLD) == set(published_names())


def test_every_number_says_which_epoch_it_is_of():
    selections = {name: row.selection for (_, name, _), row in printed_rows().items() if name in METHODS}
    assert set(selections) == set(METHODS)
    assert selections["legogcd"] == selections["simgcd"] == "last epoch"
    assert selections["nngcd"] == selections["selex+eagc"] == "best on hidden labels"
    assert published_pretraining("cub", "clip").selection == "best on hidden labels"
    assert published_ablation()[frozenset()].selection == "last epoch"


def test_numbers_of_second_hand_are_marked():
    assert published_results("cub", "protogcd").erratum == UNCHECKED
    assert published_results("cub", "debgcd").erratum is None


def test_what_the_paper_does_not_say_is_none():
    assert published_results("fgvc_aircraft", "dccl") is None
    assert published_results("cub", "xcon", pretraining="dinov2") is None
    assert published_pretraining("cifar10", "dino") is None
