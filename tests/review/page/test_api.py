"""What the page's addresses answer, over a real connection."""

import json
import shutil

import pytest
from finished_runs import lines

from nngcd.review.session import Review

EVIL = "<img src=x onerror=window.hacked=true>"


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Host": "evil.example:{port}"}, {"Cookie": None},
     {"Cookie": "nngcd_review_{port}=guess"}],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/?t=guess", "/api/run", "/assets/style.css", "/img/id-a"])
def test_a_wrong_host_or_token_is_refused(client, path, headers):
    made = {name: value and value.format(port=client.door.port) for name, value in headers.items()}
    answer, content = client.ask(path, **made)
    assert answer.status == 403
    assert "Open the link" in json.loads(content)["error"]
    assert "set-cookie" not in {name.lower() for name, _ in answer.getheaders()}


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_cannot_use(client):
    answer, content = client.ask(f"/?t={client.door.token}", Cookie=None)
    assert answer.status == 200 and b"<html" in content
    cookie = answer.getheader("set-cookie").lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    policy = answer.getheader("content-security-policy")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert len(client.door.token) >= 43  # 256 bits in base64


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": None}, 403), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
     ({"Content_Type": "text/plain"}, 415), ({"Content_Type": "application/x-www-form-urlencoded"}, 415)],
)  # fmt: skip
def test_an_edit_from_another_page_is_refused(run, client, headers, status):
    body = {"version": 0, "changes": [{"op": "approve", "category": "owl"}]}
    assert client.post("/api/edits", body, **headers)[0] == status
    assert not run.edits.exists()


def test_too_much_at_once_is_refused(run, client):
    images = ["x" * 100] * 20_000
    status, _ = client.post("/api/edits", {"version": 0, "changes": [{"op": "reject", "images": images}]})
    assert status == 413 and not run.edits.exists()


@pytest.mark.parametrize("body", [b"{", {"version": 0}, {"version": 0, "changes": []}, [],
                                  {"version": 0, "changes": [{"op": "undo"}]},
                                  {"version": 0, "changes": [{"op": "approve", "category": "kiwi"}]}])  # fmt: skip
def test_what_cannot_be_done_changes_nothing(run, client, body):
    status, answer = client.post("/api/edits", body)
    assert status in (400, 422) and answer["error"]
    assert not run.edits.exists()


def test_an_answered_edit_is_in_the_log(run, client):
    status, answer = client.edit({"op": "rename", "category": "new-001", "name": "Tawny"})
    assert status == 200 and answer["version"] == 1 and "Tawny" in answer["words"]
    assert Review(run).state.categories["new-001"].name == "Tawny"


def test_an_edit_on_an_old_version_is_refused_and_the_new_version_told(run, client):
    assert client.edit({"op": "approve", "category": "owl"}, version=0)[0] == 200
    status, answer = client.edit({"op": "approve", "category": "crow"}, version=0)
    assert (status, answer["version"]) == (409, 1)
    assert len(lines(run)) == 1


def test_edits_of_another_program_are_seen(run, client):
    Review(run).approve("owl")
    assert client.get("/api/categories/owl")["is_approved"]
    assert client.edit({"op": "approve", "category": "crow"}, version=0)[0] == 409


def test_every_edit_and_fifty_undos(run, client):
    first = client.get("/api/categories?sort=name")
    by_name = {image[:-4].split("/")[1]: id_ for image, id_ in zip(
        client.page.desk.review.results["file_name"], client.page.desk.index.ids, strict=True)}  # fmt: skip
    changes = [
        [{"op": "move", "images": [by_name["i"]], "to": None, "name": EVIL}],
        [{"op": "split", "category": "new-001", "parts": [[by_name["e"], by_name["f"]], [by_name["g"], by_name["h"]]]}],
        [{"op": "merge", "categories": ["owl", "crow"], "to": "owl"}],
        [{"op": "reject", "images": [by_name["c"]]}, {"op": "approve", "category": "owl"}],
    ]
    for change in changes:
        assert client.edit(*change)[0] == 200
    found = {one["name"]: one for one in client.get("/api/categories")["items"]}
    assert found[EVIL]["size"] == 1 and found["owl"]["size"] == 3 and found["owl"]["is_approved"]
    fresh = client.page.desk.index
    assert {id_: fresh.size(id_) for id_ in fresh.numbers if fresh.size(id_)} == {
        id_: len(Review(run).state.members(id_)) for id_ in Review(run).state.live if Review(run).state.members(id_)
    }
    for _ in range(25):
        client.post("/api/redo", {"version": len(lines(run))})
        client.post("/api/undo", {"version": len(lines(run))})
    assert client.post("/api/undo", {"version": len(lines(run)), "n": 3})[0] == 200
    assert client.get("/api/categories?sort=name")["items"] == first["items"]
    assert all(line["is_undone"] for line in client.get("/api/log")["items"])


