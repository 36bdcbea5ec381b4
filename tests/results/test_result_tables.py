from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.core.files import write_table
from nngcd.datasets.arrays import from_arrays
from nngcd.results.confidence import Confidence, Judgement
from nngcd.results.result_tables import (
    category_table,
    describe,
    expected_right,
    held_back_facts,
    name_clusters,
    prediction_table,
    result_table,
)

SPLIT = from_arrays(np.arange(12.0).reshape(6, 2), np.array(["oak", "elm", "", "", "", ""], dtype=object))
SCORES = torch.tensor(
    [[0.0, 5, 0, 0], [0, 5, 0, 0], [5, 0, 0, 0], [0, 0, 0, 5], [0, 0, 0, 5], [0, 0, 5, 0]], dtype=torch.float64
)
"""Clusters: elm, oak, and two new ones of size 1 (cluster 2) and 2 (cluster 3)."""


def test_new_categories_are_numbered_by_size_and_known_ones_keep_their_names():
    assert name_clusters(SCORES.argmax(-1).numpy(), SPLIT, 4) == ["elm", "oak", "new-002", "new-001"]


def test_a_known_category_may_be_called_new_001():
    split = dataclasses.replace(SPLIT, class_names=("new-001", "oak"))
    assert name_clusters(SCORES.argmax(-1).numpy(), split, 4) == ["new-001", "oak", "new-003", "new-002"]


def test_a_labelled_image_keeps_its_label_and_shows_its_own_probability():
    ids = name_clusters(SCORES.argmax(-1).numpy(), SPLIT, 4)
    table = result_table(SPLIT, SCORES, ids)
    assert table["category"].tolist() == ["oak", "elm", "elm", "new-001", "new-001", "new-002"]
    # Row 1 was given as elm but looks like oak: the confidence is elm's, and oak is the first alternative.
    probability = SCORES[1].softmax(-1)
    assert table.loc[1, "confidence"] == round(probability[0].item(), 6)
    assert (table.loc[1, "alt_1"], table.loc[1, "alt_1_p"]) == ("oak", round(probability[1].item(), 6))
    assert table["status"].tolist() == ["known", "known", "known", "new", "new", "new"]


def test_counts_are_those_of_the_unlabelled_images():
    table = result_table(SPLIT, SCORES, name_clusters(SCORES.argmax(-1).numpy(), SPLIT, 4))
    facts = describe(SPLIT, table, SCORES.float())
    assert (facts["n_unlabelled_known"], facts["n_unlabelled_new"], facts["n_new_categories"]) == (1, 3, 2)
    assert (facts["largest_new"], facts["largest_new_size"], facts["n_categories_used"]) == ("new-001", 2, 3)
    assert facts["largest_share"] == 0.5


def test_categories_without_images_are_not_listed_unless_known():
    scores = torch.eye(6, 6, dtype=torch.float64)[[0, 1, 0, 2, 2, 2]]
    ids = name_clusters(scores.argmax(-1).numpy(), SPLIT, 6)
    table = result_table(SPLIT, scores, ids)
    categories = category_table(table, SPLIT, ids, describe(SPLIT, table, scores.float()))
    assert categories["id"].tolist() == ["elm", "oak", "new-001"]
    assert categories["size"].tolist() == [2, 1, 3]
    assert categories["labelled"].tolist() == [1, 1, 0]


def test_two_categories_have_one_alternative():
    table = prediction_table(torch.tensor([[1.0, 2.0]]), ["a", "new-001"], 1)
    assert table.columns.tolist() == ["category", "status", "confidence", "novelty", "alt_1", "alt_1_p"]
    assert table.loc[0, "category"] == "new-001"


@pytest.fixture
def scores_and_given(rng):
    """100 images in 7 clusters, with ties, a third of them settled."""
    scores_nk = torch.from_numpy(rng.normal(size=(100, 7)).round(1).astype(np.float32))
    return scores_nk, np.where(rng.random(100) < 1 / 3, rng.integers(0, 4, 100), -1)


