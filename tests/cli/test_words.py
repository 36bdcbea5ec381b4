"""A run's result in words that are true of one image, one category and no label, too."""

import pytest

from nngcd.cli.words import by_name_words, found_words, held_back_words, k_words, review_words

SUMMARY = {
    "n_unlabelled": 2, "n_unlabelled_known": 0, "n_unlabelled_new": 1, "n_categories_used": 2, "k": 2,
    "n_known_categories": 1, "n_new_categories": 1, "largest_new": "new-001",
    "largest_new_size": 1, "n_unchecked_categories": 0,
    "n_unsure": 1, "n_unreadable": 1, "largest_share": 0.5, "method": "nngcd", "n_labelled": 8,
}  # fmt: skip


def test_one_of_a_thing_is_not_called_several():
    assert found_words(SUMMARY) == [
        "2 unlabelled images were sorted into 2 of 2 categories:",
        "       0  look like your known category",
        "       1  fall into 1 new category (largest: new-001, 1 image, unsure ones included)",
        "       1  unsure (50%; change with --unsure)",
    ]
    assert found_words(SUMMARY | {"n_unlabelled": 1})[0].startswith("1 unlabelled image was sorted")
    assert "unsure" not in "".join(found_words(SUMMARY | {"n_unsure": 0}))


@pytest.mark.parametrize(("confidence", "is_said"), [("low", True), ("fair", False)])
def test_that_no_new_category_was_found_is_doubted_where_the_number_is(confidence, is_said):
    estimate = {"k": 2, "low": 2, "high": 4, "confidence": confidence, "reason": "why", "is_at_edge": False}
    lines = found_words(SUMMARY | {"n_new_categories": 0, "k_estimate": estimate})
    assert any(line.startswith("Careful: no new category was found") for line in lines) == is_said


def test_without_labels_nothing_is_said_of_known_categories():
    assert not any("known" in line for line in found_words(SUMMARY | {"n_known_categories": 0}))


def test_the_accuracy_on_held_back_labels_has_its_interval_not_a_half_width():
    """6 of 6 is 61 to 100 %; 100 ± 19.5 would promise more than 80."""
    facts = {"n": 6, "n_right": 6, "accuracy": 100.0, "low": 60.97, "high": 100.0}
    line = held_back_words(SUMMARY | {"held_back": facts})[0]
    assert line.endswith("(6 of 6 held-back labels; 95 % interval 61.0 to 100.0).")


def test_an_interval_of_one_number_is_not_shown():
    estimate = {"low": 3, "high": 3, "confidence": "low", "reason": "why", "is_at_edge": False}
    assert k_words(3, estimate)[0] == "There seem to be about 3 categories, known and new together."
    assert "about 3 categories (between 3 and 5)," in k_words(3, estimate | {"high": 5})[0]


@pytest.mark.parametrize(("method", "advice"), [("sptnet", "loss.entropy_weight=4"), ("gcd", "Try another --k.")])
def test_advice_on_a_collapse_names_only_settings_that_the_method_has(method, advice):
    assert advice in found_words(SUMMARY | {"n_unlabelled": 10, "largest_share": 0.99, "k": 3, "method": method})[-1]


def test_of_few_images_most_may_be_of_one_category():
    one = SUMMARY | {"largest_share": 1.0, "n_unsure": 0, "n_unreadable": 0}
    assert not any("T04" in line for line in found_words(one | {"n_unlabelled": 9}))
    assert "T04" in found_words(one | {"n_unlabelled": 10})[-1]


def test_scores_by_name_are_told_in_sentences():
    called = {"share": 45.0, "true_share": 33.5, "precision": 70.0, "recall": 90.0}
    new = {"share": 55.0, "true_share": 66.5, "precision": None, "recall": 80.0}
    scores = {"by_name": {"all": 60.0, "old": 70.0, "new": None}, "called_known": called, "called_new": new}
    lines = by_name_words(scores)
    assert lines[0].startswith("By name: 60.0 % of the images are right (known categories 70.0 %).")
    assert lines[1].startswith("Called known: 45.0 % of the images; 33.5 % truly are known. Precision 70.0 %.")
    assert lines[2].endswith("66.5 % truly are new. Recall 80.0 %.")


def test_whether_edits_count_is_said_only_where_there_are_any():
    assert review_words({"is_reviewed": False}, 0) == []
    assert "the 1 edit in the review of this run is not counted" in review_words({}, 1)[0]
    counted = review_words({"is_reviewed": True, "n_rejected": 2}, 5)[0]
    assert counted.startswith("The accuracy includes the 5 edits in the review of this run. 2 rejected images are not")
    assert "rejected" not in review_words({"is_reviewed": True, "n_rejected": 0}, 5)[0]
