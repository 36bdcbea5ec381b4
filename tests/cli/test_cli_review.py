"""`nngcd review` as a program of its own: started, stopped, killed."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from finished_runs import finished_run

from nngcd.review.session import Review

PROGRAM = [sys.executable, "-c", "from nngcd.cli import program; program()", "review"]


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run")


@pytest.fixture
def program(run):
    """The program, after it has said where its page is; its link."""
    pytest.importorskip("starlette", reason="the review page is not installed (extra `review`)")
    pytest.importorskip("uvicorn")
    started = subprocess.Popen([*PROGRAM, str(run.path), "--no-browser", "--port", "0"], stdout=subprocess.PIPE,
                               text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
    while not (found := re.search(r"http://127.0.0.1:(\d+)/\?t=(\S+)", line := started.stdout.readline())):
        assert line, "the program ended"
    yield started, int(found[1]), found[2]
    started.kill()
    started.wait()


def edit(port, token, version, **change):
    headers = {"Cookie": f"nngcd_review_{port}={token}", "Origin": f"http://127.0.0.1:{port}",
               "Content-Type": "application/json"}  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/api/edits", json.dumps({"version": version, "changes": [change]}), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly(run, program):
    started, port, token = program
    assert edit(port, token, 0, op="approve", category="owl")[0] == 200
    started.send_signal(signal.SIGINT)
    assert started.wait(300) == 0
    assert f"All edits are in {run.edits}" in started.stdout.read()


@pytest.mark.slow
def test_a_killed_server_keeps_every_answered_edit_and_frees_the_run(run, program):
    started, port, token = program
    for version in range(20):
        op = "approve" if version % 2 == 0 else "unapprove"
        assert edit(port, token, version, op=op, category="owl")[0] == 200
    started.kill()
    started.wait()
    assert len(Review(run).log.edits) == 20
    from nngcd.review.page.desk import seat

    with seat(run, is_read_only=False) as why:
        assert why == ""


def test_without_the_extra_it_says_what_to_install(run, nngcd, monkeypatch):
    monkeypatch.setattr("nngcd.cli.review.find_spec", lambda name: None)
    code, _, errors = nngcd("review", run.path)
    assert code == 4 and "pip install 'nngcd[review]'" in errors


def test_what_is_no_run_is_refused(tmp_path, nngcd):
    pytest.importorskip("uvicorn")
    assert nngcd("review", tmp_path / "nothing", "--no-browser")[0] == 2


def test_corrections_are_shown_first_and_done_when_asked(run, tmp_path, nngcd):
    table = tmp_path / "corrections.csv"
    table.write_text("category,label\nnew-001,Tawny\n", encoding="utf-8")
    code, said, _ = nngcd("review", run.path, "--apply", table)
    assert code == 0 and "name 'new-001' 'Tawny'" in said and "Nothing was changed" in said
    assert not run.edits.exists()
    code, _, err = nngcd("review", run.path, "--apply", table, "--yes", "--read-only")
    assert code == 2 and "cannot be combined" in err and not run.edits.exists()
    assert nngcd("review", run.path, "--apply", table, "--yes")[0] == 0
    assert Review(run).state.categories["new-001"].name == "Tawny"
    assert "Nothing would change" in nngcd("review", run.path, "--apply", table)[1]
