"""One run in two processes (gloo, as torchrun starts them) against the same run in one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from nngcd.core import processes
from nngcd.core.errors import TrainingError
from nngcd.core.run_folder import RunFolder
from nngcd.runs.at_work import at_work

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
STEPS = """
import atexit, json, os, sys
from types import SimpleNamespace
import numpy as np, torch
from torch import nn
# The first to be registered is the last to be called. One write, because both processes share the pipe and print()
# of an unbuffered process, which torchrun's are, writes piece by piece.
atexit.register(lambda: os.write(2, f"still together: {torch.distributed.is_initialized()}\\n".encode()))
from nngcd.backbones.backbone import Adapter
from nngcd.core import processes
from nngcd.core.device import choose_device
from nngcd.core.progress import Progress
from nngcd.core.seeds import torch_generator
from nngcd.methods import mugcd, nngcd
from nngcd.methods.contract import Overview, Task
from nngcd.methods.centres import semi_supervised_centres
from nngcd.training import loop
from nngcd.training.eagc import EagcSettings, make_guide
from nngcd.training.bank import MemoryBank, mapped_views
from nngcd.runs.preparing import launch
from nngcd.training.learner import Learner
from nngcd.training.sources import RestingFirst
from nngcd.training.sources import BankViews

MODULES = {"nngcd": nngcd, "mugcd": mugcd, "resting": nngcd, "splitting": nngcd, "moving": nngcd, "guided": nngcd}
losses = []
find_gradients = loop._find_gradients
def recorded(*arguments):
    values = find_gradients(*arguments)
    losses.append(values)
    return values
loop._find_gradients = recorded

def steps(name):
    module, resting_epochs = MODULES[name], 3 if name == "resting" else 0
    fabric = launch(choose_device("cpu"), "32-true", has_stages=name in ("mugcd", "resting"))
    rng = torch_generator(0, "blobs")
    class_n = torch.arange(244) % 6
    x = 3 * torch.randn(6, 16, generator=rng)[class_n] + torch.randn(244, 16, generator=rng)
    hidden = x[:, None] + 0.1 * torch.randn(244, 3, 16, generator=rng)
    labels = torch.where((class_n < 3) & (torch.rand(244, generator=rng) < 0.5), class_n, -1).numpy()
    tail = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16))
    for parameter in tail.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / 4)
    init = torch_generator(0, "init")
    k_range = (5, 8) if name == "moving" else None
    task = Task(
        n_features=16, n_clusters=6, n_old=3, generator=init, sparse_weights=(tail[0].weight,), k_range=k_range
    )
    splitting = {"split_epochs": 1, "split_level": 1.0} if name in ("splitting", "moving") else {}
    method = module.Method(module.Config(n_hidden=24, n_projection=8, **splitting), task)
    if resting_epochs:
        tail.append(Adapter(16))
    settings, guide = loop.TrainingSettings(epochs=5), None
    def overview(epoch):
        return Overview(tail(hidden[:, 0]).detach(), torch.from_numpy(labels), epoch, 0)
    if name == "guided":
        def reference_source(method, training):
            size = training.batch_size
            return BankViews(MemoryBank(hidden), labels, "two-random", batch_size=size, seed=0, draw=method.draw)
        model = SimpleNamespace(backbone=SimpleNamespace(tail=tail, n_features=16), method=method, device="cpu")
        chosen = EagcSettings(active=True, reference_epochs=2, reference_batch_size=15)
        guide = make_guide(chosen, model, settings, tail_learning_rate=1.0, seed=0, is_learnt=False,
                           source_of=reference_source, overview=overview, fabric=fabric, progress=Progress())
    learner = Learner(tail, method, resting_epochs=resting_epochs, guide=guide)
    # 61 images per batch: the processes' shares are not equal.
    def source_of(bank):
        return BankViews(bank, labels, "two-random", batch_size=61, seed=0)
    source = source_of(MemoryBank(hidden))
    if resting_epochs:
        rested = mapped_views(MemoryBank(hidden), len(hidden), lambda hidden_b: tail(hidden_b).detach())
        source = RestingFirst(source_of(rested), source, resting_epochs)
    losses.clear()
    loop.train(learner, source, settings, overview=overview, fabric=fabric, run=None, progress=Progress())
    last = overview(5)
    assigned = method.assign(last.features_nd).argmax(-1).tolist()
    centres = semi_supervised_centres(last, 6).tolist()
    moves = [method.known_splits(), [merge[:3] for merge in method.cluster_merges()], method.n_clusters,
             method.moved_images(), method.label_check()]
    return {"losses": losses, "assigned": assigned, "centres": centres, "moves": moves}

