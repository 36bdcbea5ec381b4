"""The map's binary columns, read back as the page reads them."""

import json

import numpy as np
import pytest
from finished_runs import lines

TYPES = {"float32": "<f4", "int32": "<i4", "uint8": "u1"}


def columns(content):
    """Return the header and the columns of an answer."""
    length = int.from_bytes(content[:4], "little")
    header, at, found = json.loads(content[4 : 4 + length]), 4 + length, {}
    for name, kind in header["columns"]:
        assert at % 4 == 0
        dtype = np.dtype(TYPES.get(kind) or f"S{kind.removeprefix('char')}")
        found[name] = np.frombuffer(content, dtype, header["n"], at)
        at += -(-found[name].nbytes // 4) * 4
    assert at == len(content)
    return header, found


def test_every_image_is_a_point(client):
    answer, content = client.ask("/api/points.bin")
    header, found = columns(content)
    assert (answer.status, header["n"], header["version"]) == (200, 9, 0)
    index = client.page.desk.index
    assert [one.decode() for one in found["id"]] == index.ids
    names = [header["categories"][at] for at in found["category"]]
    assert names == list(client.page.desk.review.results["category"])
    assert [header["statuses"][at] for at in found["status"]][:5] == ["known"] * 4 + ["new"]
    assert np.allclose(found["confidence"], client.page.desk.confidence_n, atol=1e-6)
    for axis in "xy":
        assert 0 <= found[axis].min() <= found[axis].max() <= 1
    assert not found["reviewed"].any()


def test_what_has_not_changed_is_not_sent_again(client):
    etag = client.ask("/api/points.bin")[0].getheader("etag")
    assert client.ask("/api/points.bin", If_None_Match=etag)[0].status == 304
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    assert client.ask("/api/points.bin", If_None_Match=etag)[0].status == 200


def test_changed_points_lead_from_any_version_to_the_present_one(run, client):
    ids = client.page.desk.index.ids
    everything = [columns(client.ask("/api/points.bin")[1])[1]]
    for change in (
        {"op": "reject", "images": [ids[2]]},
        {"op": "split", "category": "new-001", "parts": [ids[4:6], ids[6:8]]},
        {"op": "merge", "categories": ["owl", "crow"], "to": "owl"},
        {"op": "approve", "category": "owl"},
        {"op": "move", "images": [ids[8]], "to": None},
    ):
        assert client.edit(change)[0] == 200
        everything.append(columns(client.ask("/api/points.bin")[1])[1])
    assert client.post("/api/undo", {"version": len(lines(run)), "n": 2})[0] == 200
    now = columns(client.ask("/api/points.bin")[1])[1]
    for version, before in enumerate(everything):
        header, changed = columns(client.ask(f"/api/points/categories.bin?version={version}")[1])
        assert header["version"] == 7
        for name in ("category", "status", "reviewed"):
            patched = before[name].copy()
            patched[changed["row"]] = changed[name]
            assert np.array_equal(patched, now[name])


def test_a_version_that_never_was_is_refused(client):
    assert client.ask("/api/points/categories.bin?version=1")[0].status == 422


def test_the_map_is_kept_in_the_run_and_a_damaged_one_is_made_anew(run, client, start):
    first = columns(client.ask("/api/points.bin")[1])[1]
    kept = run.edits.parent / "map.safetensors"
    assert kept.is_file()
    kept.write_bytes(b"torn")
    again = columns(start(run, is_read_only=True).ask("/api/points.bin")[1])[1]
    assert np.array_equal(first["x"], again["x"]) and np.array_equal(first["y"], again["y"])
    assert kept.read_bytes() == b"torn"  # a page that may not edit writes nothing


@pytest.mark.slow
def test_the_map_of_a_large_run_is_made_before_it_is_asked_for(run, client, monkeypatch):
    monkeypatch.setattr("nngcd.review.page.app.SECONDS_BEFORE_PREPARING", 0)
    client.ask("/")
    assert client.page._preparing is None, "this run is small"
    monkeypatch.setattr("nngcd.review.page.app.LARGE", 9)
    client.ask("/")
    client.page._preparing.join(300)
    child = client.page.map.places._child
    assert child is not None and child.wait(300) == 0
    assert (run.edits.parent / "map.safetensors").is_file()
    assert client.ask("/api/points.bin")[0].status == 200


def test_a_page_that_ends_ends_the_making_of_its_map(client):
    places = client.page.map.places
    places.begin()
    child = places._child
    client.page.close()
    assert child.returncode is not None
    places.begin()
    assert places._child is child, "a closed page begins nothing"


def test_chosen_images_come_by_id(client):
    ids = client.page.desk.index.ids
    found = client.get(f"/api/images?id={ids[3]}&id=unknown&id={ids[0]}")
    assert [one["id"] for one in found["items"]] == [ids[3], ids[0]]
