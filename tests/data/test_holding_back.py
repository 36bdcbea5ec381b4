from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from photographs import burst_folder

from nngcd.data.holding_back import hold_back, n_unchecked, why_nothing, without_labels
from nngcd.data.near_copies import NONE
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset

SIZES = {"many": 23, "ten": 10, "five": 5, "four": 4, "one": 1}


@pytest.fixture
def split(rng):
    names = [name for name, size in SIZES.items() for _ in range(size)] + [""] * 7
    return from_arrays(rng.normal(size=(len(names), 3)), np.array(names, dtype=object))


def counts(split, is_held):
    return {name: int((is_held & (split.labels == i)).sum()) for i, name in enumerate(split.class_names)}


def test_a_fifth_of_each_category_and_none_where_there_are_few(split):
    is_held = hold_back(split)
    assert counts(split, is_held) == {"many": 5, "ten": 2, "five": 1, "four": 0, "one": 0}
    assert not is_held[~split.is_labelled].any()
    assert n_unchecked(split, is_held) == 2


def test_training_keeps_every_category_and_loses_only_what_is_held_back(split):
    is_held = hold_back(split)
    known = without_labels(split, is_held)
    assert (known.labels[is_held] == -1).all()
    assert (known.labels[~is_held] == split.labels[~is_held]).all()
    assert known.class_names == split.class_names
    assert split.n_labelled == 43


def test_the_draw_depends_on_the_seed_and_not_on_the_order(split):
    is_held = hold_back(split)
    assert np.array_equal(is_held, hold_back(split))
    assert not np.array_equal(is_held, hold_back(split, seed=1))
    order = np.random.default_rng(1).permutation(len(split))
    shuffled = dataclasses.replace(
        split, labels=split.labels[order], features_nvd=split.features_nvd[order],
        table=split.table.iloc[order].reset_index(drop=True),
    )  # fmt: skip
    assert np.array_equal(hold_back(shuffled), is_held[order])


def test_nothing_is_held_back_of_a_benchmark_or_when_all_labels_are_asked_for(split):
    assert not hold_back(split, share=0.0).any()
    assert not hold_back(dataclasses.replace(split, n_classes=9)).any()
    assert without_labels(split, hold_back(split, share=0.0)) is split


def test_images_of_one_group_and_copies_stay_on_one_side(rng):
    labels = np.array(["a"] * 20 + ["b"] * 20 + [""] * 2, dtype=object)
    features = rng.normal(size=(42, 3))
    features[25:40] = features[25]  # fifteen copies: more than the share of category b
    split = from_arrays(features, labels)
    group = pd.Series([f"burst {i // 4}" if i < 20 else None for i in range(42)], dtype="string")
    split = dataclasses.replace(split, table=split.table.assign(group=group))
    for seed in range(5):
        is_held = hold_back(split, seed=seed)
        assert counts(split, is_held)["a"] == 4
        assert len(set(group[is_held & (split.labels == 0)])) == 1
        assert not is_held[25:40].any()
        assert 1 <= counts(split, is_held)["b"] <= 4


def test_a_category_of_copies_is_not_held_back():
    split = from_arrays(np.ones((8, 3)), np.array(["a"] * 7 + [""], dtype=object))
    assert not hold_back(split).any()


def test_why_nothing_is_held_back(split):
    assert "a benchmark, or a task of hidden" in why_nothing(dataclasses.replace(split, n_classes=9), share=0.2)
    assert why_nothing(from_arrays(np.ones((2, 3))), share=0.2) == "there are no labels"
    assert why_nothing(split, share=0.0) == "all labels were used for training"
    assert "no category has 5" in why_nothing(split, share=0.2)


def accuracy_of_the_nearest(split, is_held):
    """Return how many held-back images have the label of the nearest labelled one that training knows."""
    pixels = np.stack([np.asarray(split.images.open(i).resize((16, 16)), float).ravel() for i in range(len(split))])
    known = np.flatnonzero(split.is_labelled & ~is_held)
    held = np.flatnonzero(is_held)
    nearest = known[((pixels[held, None] - pixels[known]) ** 2).sum(-1).argmin(1)]
    return (split.labels[nearest] == split.labels[held]).mean()


@pytest.mark.slow
def test_bursts_on_both_sides_no_longer_inflate_the_accuracy(tmp_path, rng, monkeypatch):
    split = open_dataset(str(burst_folder(tmp_path / "bursts", rng)))[0]
    is_held = hold_back(split)
    # 300 labels, 50 held back: one burst of each category, none of it known to training. A guess is right in 10 %.
    assert set(counts(split, is_held).values()) == {5}
    assert accuracy_of_the_nearest(split, is_held) < 0.3
    monkeypatch.setattr("nngcd.data.holding_back.near_copies", lambda split: np.full(len(split), NONE))
    assert accuracy_of_the_nearest(split, hold_back(split)) > 0.95


def test_near_identical_images_join_groups_and_contradicting_ones_are_not_held_back(rng, monkeypatch):
    labels = np.array(["a"] * 20 + ["b"] * 20, dtype=object)
    split = from_arrays(rng.normal(size=(40, 16)), labels)
    group = pd.Series([f"place {i // 2}" for i in range(40)], dtype="string")
    split = dataclasses.replace(split, table=split.table.assign(group=group))
    near = np.full(40, NONE)
    near[1:3] = 0  # two places
    near[[10, 30]] = 1  # two labels
    monkeypatch.setattr("nngcd.data.holding_back.near_copies", lambda split: near)
    for seed in range(8):
        is_held = hold_back(split, seed=seed)
        assert len(set(is_held[:4])) == 1
        assert not is_held[[10, 30]].any()


def test_where_every_bunch_is_too_large_the_smallest_is_held_back(rng):
    split = from_arrays(rng.normal(size=(21, 3)), np.array(["a"] * 9 + ["b"] * 10 + [""] * 2, dtype=object))
    group = pd.Series([f"burst {i // 3}" if i < 9 else f"half {i // 14}" for i in range(21)], dtype="string")
    split = dataclasses.replace(split, table=split.table.assign(group=group))
    assert counts(split, hold_back(split)) == {"a": 3, "b": 0}
