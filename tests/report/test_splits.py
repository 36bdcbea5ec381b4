"""Splits and merges, in words."""

from __future__ import annotations

from nngcd.methods.contract import ClusterMerge, KnownSplit, NewSplit
from nngcd.report.trust import move_list
from nngcd.results.sentences import label_words, merge_words, new_split_words, number_words, split_words

FOUND = {"category": "oak", **KnownSplit(0, 5, 51, 102, 0, 26, 1e-6)._asdict()}
MANY = {"known_splits": [FOUND | {"category": f"oak {i}"} for i in range(7)]}


def test_a_split_is_told_in_a_sentence():
    assert split_words({"known_splits": [FOUND | {"epoch": 3}, FOUND]}) == [
        "'oak' was split after epochs 3 and 5: 51 of its 102 images formed a group that holds none of the 26 labelled "
        "images used in training."
    ]
    assert split_words({}) == []


def test_of_many_the_first_are_told():
    assert len(split_words(MANY)) == 7
    assert split_words(MANY, most=5)[-1] == "2 more known categories were split; summary.json lists them."


def test_labels_that_look_picked_by_hand_are_doubted():
    check = {"n_tested": 12, "n_apart": 9, "is_doubtful": True, "way_out": "loss.split_epochs=0"}
    (line,) = label_words({"label_check": check})
    assert "in 9 of 12 known categories" in line and line.endswith("--set loss.split_epochs=0")
    assert label_words({"label_check": check | {"is_doubtful": False}}) == label_words({"label_check": None}) == []
    assert label_words({}) == []


def test_a_search_without_training_comes_after_clustering():
    assert "'oak' was split after clustering: 51" in split_words({"known_splits": [FOUND | {"epoch": 0}]})[0]
    assert "became one after clustering" in merge_words({"merges": [MERGED | {"epoch": 0}]})[0]


def test_the_report_lists_them_escaped():
    assert "&lt;b&gt;" in move_list({"known_splits": [FOUND | {"category": "<b>"}]})
    assert move_list({}) == ""


MERGED = ClusterMerge(6, 21, 19, cost=1.2, limit=3.0)._asdict()
ESTIMATE = {"k": 25, "low": 23, "high": 34}


def test_a_merge_is_told_with_its_reason():
    assert merge_words({"merges": [MERGED, MERGED | {"cost": 4.0}]}) == [
        "Two new clusters of 21 and 19 images became one after epoch 6: they were no further apart than parts of one "
        "category usually are.",
        "Two new clusters of 21 and 19 images became one after epoch 6: they were the two most alike, and a split "
        "needed a cluster.",
    ]
    assert merge_words({"merges": [MERGED | {"n_freed": 0, "cost": 0.0}]}) == [
        "A new cluster without images was dropped after epoch 6."
    ]
    assert "became one after epoch 6" in move_list({"merges": [MERGED]})


def test_how_moves_changed_the_number_is_told():
    summary = {"k": 28, "k_estimate": ESTIMATE, "known_splits": [FOUND] * 4, "merges": [MERGED]}
    assert number_words(summary) == ["The estimate was 25 (23 to 34); 4 splits and 1 merge made it 28."]
    assert number_words(summary | {"k": 25, "known_splits": [FOUND]}) == [
        "The estimate was 25 (23 to 34); 1 split and 1 merge left it at 25."
    ]
    assert number_words(summary | {"known_splits": [], "merges": []}) == []
    assert number_words(summary | {"k_estimate": None}) == []


def test_the_split_of_a_new_cluster_is_told():
    found = {"new_splits": [NewSplit(6, 25, 60, gain=9.0, limit=3.0)._asdict()]}
    assert new_split_words(found) == [
        "A new cluster of 60 images was split after epoch 6: 25 of them were further from the rest than parts of one "
        "category usually are."
    ]
    assert "was split after epoch 6" in move_list(found)
    assert "1 split made it 26" in number_words(found | {"k": 26, "k_estimate": ESTIMATE})[0]
