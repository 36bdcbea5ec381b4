"""What can go wrong with a run (PRODUCT cases T, R and S): exit code, message, and that nothing is lost.

Elsewhere: T06 (memory runs out) in training/test_loop.py, T07 (no such device) and T09 (interrupted) in test_cli.py,
S01 and S02 (weights that cannot be trusted or do not fit) in backbones/test_weights.py and test_checkpoints.py,
S04 (weights that cannot be had) in backbones/test_load_backbone.py.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.core import atomic
from nngcd.core.atomic import temporary_beside
from nngcd.core.locks import hold
from nngcd.methods import simgcd

pytestmark = pytest.mark.filterwarnings("always::nngcd.core.errors.NngcdWarning")
KMEANS = ("--method", "kmeans", "--quiet")
SMALL = ("--method", "simgcd", "--set", "loss.n_hidden=16", "--set", "loss.n_projection=8",
         "--set", "training.batch_size=48", "--set", "training.epochs=3", "--quiet")  # fmt: skip


@pytest.fixture
def save(tmp_path):
    """Write features and labels as a user would, and return the file."""

    def write(features, labels, name="mine"):
        np.savez(tmp_path / f"{name}.npz", X=features, y=labels)
        return tmp_path / f"{name}.npz"

    return write


@pytest.fixture
def arrays(blobs, save):
    return save(blobs[0], blobs[1])


def said(*texts):
    """Return everything printed as one line, however it was wrapped."""
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--k", 2), 2, "T01: must be at least 3, the number of labelled categories"),
        (("--k", 241), 2, "T02: must be at most 240, the number of images"),
        (("--unsure", 1.5), 2, "--unsure = 1.5: must be in [0, 1)"),
        (("--set", "hold_back=1"), 2, "hold_back = 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(nngcd, arrays, tmp_path, arguments, code, message):
    found, out, err = nngcd("fit", arrays, "--out", tmp_path / "run", *KMEANS, *arguments)
    assert (found, message in said(out, err)) == (code, True), err
    assert "Traceback" not in out + err
    assert not (tmp_path / "run").exists()


def test_t02_hardly_more_images_than_categories_is_said(nngcd, arrays, tmp_path):
    code, _, err = nngcd("fit", arrays, "--k", 200, "--out", tmp_path / "run", *KMEANS)
    assert code == 0
    assert "T02: --k 200 leaves only 1.2 images per category (240 images)" in said(err)


def test_t03_an_estimate_at_the_end_of_its_range_is_said(nngcd, arrays, tmp_path):
    code, out, _ = nngcd("fit", arrays, "--k", "4..5", "--out", tmp_path / "run", *KMEANS)
    assert code == 0
    assert "T03" in out


def test_t04_a_collapse_is_said_loudly_and_is_an_error_only_when_asked_for(nngcd, rng, save, tmp_path):
    features = np.concatenate([rng.normal(size=(20, 8)) * 0.1 + np.repeat(np.eye(2, 8) * 5, 10, axis=0),
                               rng.normal(size=(100, 8)) * 0.1 + np.eye(2, 8)[0] * 5])  # fmt: skip
    data = save(features, np.repeat([0, 1, -1], [10, 10, 100]))
    code, out, _ = nngcd("fit", data, "--k", 2, "--out", tmp_path / "a", *KMEANS)
    assert code == 0
    assert "Careful (T04): 100% of them, unsure ones included, fell into one category" in out
    code, _, err = nngcd("fit", data, "--k", 2, "--out", tmp_path / "b", "--strict", *KMEANS)
    assert code == 5
    assert "T04" in err
    assert (tmp_path / "b" / "results.csv").is_file()


@pytest.fixture
def broken_run(nngcd, arrays, tmp_path, monkeypatch):
    """A run whose loss became NaN in its second epoch."""
    right = simgcd.Method.loss

    def loss(self, batch):
        terms = right(self, batch)
        return {name: term * torch.nan for name, term in terms.items()} if batch.moment.epoch == 1 else terms

    monkeypatch.setattr(simgcd.Method, "loss", loss)
    result = nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "broken", *SMALL)
    monkeypatch.setattr(simgcd.Method, "loss", right)
    return tmp_path / "broken", result


def test_t05_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_epoch(nngcd, arrays, broken_run, tmp_path):
    run, (code, _, err) = broken_run
    assert code == 5
    assert "T05: the loss is no longer finite in epoch 2" in said(err)
    assert "--set training.learning_rate" in said(err)
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 1
    assert nngcd("fit", "--resume", run, "-q")[0] == 0
    assert nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "whole", *SMALL)[0] == 0
    assert (run / "results.csv").read_bytes() == (tmp_path / "whole" / "results.csv").read_bytes()


def test_t08_few_labels_reach_every_batch(nngcd, blobs, save, tmp_path, monkeypatch):
    """Four labelled images of 240, in batches of 48: half of each batch is drawn from them."""
    labels = np.full(len(blobs[0]), -1)
    for class_ in (0, 1):
        labels[np.flatnonzero(blobs[1] == class_)[:2]] = class_
    n_labelled, loss = [], simgcd.Method.loss

    def counted(self, batch):
        n_labelled.append(int((batch.labels_b >= 0).sum()))
        return loss(self, batch)

    monkeypatch.setattr(simgcd.Method, "loss", counted)
    assert nngcd("fit", save(blobs[0], labels), "--k", 6, "--out", tmp_path / "run", *SMALL)[0] == 0
    assert len(n_labelled) == 15
    assert min(n_labelled) > 0
    assert 12 < np.mean(n_labelled) < 36


def test_t10_a_run_is_not_resumed_on_other_labels_and_says_how_many(nngcd, blobs, save, broken_run):
    run, _ = broken_run
    labels = blobs[1].copy()
    labels[[0, 2]] = -1
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    save(blobs[0], labels)
    code, _, err = nngcd("fit", "--resume", run)
    assert code == 3
    assert "T10: cannot resume" in said(err)
    assert "2 labels changed" in said(err)
    kept = {path: content for path, content in before.items() if path.name != "log.txt"}
    assert all(path.read_bytes() == content for path, content in kept.items())


@pytest.mark.slow
def test_t10_a_run_is_not_resumed_with_other_labels_held_back(nngcd, broken_run):
    run, _ = broken_run
    table = pd.read_csv(run / "data" / "split.csv")
    assert table["held_back"].sum() == 12
    table["held_back"] = False
    table.to_csv(run / "data" / "split.csv", index=False)
    code, _, err = nngcd("fit", "--resume", run)
    assert (code, "split.csv is damaged (it was changed after the run" in said(err)) == (3, True)
    (run / "digests.json").unlink()
    code, _, err = nngcd("fit", "--resume", run)
    assert code == 3
    assert "it held back 0 labels, but now 12 different ones would be held back" in said(err)
    (run / "data" / "split.csv").unlink()
    code, _, err = nngcd("fit", "--resume", run)
    assert (code, "split.csv is missing" in said(err)) == (3, True)


def test_t11_a_folder_in_use_is_left_alone(nngcd, broken_run):
    run, _ = broken_run
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with hold(run):
        code, _, err = nngcd("fit", "--resume", run)
    assert code == 4
    assert f"T11: {run} is in use by process {os.getpid()} on" in said(err)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_r01_a_full_disk_ends_with_the_reason_and_leaves_no_half_file(nngcd, arrays, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = tmp_path / "run"
    assert nngcd("fit", arrays, "--k", 6, "--out", run, *KMEANS)[0] == 0
    (tmp_path / "kept.csv").write_text("mine")
    monkeypatch.setattr("nngcd.core.atomic.os.fsync", full)
    for arguments in (
        ("predict", run, arrays, "--out", tmp_path / "kept.csv", "--overwrite", "--quiet"),
        ("predict", run, arrays, "--out", tmp_path / "kept.parquet", "--quiet"),
        ("fit", arrays, "--k", 6, "--out", tmp_path / "other", *KMEANS),
    ):
        code, _, err = nngcd(*arguments)
        assert code == 4
        assert "R01: cannot write" in said(err)
        assert "No space left on device" in said(err)
        assert "Traceback" not in err
    assert (tmp_path / "kept.csv").read_text() == "mine"
    assert not list(tmp_path.rglob("*.tmp"))
    assert not (tmp_path / "kept.parquet").exists()


def test_r02_an_existing_folder_is_never_written_into(nngcd, arrays, tmp_path):
    for _ in range(2):
        code, out, _ = nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "run", "--method", "kmeans")
        assert code == 0
    assert f"run folder: {tmp_path / 'run-2'}" in out
    assert (tmp_path / "run" / "summary.json").is_file()


@pytest.mark.parametrize(
    "name",
    [
        "model/model.safetensors",
        pytest.param("model/config.json", marks=pytest.mark.slow),
        pytest.param("model/confidence.json", marks=pytest.mark.slow),
        pytest.param("model/surroundings.safetensors", marks=pytest.mark.slow),
    ],
)
def test_r03_a_broken_run_folder_is_named(nngcd, arrays, tmp_path, name):
    assert nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "run", *KMEANS)[0] == 0
    (tmp_path / "run" / name).write_text('{"surprise": 1}')
    code, _, err = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "new.csv", "--quiet")
    assert (code, "Traceback" in err) == (3, False), err
    assert not (tmp_path / "new.csv").exists()


def test_s03_images_unlike_the_training_images_are_said(nngcd, arrays, blobs, save, rng, tmp_path):
    assert nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "run", *KMEANS)[0] == 0
    code, out, err = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "same.csv", "--quiet")
    assert (code, err) == (0, "")
    assert "unlike any training image" not in out
    other = save(rng.normal(size=(100, 16)), np.full(100, -1), "other")
    predict = ["predict", tmp_path / "run", other, "--overwrite", "--out", tmp_path / "other.csv"]
    code, out, err = nngcd(*predict, "--quiet")
    assert code == 0
    n_unlike = json.loads(nngcd(*predict, "--json")[1])["unlike_training"]
    assert n_unlike > 10
    assert f"{n_unlike} of them are unlike any training image: their category is a guess (S03)" in said(out)
    assert "look like a known category" not in out
    assert "of these images are unlike any training image (expected < 10%)" in said(err)
    assert len(pd.read_csv(tmp_path / "other.csv")) == 100


LABELS = {
    "none": (lambda classes: np.full(240, -1), "there are no labels", "D05: no labels"),
    "one category": (
        lambda classes: np.where((classes == 0) & (np.arange(240) % 2 == 0), 0, -1),
        "4 of 4",
        "D09: only one known category",
    ),
    "one image each": (
        lambda classes: np.where(np.arange(240) % 40 == 0, classes, -1),
        "no category has 5 labelled images",
        "",
    ),
    "uneven": (
        lambda classes: np.where((classes == 0) | (np.arange(240) % 20 == 0), classes, -1),
        "5 of the 6 known categories have too few labelled images to check (D10)",
        "",
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_whatever_is_labelled_the_images_are_sorted_and_the_limits_are_said(nngcd, blobs, save, tmp_path, case):
    features, _, classes = blobs
    make, words, note = LABELS[case]
    labels = make(classes)
    code, out, err = nngcd("fit", save(features, labels), "--k", 6, "--out", tmp_path / "run", *KMEANS)
    assert code == 0, err
    assert words in said(out)
    assert note in said(err)
    results = pd.read_csv(tmp_path / "run" / "results.csv", dtype={"label_given": str, "category": str})
    given = results["label_given"].notna()
    assert given.sum() == (labels >= 0).sum()
    assert (results["category"] == results["label_given"])[given].all()
    assert results["novelty"].notna().all() == (case != "none")
    code, out, _ = nngcd("predict", tmp_path / "run", tmp_path / "mine.npz", "--out", tmp_path / "new.csv", "-q")
    assert code == 0
    assert ("not calibrated" in out) == (case in ("none", "one image each"))


def test_d06_everything_labelled_leaves_nothing_to_sort(nngcd, blobs, save, tmp_path):
    code, _, err = nngcd("fit", save(blobs[0], blobs[2]), "--out", tmp_path / "run", *KMEANS)
    assert (code, "D06: all 240 images are labelled" in said(err)) == (3, True)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_t09_what_is_said_to_be_kept_is_kept(nngcd, arrays, broken_run, tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("nngcd.runs.views._kept", stopped)
    code, _, err = nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "new", *SMALL)
    assert (code, "no epoch is complete yet, so training starts again. To continue:" in said(err)) == (130, True)
    with monkeypatch.context() as earlier:
        earlier.setattr("nngcd.runs.writing.write_inputs", stopped)
        code, _, err = nngcd("fit", arrays, "--k", 6, "--out", tmp_path / "early", *SMALL)
    assert (code, "Stopped; nothing was kept yet. Repeat the command." in said(err)) == (130, True)
    code, _, err = nngcd("fit", "--resume", broken_run[0])
    assert (code, "everything up to the last complete epoch is kept. To continue:" in said(err)) == (130, True)


@pytest.mark.slow
def test_r01_a_checkpoint_that_finds_no_room_keeps_the_last_one(nngcd, arrays, small_disk, tmp_path):
    """The disk is filled until each file in turn does not fit; what is there afterwards resumes to the same result."""
    whole, run = tmp_path / "whole", small_disk / "run"
    assert nngcd("fit", arrays, "--k", 6, "--out", whole, *SMALL)[0] == 0
    codes = set()
    for n_free in (1, 20, 40, 60, 90):
        filler = small_disk / "taken"
        filler.write_bytes(bytes(2**20 - n_free * 4096))
        code, _, err = nngcd("fit", arrays, "--k", 6, "--out", run, *SMALL)
        codes.add(code)
        assert (code, "R01: cannot" in said(err), "Traceback" in err) in ((4, True, False), (0, False, False)), err
        assert not list(small_disk.rglob("*.tmp"))
        filler.unlink()
        if (run / "config.yaml").is_file():
            assert nngcd("fit", "--resume", run, "-q")[0] == 0
            assert (run / "results.parquet").read_bytes() == (whole / "results.parquet").read_bytes()
        shutil.rmtree(run, ignore_errors=True)
    assert codes == {0, 4}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_r01_a_limit_on_the_size_of_files(arrays, tmp_path):
    run = ["fit", arrays, "--k", 6, "--out", tmp_path / "run", *SMALL]
    script = f"ulimit -f 8; exec {shlex.join([sys.executable, '-m', 'nngcd', *map(str, run)])}"
    found = subprocess.run(["bash", "-c", script], text=True, capture_output=True)
    assert (found.returncode, "Traceback" in found.stderr) == (4, False), found.stderr
    assert "R01: cannot write" in said(found.stderr) and "File too large" in said(found.stderr)
    assert not list((tmp_path / "run").rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_r01_an_output_that_takes_no_more():
    script = f"{sys.executable} -m nngcd data list > /dev/full"
    found = subprocess.run(["bash", "-c", script], text=True, capture_output=True)
    assert (found.returncode, said(found.stderr)[:44]) == (4, "error: R01: cannot write standard output: No")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that close")
def test_an_output_that_is_closed_ends_a_run_as_ctrl_c_does(arrays, tmp_path):
    """As `nngcd fit ... | head -1`: the run stops, and says on the other output how it goes on."""
    command = [sys.executable, "-m", "nngcd", "fit", arrays, "--k", 6, "--out", tmp_path / "run", *SMALL[:-1]]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, "Traceback" in err, "Exception ignored" in err) == (130, False, False), err
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(5):
            process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 130
    assert f"To continue: nngcd fit --resume {tmp_path}/run" in said(err)


@pytest.mark.slow
def test_litter_of_a_killed_run_is_gone_after_it_was_resumed(nngcd, broken_run):
    run, _ = broken_run
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for folder in (run, run / "data", run / "checkpoints"):
        (folder / temporary_beside(folder / "x").name.replace(f"-{os.getpid()}-", f"-{gone.pid}-")).touch()
    atomic._remove_leftovers_once.cache_clear()
    assert nngcd("fit", "--resume", run, "-q")[0] == 0
    assert not list(run.rglob("*.tmp"))
    assert not (run / "checkpoints").exists()
    (run / "checkpoints").mkdir()  # as if killed after the summary was written
    assert nngcd("fit", "--resume", run)[0] == 0
    assert not (run / "checkpoints").exists()
