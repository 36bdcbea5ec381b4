from __future__ import annotations

import pandas as pd
import pytest

from nngcd.suspicions import hidden_groups
from nngcd.telling import expected_words, hidden_words


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
