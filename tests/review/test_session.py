import pytest
import yaml
from finished_runs import finished_run, lines, results_table

from nngcd.core.errors import DataError, UserError
from nngcd.core.run_folder import RunFolder
from nngcd.results.suspicions import AlikePair
from nngcd.review.session import Review


def test_everything_is_there_again_when_the_run_is_opened_again(run):
    review = Review(run)
    review.rename("new-001", "Tawny")
    review.move(["_unlabelled/i.png"], to="owl")
    review.reject(["id-c"])
    review.approve("owl")
    review.undo()
    again = Review(run)
    assert again.state == review.state
    assert again.state.images["id-i"].category == "owl"
    assert again.can_undo and again.can_redo
    assert again.redo().op == "undo"
    assert again.state.categories["owl"].is_approved


def test_undo_and_redo_walk_back_and_forth(run):
    review = Review(run)
    first = review.state
    review.rename("new-001", "A")
    named = review.state
    review.merge(["new-001", "new-002"])
    merged = review.state
    assert (review.undo().op, review.state) == ("merge", named)
    assert (review.undo().op, review.state) == ("rename", first)
    with pytest.raises(UserError, match=r"^There is nothing to undo\.$"):
        review.undo()
    review.redo()
    assert review.state == named
    review.redo()
    assert review.state == merged
    review.undo()
    review.approve("owl")  # a new edit: what was undone cannot be redone any more
    with pytest.raises(UserError, match="nothing to redo"):
        review.redo()


def test_of_merged_categories_the_known_one_stays_then_the_named_one(run):
    review = Review(run)
    review.rename("new-002", "Barn")
    assert review.merge(["new-001", "new-002"]) == "new-002"
    assert review.merge(["new-002", "owl"]) == "owl"
    review.undo()
    assert review.merge(["owl"], into="new-002") == "new-002"


def test_a_split_follows_the_features_and_is_the_same_every_time(run):
    review = Review(run)
    assert review.propose_split("new-001") == [["id-e", "id-f"], ["id-g", "id-h"]]
    assert review.split("new-001") == ["new-004", "new-005"]
    assert review.state.members("new-005") == ["id-g", "id-h"]
    # The parts are in the log: replaying needs neither features nor clustering.
    assert lines(run)[0]["args"]["parts"] == {"new-004": ["id-e", "id-f"], "new-005": ["id-g", "id-h"]}
    run.features.unlink()
    assert Review(run).state == review.state


def test_of_a_split_known_category_the_part_with_the_labelled_images_keeps_the_name(run):
    review = Review(run)
    assert review.split("owl", parts=[["id-b", "id-c"], ["id-a"]]) == ["new-004", "owl"]
    assert review.state.members("owl") == ["id-a"]
    assert lines(run)[0]["args"]["parts"] == {"new-004": ["id-b", "id-c"], "owl": ["id-a"]}
    assert Review(run).state == review.state
    review.undo()
    assert review.state == review.first
    assert review.split("owl") == ["owl", "new-005"]


def test_a_split_known_category_without_labelled_images_leaves_its_name_to_the_larger_part(run):
    review = Review(run)
    review.reject(["id-a"])
    review.move(["id-e"], to="owl")
    assert review.split("owl", parts=[["id-b"], ["id-c", "id-e"]]) == ["new-004", "owl"]


def test_a_run_from_a_review_has_ids_of_its_own(run):
    settings = yaml.safe_load(run.config.read_text())
    run.config.write_text(yaml.safe_dump(settings | {"reading": {"round": 2}}))
    review = Review(run)
    assert review.split("new-001") == ["new2-001", "new2-002"]
    assert Review(run).move(["id-a"]) == "new2-003"
    run.config.write_text(yaml.safe_dump(settings | {"reading": {"round": "x"}}))
    with pytest.raises(DataError, match=r"config\.yaml is damaged \(reading\.round is 'x'\)"):
        Review(run).move(["id-b"])


def test_ids_are_never_used_twice_not_even_after_an_undo(run):
    review = Review(run)
    assert review.split("new-001") == ["new-004", "new-005"]  # new-003 has no images, but predictions may fall into it
    review.undo()
    assert Review(run).split("new-001") == ["new-006", "new-007"]
    review = Review(run)
    review.rename("new-006", "new-009")
    assert review.move(["id-a"]) == "new-010"


def test_images_are_told_by_id_file_name_or_bare_name(tmp_path):
    results = results_table()
    results.loc[1, "file_name"] = "_unlabelled/d.png"  # as crow/d.png
    results.loc[[7, 8], "file_name"] = "_unlabelled/twice.png"
    review = Review(finished_run(tmp_path / "run", results=results))
    review.move(["e.png", "_unlabelled/f.png", "id-g", "crow/d.png"], to="owl")
    assert [review.state.images[f"id-{image}"].category for image in "efgd"] == ["owl"] * 4
    with pytest.raises(UserError, match=r"'d\.png' matches 2 images: '_unlabelled/d\.png', 'crow/d\.png'\. Give"):
        review.move(["d.png"], to="owl")
    with pytest.raises(UserError, match=r"'_unlabelled/twice\.png' matches 2 images: '\S+', '\S+'\. Give one"):
        review.reject(["_unlabelled/twice.png"])
    with pytest.raises(UserError, match=r"no image 'crow/dd\.png' in this run\. Did you mean 'crow/d\.png'"):
        review.reject(["crow/dd.png"])