for name in sys.argv[1:]:
    found = steps(name)
    if processes.is_first():
        print(json.dumps(found))
"""


def environment():
    # Threads of two processes on few cores only wait for each other.
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path):
    """Whatever they train, one after the other: starting processes takes longer than the training."""
    names = ["nngcd", "mugcd", "resting", "splitting", "moving", "guided"]
    script = tmp_path / "steps.py"
    script.write_text(STEPS, encoding="utf-8")
    found = []
    for launcher in ([sys.executable], TORCHRUN):
        command = [*launcher, str(script), *names]
        run = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        assert run.returncode == 0, run.stderr
        found.append([json.loads(line) for line in run.stdout.splitlines()[-len(names) :]])
    assert run.stderr.count("still together: False") == 2, run.stderr
    for name, one, two in zip(names, *found, strict=True):
        check_same(name, one, two)


def check_same(name, one, two):
    assert len(one["losses"]) == len(two["losses"]) == 20, name
    for ours, theirs in zip(one["losses"], two["losses"], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5), name
    last = one["losses"][-1]
    first = next(terms for terms in one["losses"] if terms.keys() == last.keys())  # muGCD's terms change on the way
    assert any(abs(last[term] - first[term]) > 0.01 for term in last), f"{name}: nothing was learnt"
    assert two["assigned"] == one["assigned"], name
    assert two["moves"] == one["moves"], name
    assert bool(one["moves"][0]) == (name in ("splitting", "moving"))
    assert (one["moves"][2] != 6) == (name == "moving")
    for ours, theirs in zip(one["centres"], two["centres"], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5), name


def nngcd(*arguments, launcher=(sys.executable,)):
    command = [*launcher, "-m", "nngcd", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def digits(tmp_path, name, *more):
    flags = ["--no-report", "--image-size", "32", "--set", "loss.n_hidden=64"]
    return ["fit", "digits", "--out", str(tmp_path / name), *flags, *more]


@pytest.mark.slow
def test_a_run_in_two_processes_ends_as_one_in_one_does_and_survives_the_loss_of_a_process(tmp_path):
    settings = ["--set", "training.epochs=12", "--set", "reading.n_images=600", "--k", "10"]
    whole = nngcd(*digits(tmp_path, "one", *settings))
    assert whole.returncode == 0, whole.stderr

    command = [*TORCHRUN, "-m", "nngcd", *digits(tmp_path, "two", *settings)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as broken:
        metrics = tmp_path / "two" / "metrics.jsonl"
        while not metrics.is_file() or len(metrics.read_text().splitlines()) < 2:
            assert broken.poll() is None, broken.stderr.read()
            time.sleep(0.1)
        os.kill(process_of_rank(1, parent=broken.pid), signal.SIGKILL)
        _, errors = broken.communicate()
    assert broken.returncode != 0
    resume = f"-m nngcd fit --resume {tmp_path / 'two'}"
    assert resume in " ".join(errors.split()), errors
    assert not (tmp_path / "two" / "summary.json").exists()

    resumed = nngcd("fit", "--resume", str(tmp_path / "two"), "--no-report", launcher=TORCHRUN)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.count("Every image's category") == 1
    one, two = (pd.read_csv(tmp_path / name / "results.csv") for name in ("one", "two"))
    assert two["category"].tolist() == one["category"].tolist()
    assert len(metrics.read_text().splitlines()) == 12


def process_of_rank(rank, *, parent):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            own_parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if own_parent == parent and f"RANK={rank}".encode() in variables:
            return int(folder.name)
    raise AssertionError(f"no process of rank {rank}")


def test_whoever_is_left_says_how_to_go_on_before_torchrun_can_end_it(monkeypatch, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(processes, "is_broken_connection", lambda error: True)
    run = RunFolder(tmp_path)
    try:
        with pytest.raises(TrainingError, match="To continue:  go on like this"), at_work(run, "go on like this"):
            raise RuntimeError("connection closed by peer")
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    with at_work(run, "go on like this"):
        pass
    assert signal.getsignal(signal.SIGTERM) == before
