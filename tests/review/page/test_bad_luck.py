"""Events under an open page: a full disk, a clock that jumps, images and runs that are moved away and put back."""

import shutil

import pytest
from finished_runs import lines

from nngcd.core.environment import now
from nngcd.review.edit_log import EditLog
from nngcd.review.session import Review


@pytest.fixture
def full_disk(monkeypatch):
    """Nothing can be forced to the disk until the test ends this."""

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nngcd.review.edit_log.os.fsync", full)
    return monkeypatch


def test_an_edit_on_a_full_disk_is_not_made_and_can_be_repeated(run, client, full_disk):
    change = {"op": "approve", "category": "owl"}
    status, answer = client.edit(change)
    assert status == 507 and "No space left on device. The edit was not made" in answer["error"]
    assert not client.get("/api/categories/owl")["is_approved"]
    assert client.get("/api/run")["version"] == 0 and EditLog(run.edits).edits == []
    full_disk.undo()
    assert client.edit(change)[0] == 200
    assert Review(run).state == client.page.desk.review.state


def test_a_disk_that_is_really_full_keeps_every_answered_edit(small_disk, run, start):
    moved = type(run)(small_disk / "run")
    shutil.copytree(run.path, moved.path)
    client = start(moved)
    assert client.edit({"op": "rename", "category": "new-001", "name": "Tawny"})[0] == 200
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    made, refused = 1, 0
    for name in (f"{'long name ' * 15}{n}" for n in range(60)):
        status, _ = client.edit({"op": "rename", "category": "new-002", "name": name})
        made, refused = made + (status == 200), refused + (status == 507)
    assert refused and made + refused == 61
    filler.unlink()
    assert len(EditLog(moved.edits).edits) == client.get("/api/run")["version"] == made
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    assert Review(moved).state == client.page.desk.review.state


def test_a_clock_that_jumps_changes_no_order(run, client, monkeypatch):
    times = iter(["2031-01-01T00:00:00+00:00", "1999-12-31T23:59:59+00:00", now()])
    monkeypatch.setattr("nngcd.review.session.now", lambda: next(times))
    for op in ("approve", "unapprove", "approve"):
        assert client.edit({"op": op, "category": "owl"})[0] == 200
    assert [line["t"][:4] for line in lines(run)][:2] == ["2031", "1999"]
    assert [line["op"] for line in client.get("/api/log")["items"]] == ["approve", "unapprove", "approve"]
    assert Review(run).state == client.page.desk.review.state
    monkeypatch.undo()
    assert client.post("/api/undo", {"version": 3, "n": 3})[0] == 200
    assert Review(run).state == Review(run).first


def test_images_that_are_moved_away_and_back_under_the_page(run, client, tmp_path):
    image = client.page.desk.index.ids[0]
    (tmp_path / "data").rename(tmp_path / "away")
    answer, content = client.ask(f"/img/{image}")
    assert answer.status == 404 and b"cannot be opened" in content
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200, "editing needs no pictures"
    (tmp_path / "away").rename(tmp_path / "data")
    assert client.ask(f"/img/{image}")[0].status == 200


def test_a_run_that_is_moved_away_and_put_back_goes_on(run, client, tmp_path):
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    run.path.rename(tmp_path / "away")
    status, answer = client.edit({"op": "approve", "category": "crow"}, version=1)
    assert status == 410 and "Put the folder back" in answer["error"]
    assert not run.path.exists(), "nothing is written where the run was"
    (tmp_path / "away").rename(run.path)
    assert client.edit({"op": "approve", "category": "crow"}, version=1)[0] == 200
    assert [edit.op for edit in Review(run).log.edits] == ["approve", "approve"]


def test_a_log_that_is_put_back_to_an_older_copy_is_read_again(run, client):
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    backup = run.edits.read_bytes()
    assert client.edit({"op": "rename", "category": "new-001", "name": "Tawny"})[0] == 200
    run.edits.write_bytes(backup)
    assert client.get("/api/run")["version"] == 1
    assert client.edit({"op": "approve", "category": "crow"}, version=2)[0] == 409
    assert client.edit({"op": "approve", "category": "crow"}, version=1)[0] == 200
    assert Review(run).state == client.page.desk.review.state
