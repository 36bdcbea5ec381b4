import numpy as np
import pandas as pd
import pytest
from finished_runs import finished_run, results_table

from nngcd.review.reviewed import decisions, reviewed_results
from nngcd.review.session import Review


def test_without_edits_the_results_are_those_of_the_run(run):
    found = reviewed_results(run)
    before = results_table()
    table = found.table[: len(before)]
    for column in before.columns:
        assert table[column].astype(object).fillna("-").tolist() == before[column].astype(object).fillna("-").tolist()
    assert not found.table["reviewed"].any()
    assert found.n_edits == 0
    assert found.categories["id"].tolist() == ["crow", "owl", "new-001", "new-002"]
    assert found.categories["size"].tolist() == [1, 3, 4, 1]
    # A file that could not be used has a row, an empty folder has not.
    assert found.table.iloc[-1][["file_name", "status"]].tolist() == ["_unlabelled/torn.png", "unreadable"]
    assert len(found.table) == 10
    assert list(found.table.columns[-6:-2]) == ["reviewed", "review_action", "reviewed_at", "possible_label_error"]


def test_edits_change_category_label_status_and_say_who_decided(run):
    review = Review(run)
    review.rename("new-001", "Tawny")
    review.approve("new-001")
    review.move(["id-i"], to="owl")
    review.move(["id-b"], to="new-002")
    review.reject(["id-c"])
    table = reviewed_results(run).table.set_index("image_id")
    columns = ["category", "label", "status", "reviewed", "review_action"]
    assert table.loc["id-e", columns].tolist() == ["new-001", "Tawny", "new", True, "approve"]
    assert table.loc["id-i", columns].tolist() == ["owl", "owl", "known", True, "move"]
    assert table.loc["id-a", columns].fillna("-").tolist() == ["owl", "owl", "known", False, "-"]
    assert table.loc["id-c", columns].fillna("-").tolist() == ["-", "-", "excluded", True, "reject"]
    assert pd.Timestamp(table.loc["id-c", "reviewed_at"]).tzinfo is not None
    # The model's confidence is that of the category in the row, where the model has one.
    assert table.loc["id-e", "confidence"] == 0.8
    assert table.loc["id-i", "confidence"] == 0.3
    assert np.isnan(table.loc["id-b", "confidence"])


def test_further_columns_pass_through_and_doubt_ends_where_a_person_has_decided(tmp_path):
    results = results_table()
    results.loc[[1, 4, 8], "status"] = "unsure"
    run = finished_run(tmp_path / "run", results=results)
    review = Review(run)
    review.approve("new-001")
    review.move(["id-i"], to="new-002")
    found = reviewed_results(run).table.set_index("image_id")
    assert found.loc[["id-b", "id-e", "id-i"], "status"].tolist() == ["unsure", "new", "new"]
    assert found["novelty"].iloc[0] == 0.5
    assert list(found.columns[-3:]) == ["possible_label_error", "split", "group"]


def labels_of(run):
    table = decisions(reviewed_results(run)).fillna("-")
    return {image[-1]: (label, source) for image, label, source in zip(
        table["image_id"], table["label"], table["source"], strict=True)}  # fmt: skip


def test_decisions_become_labels_and_each_says_where_it_comes_from(run):
    review = Review(run)
    review.rename("new-001", "Tawny")
    review.merge(["new-002", "crow"])
    review.rename("crow", "Raven")
    review.reject(["id-h"])
    review.move(["id-b"], to="new-001")
    assert labels_of(run) == {
        "a": ("owl", "given"),
        "b": ("Tawny", "moved"),
        "c": ("-", "-"),
        "d": ("Raven", "given"),
        "e": ("Tawny", "named"),
        "f": ("Tawny", "named"),
        "g": ("Tawny", "named"),
        "h": ("-", "rejected"),
        "i": ("Raven", "merged"),
    }
    review.approve("owl")
    assert labels_of(run)["c"] == ("owl", "approved")


def test_an_approved_category_without_a_name_is_known_by_its_id(run):
    Review(run).approve("new-002")
    assert labels_of(run)["i"] == ("new-002", "approved")


@pytest.mark.parametrize("edit", [lambda r: r.split("new-001"), lambda r: r.merge(["new-001", "new-002"])])
def test_cutting_and_joining_new_categories_alone_says_nothing_about_names(run, edit):
    edit(Review(run))
    assert {image: source for image, (_, source) in labels_of(run).items() if source != "-"} == {
        "a": "given", "d": "given"}  # fmt: skip


def test_a_split_changes_no_label_that_was_given(run):
    review = Review(run)
    review.move(["id-d"], to="owl")
    assert review.split("owl", parts=[["id-a", "id-b"], ["id-c", "id-d"]]) == ["owl", "new-004"]
    assert labels_of(run)["a"] == ("owl", "given")
    assert labels_of(run)["d"] == ("-", "-"), "moved away from crow by hand, then split off: nobody says what it is"
    review.undo()
    review.undo()
    assert review.split("owl", parts=[["id-a"], ["id-b", "id-c"]]) == ["owl", "new-005"]
    assert (labels_of(run)["a"], labels_of(run)["b"]) == (("owl", "given"), ("-", "-"))


def test_a_labelled_image_in_a_part_of_its_own_gets_another_label_only_from_a_name_or_a_move(tmp_path):
    results = results_table()
    results.loc[[1, 2], "label_given"] = "owl"
    run = finished_run(tmp_path / "run", results=results)
    review = Review(run)
    assert review.split("owl", parts=[["id-a"], ["id-b", "id-c"]]) == ["new-004", "owl"]
    assert labels_of(run)["a"] == ("owl", "given")
    review.approve("new-004")
    assert labels_of(run)["a"] == ("owl", "given"), "an id is no name"
    review.rename("owl", "Tawny")
    assert labels_of(run)["a"] == labels_of(run)["b"] == ("Tawny", "given"), "the label was renamed"
    review.rename("new-004", "Barn")
    assert labels_of(run)["a"] == ("Barn", "approved")
    review.move(["id-a"], to="crow")
    assert labels_of(run)["a"] == ("crow", "moved")