def test_a_category_can_be_told_by_its_name(run):
    review = Review(run)
    review.rename("new-001", "Tawny")
    review.rename("Tawny", "Tawny owl")
    review.approve("Tawny owl")
    review.unapprove("Tawny owl")
    assert review.move(["id-i"], to="Tawny owl") == "new-001"
    assert review.merge(["new-002"], into="Tawny owl") == "new-001"
    assert review.split("Tawny owl", parts=[["id-i"], ["id-e", "id-f", "id-g", "id-h"]]) == ["new-004", "new-005"]
    assert {line["args"].get("category", "new-001") for line in lines(run)} == {"new-001"}, "the log knows ids only"


def test_parts_can_be_given(run):
    review = Review(run)
    parts = [["_unlabelled/e.png"], ["id-f", "id-g", "id-h"]]
    assert review.split("new-001", parts=parts) == ["new-004", "new-005"]
    assert review.state.members("new-004") == ["id-e"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda r: r.split("new-002"), "1 images, too few different ones for 2 parts"),
        (lambda r: r.split("new-001", parts=1), "at least 2"),
        (lambda r: r.split("gone"), "no category 'gone'"),
        (lambda r: r.move("id-a", to="owl"), "give a list of images"),
        (lambda r: r.move(3, to="owl"), "give a list of images, not 3"),
        (lambda r: r.move(["owl/aa.png"], to="owl"), "no image 'owl/aa.png'"),
        (lambda r: r.merge([]), "at least two"),
        (lambda r: r.merge("owl"), "give a list of categories, not 'owl'"),
        (lambda r: r.tell_apart("owl"), "give a list of categories, not 'owl'"),
        (lambda r: r.rename(1, "Tawny"), "give a category by its id or name, not 1"),
        (lambda r: r.rename("new-001", None), "the name for 'new-001' must be text, not None"),
        (lambda r: r.merge(["owl", "owk"]), "no category 'owk'. Did you mean 'owl'"),
    ],
)
def test_mistakes_leave_no_trace(run, edit, message):
    review = Review(run)
    with pytest.raises(UserError, match=message):
        edit(review)
    assert review.state == review.first
    assert not run.edits.exists()


def test_an_unfinished_run_cannot_be_reviewed(run):
    run.summary.unlink()
    with pytest.raises(DataError, match="is not finished"):
        Review(RunFolder.open(run.path))


def test_a_group_that_may_be_hidden_can_be_split_off(run):
    table, known = results_table(), "owl"
    table.loc[table["label_given"].isna(), "category"] = known
    review = Review(finished_run(run.path.parent / "swallowed", results=table.assign(confidence=0.1)))
    rest, group = review.propose_hidden(known)
    assert set(group) == set(table.loc[table["label_given"].isna(), "image_id"])
    first, second = review.split(known, [rest, group])
    assert (first, set(review.state.members(second))) == (known, set(group))
    assert review.propose_hidden(known) == []


def test_pairs_that_may_be_one_are_proposed_until_one_of_them_is_gone(run, monkeypatch):
    pairs = [AlikePair("new-001", "new-002", 1.0), AlikePair("new-002", "new-003", 2.0)]
    monkeypatch.setattr("nngcd.review.session.alike_pairs", lambda *_: pairs)
    review = Review(run)
    assert review.propose_merges() == [["new-001", "new-002"], ["new-002", "new-003"]]
    review.merge(*review.propose_merges()[:1])
    assert review.propose_merges() == []


def test_a_batch_is_one_line_and_one_undo(run):
    review = Review(run)
    first = review.state
    with review.batch():
        fresh = review.move(["i.png", "h.png"])
        review.rename(fresh, "Barn")
        review.merge(["owl", "crow"])
    assert [line["op"] for line in lines(run)] == ["batch"]
    assert review.state.images["id-i"].category == fresh == "new-004"
    assert review.state.categories["crow"].into == ("owl",)
    assert Review(run).state == review.state
    review.undo()
    assert review.state == first
    # The id was used once, and the name Barn is not taken.
    assert review.move(["i.png"]) == "new-005"


def test_of_a_batch_that_fails_nothing_is_done(run):
    review = Review(run)
    first = review.state
    with pytest.raises(UserError, match="no category 'kiwi'"), review.batch():
        review.approve("owl")
        review.approve("kiwi")
    assert review.state == first and not run.edits.exists()


def test_undo_is_refused_inside_a_batch(run):
    review = Review(run)
    review.approve("crow")  # there is something to undo
    with pytest.raises(UserError, match="undo: not possible inside a batch"), review.batch():
        review.approve("owl")
        review.undo()
    assert len(lines(run)) == 1 and not review.state.categories["owl"].is_approved
    review.approve("owl")
    assert len(lines(run)) == 2


def test_what_was_told_apart_is_not_proposed_again(run, monkeypatch):
    pair = AlikePair("new-001", "new-002", 0.1)
    monkeypatch.setattr("nngcd.review.session.alike_pairs", lambda *_: [pair])
    review = Review(run)
    assert review.propose_merges() == [["new-001", "new-002"]]
    review.tell_apart(["new-002", "new-001"])
    assert review.propose_merges() == Review(run).propose_merges() == []
    with pytest.raises(UserError, match="nothing would change"):
        review.tell_apart(["new-001", "new-002"])
    review.undo()
    assert review.propose_merges() == [["new-001", "new-002"]]
