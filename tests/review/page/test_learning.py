"""Training from the page, with a small program in the place of nngcd that speaks as it does."""

import sys
import time

import pytest
from finished_runs import finished_run

from nngcd.core.run_folder import RunFolder
from nngcd.review.page.learning import AlreadyLearningError, Learning

PROGRAM = """
import json, shutil, sys, time
from pathlib import Path
args = sys.argv[2:]
print("Loading…")
print(json.dumps({{"said": "4 of 9 images have a label now"}}), flush=True)
out = Path(args[args.index("--out" if "--out" in args else "--resume") + 1])
way = {way!r}
if way == "fails":
    print("error: D01: the images are gone", flush=True)
    sys.exit(3)
out.mkdir(exist_ok=True)
(out / "config.yaml").touch()
print(json.dumps({{"stage": "training", "done": 1, "total": 4, "note": "loss 2.0"}}), flush=True)
if way == "waits" and "--resume" not in args:
    time.sleep(600)
(out / "summary.json").unlink(missing_ok=True)
shutil.copytree({made!r}, out, dirs_exist_ok=True)
"""


@pytest.fixture
def program(tmp_path):
    """Give a command that learns in one of three ways: done, fails, waits."""
    made = finished_run(tmp_path / "made", data=tmp_path / "data").path

    def write(way):
        path = tmp_path / f"{way}.py"
        path.write_text(PROGRAM.format(way=way, made=str(made)), encoding="utf-8")
        return [sys.executable, str(path)]

    return write


def until(learning, state, version=1):
    for _ in range(6000):
        facts = learning.facts(version)
        if facts["state"] == state:
            return facts
        time.sleep(0.02)
    raise AssertionError(facts)


def until_line(learning, text):
    for _ in range(6000):
        if text in learning.facts(1)["line"]:
            return
        time.sleep(0.02)
    raise AssertionError(learning.facts(1))


def test_a_new_run_is_made_beside_the_reviewed_one(run, program):
    learning = Learning(run, program("done"))
    assert learning.facts(1)["state"] == "idle"
    learning.start(1)
    facts = until(learning, "done")
    assert facts["run"] == f"{run.path}-2" and facts["share"] == 1.0
    assert RunFolder(run.path.with_name("run-2")).is_complete
    assert Learning(run).facts(1)["state"] == "done"  # a page that is opened later knows it, too


def test_a_failure_is_said_in_the_words_of_the_command(run, program):
    learning = Learning(run, program("fails"))
    learning.start(1)
    assert until(learning, "failed")["line"] == "D01: the images are gone"


def test_a_stopped_run_is_resumed_unless_the_review_was_changed(run, program):
    learning = Learning(run, program("waits"))
    learning.start(1)
    until_line(learning, "training 1 of 4")
    assert learning.facts(1)["share"] == 0.25
    with pytest.raises(AlreadyLearningError):
        learning.start(1)
    learning.stop()
    assert learning.facts(1)["state"] == "idle"
    assert learning.facts(1)["can_resume"] and not learning.facts(2)["can_resume"]
    learning.start(1)
    assert until(learning, "done")["run"] == f"{run.path}-2"


def test_the_page_shows_labels_progress_and_changes(run, start, program):
    client = start(run)
    lessons = client.page.lessons
    lessons.learning = Learning(run, program("done"))
    assert client.get("/api/learn")["labels"] == 2
    assert client.post("/api/learn", {})[0] == 422  # nothing was reviewed
    assert client.edit({"op": "rename", "category": "new-001", "name": "Tawny"})[0] == 200
    assert client.post("/api/learn", {"version": 0})[0] == 409
    assert client.post("/api/learn", {"version": 1}, Origin="http://evil.example")[0] == 403
    status, facts = client.post("/api/learn", {"version": 1})
    assert (status, facts["labels"]) == (200, 6)
    while facts["state"] == "running":
        facts = client.get("/api/learn")
    assert facts["state"] == "done", facts
    assert facts["changes"]["n_moved"] == 0 and facts["changes"]["renamed"] == {"Tawny": "new-001"}


def test_a_page_that_ends_stops_what_it_started(run, start, program):
    client = start(run)
    client.page.lessons.learning = learning = Learning(run, program("waits"))
    assert client.edit({"op": "approve", "category": "owl"})[0] == 200
    assert client.post("/api/learn", None)[0] == 200
    until_line(learning, "training")
    answer, _ = client.ask("/api/learn", method="DELETE", body={}, Origin=f"http://{client.host}",
                           Content_Type="application/json")  # fmt: skip
    assert answer.status == 200 and learning.facts(1)["state"] == "idle"


def test_a_read_only_page_trains_nothing(run, start):
    client = start(run, is_read_only=True)
    assert client.post("/api/learn", {})[0] == 403
    assert not (run.path.with_name("run-2")).exists()


def test_the_number_in_a_name_goes_on(tmp_path, program):
    learning = Learning(finished_run(tmp_path / "trees-2"), program("fails"))
    learning.start(1)
    assert until(learning, "failed")["run"].endswith("trees-3")