def test_lists_are_sorted_filtered_and_paged(client):
    assert [one["id"] for one in client.get("/api/categories?sort=size&n=2")["items"]] == ["new-001", "owl"]
    assert client.get("/api/categories?kind=new&status=open&q=NEW-002")["total"] == 1
    assert client.get("/api/categories?sort=queue")["items"][0]["id"] == "new-001"
    images = client.get("/api/categories/owl/images?order=doubtful&n=1")
    assert images["total"] == 3 and images["items"][0]["file_name"] == "_unlabelled/c.png"
    assert [one["id"] for one in client.get("/api/categories/new-002/nearest")["known"]] == ["owl", "crow"]
    assert client.ask("/api/categories?sort=nonsense")[0].status == 422
    assert client.ask("/api/categories?offset=-1")[0].status == 422
    assert [len(part) for part in client.get("/api/categories/new-001/parts?n=2")["parts"]] == [2, 2]
    similar = client.get(f"/api/similar/{images['items'][0]['id']}?n=3")["items"]
    assert similar[0]["id"] == images["items"][0]["id"] and len(similar) == 3


def test_a_pair_that_was_told_apart_is_not_asked_again(client):
    pair = client.get("/api/suggestions?kind=merge")["items"][0]
    ids = [pair["first"]["id"], pair["second"]["id"]]
    assert client.edit({"op": "apart", "categories": ids})[0] == 200
    left = client.get("/api/suggestions?kind=merge")["items"]
    assert ids not in [[one["first"]["id"], one["second"]["id"]] for one in left]


def test_pictures_come_by_id_with_an_etag_and_never_by_path(run, client, tmp_path):
    image = client.page.desk.index.ids[0]
    answer, content = client.ask(f"/img/{image}?s=512")
    assert answer.status == 200 and content[:2] == b"\xff\xd8"
    etag = answer.getheader("etag")
    assert client.ask(f"/img/{image}?s=512", If_None_Match=etag)[0].status == 304
    for path in ("/img/owl%2Fa.png", "/img/..%2Fconfig.yaml", f"/img/{image}?s=9999", "/assets/..%2Fapp.py"):
        assert client.ask(path)[0].status == 404
    (tmp_path / "data" / "owl" / "a.png").write_bytes((tmp_path / "data" / "crow" / "d.png").read_bytes())
    answer, content = client.ask(f"/img/{image}?s=full")
    assert answer.status == 404 and b"changed since the run" in content


def test_a_second_page_is_read_only_and_says_who_edits(run, client, start):
    second = start(run)
    why = second.get("/api/run")["why_read_only"]
    assert "already being reviewed by process" in why
    assert second.edit({"op": "approve", "category": "owl"})[0] == 403
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    assert second.get("/api/categories/owl")["is_approved"]


def test_a_run_that_is_deleted_is_said(run, client):
    shutil.rmtree(run.path)
    answer, content = client.ask("/api/run")
    assert answer.status == 410 and "is gone" in json.loads(content)["error"]


def test_images_that_were_moved_are_found_with_root_and_said_without(run, start, tmp_path):
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    lost = start(run, is_read_only=True)
    assert "nngcd review RUN --root" in lost.get("/api/run")["why_no_pictures"]
    assert lost.ask(f"/img/{lost.page.desk.index.ids[0]}")[0].status == 404
    found = start(run, is_read_only=True, root=tmp_path / "elsewhere")
    assert found.ask(f"/img/{found.page.desk.index.ids[0]}")[0].status == 200
