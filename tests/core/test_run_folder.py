from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from finished_runs import scores, summary

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
    with pytest.raises(DataError, match=r"has no config\.yaml"):
        RunFolder.open(tmp_path)
    (tmp_path / "report.html").write_text("")
    with pytest.raises(DataError, match="is not a folder"):
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
    return summary(scores=scores()) | values


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


def test_metrics_that_cannot_be_written_are_r01(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run.metrics.mkdir()
    with pytest.raises(ResourceError, match=r"R01: cannot write .*metrics\.jsonl"):
        run.append_metrics({"epoch": 0})


def test_a_log_that_cannot_be_made_is_r01(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run.log.mkdir()
    with pytest.raises(ResourceError, match=r"R01: cannot write .*log\.txt"), run.logged():
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")  # noqa: PTH110
def test_a_line_of_the_log_that_finds_no_room_is_r01(tmp_path, capsys):
    run = RunFolder.create(tmp_path / "run")
    run.log.symlink_to("/dev/full")
    with pytest.raises(ResourceError, match=r"R01: cannot write .*log\.txt: No space left"), run.logged():
        logging.getLogger("nngcd").info("a line")
    assert capsys.readouterr().err == ""


def test_what_stops_a_run_is_said_even_if_the_log_is_full(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(DataError, match="the first reason"), run.logged():
        _fill(logging.getLogger("nngcd").handlers[-1])
        raise DataError("the first reason")


def _fill(handler):
    class Full:
        def write(self, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        flush = close = lambda self: None

    handler.stream.close()
    handler.stream = Full()


def test_litter_of_a_complete_run_is_removed(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run.checkpoint.parent.mkdir()
    run.checkpoint.touch()
    run.remove_litter()
    assert run.checkpoint.is_file()
    write_json(run.summary, summary_with())
    run.remove_litter()
    assert not run.checkpoint.parent.exists()


def test_a_folder_that_was_made_and_nothing_more_is_made_again(tmp_path):
    (tmp_path / "nngcd-0").mkdir()
    (tmp_path / "nngcd-0" / ".README.txt.0123abcd-17-89abcdef.tmp").touch()
    assert RunFolder.create(tmp_path / "nngcd-0", may_rename=False).path == tmp_path / "nngcd-0"
    with pytest.raises(ResourceError, match="another process"):
        RunFolder.create(tmp_path / "nngcd-0", may_rename=False)


def test_a_folder_that_begins_with_a_dash_is_never_taken_for_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = RunFolder.create(Path("-x y"))
    assert "nngcd report './-x y'\n" in (run.path / "README.txt").read_text(encoding="utf-8")
    with pytest.raises(DataError, match=r"nngcd fit --resume '\./-x y'"):
        run.check_complete()
