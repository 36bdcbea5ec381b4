from finished_runs import finished_run, results_table

from nngcd.review.changes import changes_between
from nngcd.review.session import Review


def test_changes_are_told_by_name_and_by_shared_images(run, tmp_path):
    review = Review(run)
    review.rename("new-001", "Tawny")
    table = results_table()
    now = ["owl", "owl", "crow", "crow", "Tawny", "Tawny", "Tawny", "new2-002", "new2-001"]
    new = finished_run(tmp_path / "run-2", results=table.assign(category=now, label=now))
    found = changes_between(review.state, new)
    assert (found.n_images, found.n_moved) == (9, 2)
    assert found.moved == [{"from": "Tawny", "to": "new2-002", "n": 1}, {"from": "owl", "to": "crow", "n": 1}]
    assert found.renamed == {"new-002": "new2-001"}
    assert (found.appeared, found.vanished) == (["new2-002"], [])


def test_a_category_that_was_taken_apart_has_vanished(run, tmp_path):
    now = ["owl", "owl", "owl", "crow", "crow", "crow", "owl", "owl", "new-001"]
    new = finished_run(tmp_path / "run-2", results=results_table().assign(category=now, label=now))
    found = changes_between(Review(run).state, new)
    assert found.vanished == ["new-002"] and found.appeared == []
    assert found.n_moved == 5