@pytest.mark.parametrize("block_size", [1, 7, 99, 1000])
def test_blocks_of_any_size_write_the_same_bytes(scores_and_given, tmp_path, block_size):
    scores_nk, given = scores_and_given
    ids = [*"abcd", "new-001", "new-002", "new-003"]
    blocks, whole = (prediction_table(scores_nk, ids, 4, given=given, block_size=size) for size in (block_size, 100))
    pd.testing.assert_frame_equal(blocks, whole, check_exact=True)
    for ending in ("csv", "parquet"):
        paths = [tmp_path / f"{name}.{ending}" for name in ("blocks", "whole")]
        for path, table in zip(paths, (blocks, whole), strict=True):
            write_table(path, table)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_probabilities_of_all_images_never_exist_at_once(scores_and_given, monkeypatch):
    sizes, softmax = [], torch.Tensor.softmax

    def watched(block, *args):
        sizes.append(len(block))
        return softmax(block, *args)

    monkeypatch.setattr(torch.Tensor, "softmax", watched)
    prediction_table(scores_and_given[0], list("abcdefg"), 4, block_size=30)
    assert set(sizes) == {30, 10}


def test_no_image_gives_an_empty_table():
    assert prediction_table(torch.zeros(0, 2), ["a", "b"], 1).columns.tolist()[:2] == ["category", "status"]


def test_an_unsure_image_keeps_its_guess_and_a_labelled_one_is_never_unsure():
    confidence = Confidence(sureness=(0.5, 0.99), unsure=0.5)
    scores = torch.tensor([[1.0, 0.9, 0, 0], [9, 0, 0, 0], [1, 0.9, 0, 0], [0, 0, 0, 9], [0, 0, 0.9, 1], [0, 9, 0, 0]])
    ids = ["elm", "oak", "new-001", "new-002"]
    table = result_table(SPLIT, scores, ids, confidence=confidence)
    assert table["status"].tolist() == ["known", "known", "unsure", "new", "unsure", "known"]
    assert table["category"].tolist() == ["oak", "elm", "elm", "new-002", "new-002", "oak"]
    facts = describe(SPLIT, table, SCORES.float())
    assert (facts["n_unlabelled_known"], facts["n_unlabelled_new"], facts["n_unsure"]) == (1, 1, 2)
    assert (facts["n_new_categories"], facts["largest_new_size"], facts["smallest_new_size"]) == (1, 2, 2)


def test_what_held_back_labels_say():
    facts = held_back_facts(Confidence(n_held_back=4, n_right=3))
    assert (facts["n"], facts["n_right"], facts["accuracy"]) == (4, 3, 75.0)
    assert facts["low"] < 75 < facts["high"]
    assert held_back_facts(Confidence()) is None


def test_the_expected_share_is_the_mean_confidence_with_its_interval():
    found = expected_right([0.5, 0.9], 5)
    assert (found["n"], found["share"]) == (2, 0.7)
    assert 0 <= found["low"] < 0.7 < found["high"] <= 1
    assert expected_right([0.5, 0.9], 4)["low"] < found["low"], "fewer known categories than were ever measured"
    assert expected_right([], 5) is None


def test_alternatives_give_way_to_a_higher_confidence_and_stay_where_it_is_lower(monkeypatch):
    scores, features = torch.tensor([[1.0, 0.5, 0.0]]).repeat(2, 1), torch.ones(2, 1)
    own = torch.softmax(scores[0].double(), -1)
    judged = Judgement(torch.tensor([0.9, 0.1], dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    monkeypatch.setattr(Confidence, "judge", lambda self, *_, **__: judged)
    table = prediction_table(scores, ["a", "b", "c"], 2, features_nd=features)
    assert table["confidence"].tolist() == [0.9, 0.1]
    assert table.loc[0, ["confidence", "alt_1_p", "alt_2_p"]].sum() == pytest.approx(1)
    assert table.loc[1, "alt_1_p"] == pytest.approx(float(own[1]), abs=1e-6)
