from __future__ import annotations

import pandas as pd
import pytest
import torch

from nngcd.results.sentences import alike_words, expected_words, hidden_words, mixed_words
from nngcd.results.suspicions import alike_pairs, hidden_groups, mixed_categories


def results(confidences, category="oak", n_labelled=3):
    """Return results with some labelled images of a category, and an unlabelled one for each confidence."""
    n = len(confidences)
    return pd.DataFrame(
        {
            "image_id": [f"{category}-{i}" for i in range(n_labelled + n)],
            "label_given": [category] * n_labelled + [None] * n,
            "category": [category] * (n_labelled + n),
            "confidence": [0.1] * n_labelled + list(confidences),
        }
    )


def test_a_good_part_of_doubtful_images_is_a_group():
    found = hidden_groups(results([0.9] * 6 + [0.2] * 4), ["oak"])
    assert [(group.category, group.n_images, group.n_labelled) for group in found] == [("oak", 10, 3)]
    assert found[0].image_ids == [f"oak-{i}" for i in range(9, 13)]


@pytest.mark.parametrize("confidences", [[0.2] * 3, [0.9] * 40 + [0.2] * 4, [0.9] * 10, []])
def test_few_doubtful_images_are_no_group(confidences):
    assert hidden_groups(results(confidences), ["oak"]) == []


def test_new_categories_hide_nothing_and_the_largest_group_is_first():
    table = pd.concat([results([0.1] * 4, "elm"), results([0.1] * 9, "oak"), results([0.1] * 9, "new-001", 0)])
    assert [group.category for group in hidden_groups(table, ["elm", "oak"])] == ["oak", "elm"]


def test_what_is_said_of_groups():
    group = {"category": "oak", "n_group": 51, "n_images": 102, "n_labelled": 26}
    few = "51 of its 102 unlabelled images have few of your 26 labelled ones around them."
    assert hidden_words([group]) == [f"'oak' may hide another category: {few}"]
    assert "your only labelled one" in hidden_words([group | {"n_labelled": 1}])[0]
    assert hidden_words([group] * 7)[-1].startswith("2 more")


def test_an_expected_share_is_told_only_where_labels_were_held_back():
    found = {"n": 10, "share": 0.731, "low": 0.61, "high": 0.849}
    summary = {"expected_right": {"known": found, "new": None}, "held_back": {"n": 5}}
    assert expected_words(summary, "known") == "about 73% of them are right (likely 61% to 85%)"
    assert expected_words(summary, "new") is None
    assert expected_words(summary | {"held_back": None}, "known") is None


def test_new_categories_of_doubtful_images_may_be_several_things():
    table = pd.concat([results([0.3] * 9), results([0.7, 0.2], "new-001", 0), results([0.3] * 4, "new-002", 0)])
    found = mixed_categories(pd.concat([table, results([0.5] * 4, "new-003", 0)]), ["oak"])
    assert [(one.category, one.n_images) for one in found] == [("new-002", 4), ("new-001", 2)]
    assert found[1].expected == pytest.approx(0.45)


NAMES = ("elm", "oak", "new-001", "new-002", "new-003", "new-004")


@pytest.fixture
def blobs(rng):
    """Results and features of two known categories and of four new ones, of which two lie together."""
    centres = torch.eye(8)[[0, 1, 2, 3, 3, 4]]
    centres[4, 5] = 0.1
    noise = torch.from_numpy(rng.standard_normal((len(NAMES), 20, 8))).float()
    table = pd.concat([results([0.9] * (20 - n), name, n) for name, n in zip(NAMES, (10, 10, 0, 0, 0, 0), strict=True)])
    return table, (centres[:, None] + 0.1 * noise).flatten(0, 1)


def test_two_new_categories_that_lie_together_may_be_one(blobs):
    table, features = blobs
    found = alike_pairs(table, NAMES[:2], features)
    assert [(pair.first, pair.second) for pair in found] == [("new-002", "new-003")]


def test_one_known_category_does_not_say_what_is_usual(blobs):
    table, features = blobs
    assert alike_pairs(table.assign(label_given=table["label_given"].replace("elm", None)), ["oak"], features) == []


def test_without_a_known_category_nobody_can_say_what_is_alike(blobs):
    table, features = blobs
    assert alike_pairs(table.assign(label_given=None), [], features) == []


def test_what_is_said_of_new_categories():
    mixed = {"category": "new-001", "n_images": 31, "expected": 0.432}
    summary = {"mixed_categories": [mixed], "held_back": {"n": 5}}
    said = "'new-001' may mix several categories: about 43% of its 31 images are expected to share one class."
    assert mixed_words(summary) == [said]
    assert mixed_words(summary | {"held_back": None}) == []
    assert mixed_words(summary | {"mixed_categories": [mixed] * 7})[-1].startswith("2 more")
    pair = {"first": "new-001", "second": "new-004", "cost": 2.0}
    said = "May be one category: 'new-001' and 'new-004'."
    assert alike_words({"alike_pairs": [pair]}) == [said]
    assert alike_words({"alike_pairs": [pair] * 7})[0].endswith("; and 2 more pairs.")
    assert alike_words({}) == mixed_words({}) == []
