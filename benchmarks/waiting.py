"""Ways for OpenMP threads to wait for each other: one NN-GCD step of effort quick, alone or next to a busy process.

python benchmarks/waiting.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import torch

WAYS = {
    "spinning (torch's default)": {"GOMP_SPINCOUNT": "300000"},
    "spinning shortly (nngcd)": {"GOMP_SPINCOUNT": "1000"},
    "sleeping at once": {"OMP_WAIT_POLICY": "passive"},
}
N_ROUNDS, N_STEPS = 3, 8


def seconds_a_step() -> float:
    """Return the mean time of a training step: 128 images in two views, 1,280 features, the paper's head."""
    from nngcd.backbones.backbone import Adapter
    from nngcd.core.seeds import torch_generator
    from nngcd.methods import nngcd
    from nngcd.methods.contract import Moment, Task
    from nngcd.training.learner import Learner

    tail = Adapter(1280)
    task = Task(n_features=1280, n_clusters=200, n_old=100, generator=torch_generator(0, "init"),
                sparse_weights=(tail.weight,))  # fmt: skip
    learner = Learner(tail, nngcd.Method(nngcd.Config(), task))
    optimiser = torch.optim.SGD([p for p in learner.parameters() if p.requires_grad], 0.1, momentum=0.9, fused=True)
    hidden = torch.randn(2, 128, 1280, generator=torch_generator(0, "hidden"))
    labels = torch.arange(128) % 100
    for step in range(N_STEPS + 2):
        if step == 2:
            started = time.perf_counter()
        terms = learner(hidden, labels, torch.arange(128), 128, Moment(0, 30, step, 1000))
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()
        learner.method.after_step(Moment(0, 30, step, 1000))
    return (time.perf_counter() - started) / N_STEPS


def measure(environment: dict[str, str]) -> float:
    """Return the time of a step in a fresh process with these variables."""
    command = [sys.executable, __file__, "step"]
    return float(subprocess.run(command, env=os.environ | environment, capture_output=True, check=True).stdout)


def main() -> None:
    """Print the best of a few interleaved rounds, alone and beside a process that never sleeps."""
    for place in ("alone", "beside a busy process"):
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if place != "alone" else None
        try:
            rounds = [{way: measure(environment) for way, environment in WAYS.items()} for _ in range(N_ROUNDS)]
        finally:
            if busy:
                busy.kill()
        for way in WAYS:
            times = sorted(measured[way] for measured in rounds)
            print(f"{place:<22} {way:<28} median {times[N_ROUNDS // 2]:.2f} s a step (worst {times[-1]:.2f})")


if __name__ == "__main__":
    if sys.argv[1:] == ["step"]:
        print(seconds_a_step())
    else:
        main()
