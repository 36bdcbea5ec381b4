"""Shared by the benchmarks: a clock, several calls in turns, targets, and how a run of targets ends."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn, has no types

N_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Target:
    """One measured number and what it has to be."""

    name: str
    measured: float
    limit: float
    is_minimum: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the number is good enough."""
        return self.measured >= self.limit if self.is_minimum else self.measured <= self.limit

    def __str__(self) -> str:
        target = f"{'>=' if self.is_minimum else '<='} {self.limit:g}"
        return f"{self.name:<66} {self.measured:>8.2f}  {target:>7}  {'ok' if self.is_met else 'short'}"


def parser_with_targets(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options every benchmark has; it adds its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if a target is missed")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for both sides; 1 on a busy machine")
    return parser


def begin(arguments: argparse.Namespace, n_rounds: int = N_ROUNDS, **versions: str) -> None:
    """Set the threads and print what machine this is, with the versions of what is compared."""
    torch.set_num_threads(arguments.threads)
    threadpool_limits(arguments.threads)
    others = "".join(f", {name.replace('_', '-')} {version}" for name, version in versions.items())
    print(f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, {platform.machine()}, torch {torch.__version__}"
          f"{others}; fastest of {n_rounds} interleaved rounds", flush=True)  # fmt: skip


def end(arguments: argparse.Namespace, targets: Sequence[Target]) -> None:
    """Print one line per target; with `--assert` a missed one is the exit code."""
    print("\n" + "\n".join(str(target) for target in targets))
    if arguments.is_strict and not all(target.is_met for target in targets):
        sys.exit(1)


def seconds(call: Callable[[], object], *, is_wall: bool = False) -> float:
    """Return how long a call takes.

    Of one thread it is the processor's time, which other processes do not lengthen, unless waiting counts (`is_wall`).
    """
    clock = time.process_time if torch.get_num_threads() == 1 and not is_wall else time.perf_counter
    started = clock()
    call()
    return clock() - started


def fastest(*calls: Callable[[], object], n_rounds: int = N_ROUNDS, is_wall: bool = False) -> list[float]:
    """Return the shortest time of each call, the calls taking turns: what other work on the machine adds stays out."""
    rounds = [[seconds(call, is_wall=is_wall) for call in calls] for _ in range(n_rounds)]
    return [min(times) for times in zip(*rounds, strict=True)]
