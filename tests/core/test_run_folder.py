from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from nngcd.core.errors import DataError, NoSuchDataError, ResourceError
from nngcd.core.files import write_json
from nngcd.core.run_folder import RunFolder


def test_an_existing_folder_is_never_overwritten(tmp_path):
    first = RunFolder.create(tmp_path / "run")
    (first.path / "mine.txt").write_text("precious")
    second = RunFolder.create(tmp_path / "run")
    assert second.path == tmp_path / "run-2"
    assert (first.path / "mine.txt").read_text() == "precious"


def test_the_readme_names_every_file_a_run_writes(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    readme = (run.path / "README.txt").read_text()
    for path in (run.config, run.environment, run.problems, run.features, run.results, run.results_csv,
                 run.categories, run.metrics, run.summary):  # fmt: skip
        assert path.name in readme


def test_opening_something_else_is_refused(tmp_path):
    with pytest.raises(NoSuchDataError, match=r"absent does not exist\. `nngcd fit` prints"):
        RunFolder.open(tmp_path / "absent")
    first = RunFolder.create(tmp_path / "runs" / "first")
    first.config.touch()
    (tmp_path / "runs" / "frist2").mkdir()
    with pytest.raises(NoSuchDataError, match=r"frist does not exist\. Did you mean '.*runs.first'\?"):
        RunFolder.open(tmp_path / "runs" / "frist")
    with pytest.raises(DataError, match=r"holds no config\.yaml"):
        RunFolder.open(tmp_path)
    (tmp_path / "report.html").write_text("")
    with pytest.raises(DataError, match="is no folder"):
        RunFolder.open(tmp_path / "report.html")


def test_a_place_that_cannot_be_written_is_a_resource_problem(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot create"):
        RunFolder.create(tmp_path / "file" / "run")


def test_metrics_survive_a_line_cut_off_by_a_crash(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    for epoch in range(3):
        run.append_metrics({"epoch": epoch, "loss": 1.0})
    with run.metrics.open("a") as file:
        file.write('{"epoch": 3, "lo')
    assert [line["epoch"] for line in run.read_metrics()] == [0, 1, 2]
    run.forget_metrics_from(2)
    assert [line["epoch"] for line in run.read_metrics()] == [0, 1]


def test_a_live_process_holds_its_folder(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (run.path / ".lock").write_text(json.dumps({"pid": other.pid, "host": socket.gethostname()}))
        with pytest.raises(ResourceError, match=f"in use by process {other.pid}"), run.locked():
            pass
        other.stdin.close()
    with run.locked():
        assert json.loads((run.path / ".lock").read_text())["pid"] == os.getpid()
    assert not (run.path / ".lock").exists()


def test_a_process_on_another_machine_holds_its_folder(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    (run.path / ".lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    with pytest.raises(ResourceError, match="on elsewhere"), run.locked():
        pass


@pytest.mark.parametrize("line", ['{"epoch": 1, "lo', "3", '{"loss": 1.0}', "\udcff"])
def test_a_damaged_line_of_metrics_is_named(tmp_path, line):
    run = RunFolder.create(tmp_path / "run")
    run.append_metrics({"epoch": 0})
    with run.metrics.open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")
    run.append_metrics({"epoch": 2})
    with pytest.raises(DataError, match=r"R03: .*metrics\.jsonl is damaged \(line 2: .*\)\. Delete this file"):
        run.read_metrics()


def summary_with(**values):
    accuracy = {"all": 0.5, "old": 0.5, "new": 0.5}
    scores = {"accuracy": accuracy, "nmi": 0.5, "ari": 0.5, "n_scored": 3, "protocol": "v2"}
    names = dict.fromkeys(("method", "preset", "effort", "backbone", "split_hash"), "x")
    numbers = dict.fromkeys(("seed", "k", "n_images", "n_labelled", "seconds"), 1)
    return names | numbers | {"scores": scores} | values


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ([], "Input should be an object"),
        (3, "Input should be an object"),
        ({"method": "kmeans"}, "it lacks 'preset'"),
        (summary_with(scores=None), "scores = None: Input should be an object"),
        (summary_with(scores={}), "it lacks 'scores.accuracy'"),
        (summary_with(scores=summary_with()["scores"] | {"accuracy": {"all": 0.5}}), "it lacks 'scores.accuracy.old'"),
        (summary_with(k="7"), "k: Input should be a valid integer"),
        (summary_with(seconds=-1), "seconds = -1"),
    ],
)
def test_a_summary_that_lacks_what_every_run_writes_is_damaged(tmp_path, summary, reason):
    run = RunFolder.create(tmp_path / "run")
    write_json(run.summary, summary_with())
    assert run.read_summary() == summary_with()
    write_json(run.summary, summary)
    with pytest.raises(DataError, match=rf"summary\.json is damaged \({reason}"):
        run.read_summary()


@pytest.mark.parametrize("pid", ["abc", None, -1, 2**40])
def test_a_lock_that_names_no_process_is_taken_over(tmp_path, pid):
    run = RunFolder.create(tmp_path / "run")
    write_json(run.path / ".lock", {"pid": pid, "host": socket.gethostname()})
    with run.locked():
        assert json.loads((run.path / ".lock").read_text())["pid"] == os.getpid()
