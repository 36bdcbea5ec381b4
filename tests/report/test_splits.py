"""Splits of known categories, in words."""

from __future__ import annotations

from nngcd.methods.contract import KnownSplit
from nngcd.report.trust import split_list
from nngcd.telling import split_words

FOUND = {"category": "oak", **KnownSplit(0, 5, 51, 102, 0, 26, 1e-6)._asdict()}
MANY = {"known_splits": [FOUND | {"category": f"oak {i}"} for i in range(7)]}


def test_a_split_is_told_in_a_sentence():
    assert split_words({"known_splits": [FOUND | {"epoch": 3}, FOUND]}) == [
        "'oak' was split after epoch 3 and 5: 51 of its 102 images formed a group with none of the 26 labelled images "
        "used in training."
    ]
    assert split_words({}) == []


def test_of_many_the_first_are_told():
    assert len(split_words(MANY)) == 7
    assert split_words(MANY, most=5)[-1] == "2 more known categories were split; summary.json lists them."


def test_splits_of_most_known_categories_say_something_about_the_labels():
    assert "labelled and unlabelled images may differ" in split_words(MANY | {"n_known_categories": 12})[-1]
    assert len(split_words(MANY | {"n_known_categories": 14})) == 7


def test_the_report_lists_them_escaped():
    assert "&lt;b&gt;" in split_list({"known_splits": [FOUND | {"category": "<b>"}]})
    assert split_list({}) == ""
