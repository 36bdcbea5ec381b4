import json

import pytest
from finished_runs import lines

from nngcd.core.errors import DataError, NngcdWarning, ResourceError
from nngcd.review import edit_log
from nngcd.review.edit_log import ChangedElsewhereError, EditLog
from nngcd.review.session import Review


def test_a_line_says_when_who_what_and_what_was_before(run):
    Review(run, user="ana").rename("new-001", "Tawny owl \N{OWL}")
    (line,) = lines(run)
    assert list(line) == ["t", "user", "op", "args", "before", "sha256"]
    assert (line["user"], line["op"]) == ("ana", "rename")
    assert line["args"] == {"category": "new-001", "name": "Tawny owl \N{OWL}"}
    assert line["before"]["categories"]["new-001"]["name"] == "new-001"


def test_the_log_is_only_added_to(run):
    review = Review(run)
    review.reject(["id-h"])
    before = run.edits.read_bytes()
    review.undo()
    assert run.edits.read_bytes().startswith(before)
    assert [line["op"] for line in lines(run)] == ["reject", "undo"]


def test_a_crash_anywhere_in_an_append_loses_at_most_that_edit(run):
    review = Review(run)
    review.rename("new-001", "Tawny")
    whole = run.edits.read_bytes()
    review.move(["id-i"], to="crow")
    both = run.edits.read_bytes()
    for end in range(len(whole) + 1, len(both) - 1, 7):
        run.edits.write_bytes(both[:end])
        with pytest.warns(NngcdWarning, match="incomplete"):
            torn = Review(run)
        assert [edit.op for edit in torn.log.edits] == ["rename"]
        torn.approve("crow")  # heals
        assert [line["op"] for line in lines(run)] == ["rename", "approve"]
        assert run.edits.read_bytes().startswith(whole)


def test_a_last_line_without_its_end_is_whole(run):
    Review(run).rename("new-001", "Tawny")
    run.edits.write_bytes(run.edits.read_bytes().rstrip(b"\n"))
    review = Review(run)
    assert review.state.categories["new-001"].name == "Tawny"
    review.approve("new-001")
    assert [line["op"] for line in lines(run)] == ["rename", "approve"]


@pytest.mark.parametrize(
    "damage", ["no json", '{"op": "rename"}', '{"t":1,"user":"x","op":"fly","args":{},"before":{}}']
)
def test_a_damaged_line_in_the_middle_is_named(run, damage):
    Review(run).rename("new-001", "Tawny")
    run.edits.write_text(damage + "\n" + run.edits.read_text())
    with pytest.raises(DataError, match=r"line 1 of .*edits.jsonl is damaged"):
        Review(run)


def test_a_line_that_is_not_what_was_written_is_named(run):
    Review(run).rename("new-001", "Tawny")
    run.edits.write_text(run.edits.read_text().replace("Tawny", "Tawnx"))
    with pytest.raises(DataError, match=r"R03: line 1 of .*edits\.jsonl is damaged"):
        Review(run)


def with_digest(values):
    return json.dumps({**values, "sha256": edit_log._digest(values)}) + "\n"


def test_a_log_of_another_run_is_refused(run):
    Review(run).rename("new-001", "Tawny")
    (line,) = lines(run)
    del line["sha256"]
    run.edits.write_text(with_digest(json.loads(json.dumps(line).replace("new-001", "new-999"))))
    with pytest.raises(DataError, match=r"R03: .* does not match"):
        Review(run)
    run.edits.write_text(with_digest({**line, "op": "undo", "args": {}}))
    with pytest.raises(DataError, match="does not match"):
        Review(run)


@pytest.mark.parametrize(
    "restore",
    [
        {"images": [], "categories": {"new-001": None}},
        {"images": [{"category": "elsewhere", "action": None, "at": None, "ids": ["id-a"]}], "categories": {}},
        {"images": [{"category": "owl", "action": None, "at": None, "ids": ["id-zzz"]}], "categories": {}},
        {"images": [], "categories": {"new-003": {"name": 3, "kind": "new", "into": []}}},
        {"images": [], "categories": {"new-003": {"name": "x", "kind": "old", "into": []}}},
        {"images": [], "categories": {"new-003": {"name": "x", "kind": "new", "into": ["nowhere"]}}},
        {"images": [], "categories": {"new-003": {"name": "x", "kind": "new", "into": ["new-003"]}}},
    ],
)  # fmt: skip
def test_a_log_that_leads_where_no_edits_do_is_refused(run, restore):
    Review(run).rename("new-001", "Tawny")
    (line,) = lines(run)
    undo = {
        "t": line["t"],
        "user": "x",
        "op": "undo",
        "args": {"edit": 0, "restore": restore},
        "before": line["before"],
    }
    run.edits.write_text(json.dumps(line) + "\n" + json.dumps(undo) + "\n")
    with pytest.raises(DataError, match=r"R03: .*edits\.jsonl"):
        Review(run)


def test_of_two_windows_the_second_must_reload_and_nothing_is_lost(run):
    first, second = Review(run), Review(run)
    first.rename("new-001", "Tawny")
    with pytest.raises(ChangedElsewhereError, match="changed elsewhere"):
        second.rename("new-002", "Barn")
    assert second.state.categories["new-002"].name == "new-002"
    Review(run).rename("new-002", "Barn")
    assert [line["args"]["name"] for line in lines(run)] == ["Tawny", "Barn"]


def test_an_edit_that_cannot_be_written_is_not_made(run, monkeypatch):
    review = Review(run)
    review.rename("new-001", "Tawny")
    before = run.edits.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(edit_log.os, "fsync", full)
    with pytest.raises(ResourceError, match=r"No space left on device\. The edit was not made"):
        review.approve("new-001")
    assert run.edits.read_bytes() == before
    assert not review.state.categories["new-001"].is_approved
    monkeypatch.undo()
    review.approve("new-001")
    assert len(EditLog(run.edits).edits) == 2
