from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
import torch

from nngcd.training.prefetch import N_AHEAD, pinned, prefetched


def counting(n, made):
    for i in range(n):
        made.append(i)
        yield i


def test_items_come_in_order():
    assert list(prefetched(range(50))) == list(range(50))
    assert list(prefetched([])) == []


def test_some_are_made_in_advance_but_not_all():
    made = []
    items = prefetched(counting(50, made))
    assert next(items) == 0
    wait_until(lambda: len(made) == N_AHEAD + 2)  # one taken, two waiting, one in hand
    time.sleep(0.2)
    assert len(made) == N_AHEAD + 2
    items.close()


def test_an_error_comes_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("broken file")

    items = prefetched(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken file"):
        next(items)


def test_whoever_leaves_early_leaves_no_thread_behind():
    items = prefetched(counting(1000, []))
    next(items)
    items.close()
    assert "prefetch" not in {thread.name for thread in threading.enumerate()}


def test_an_interrupt_while_the_thread_starts_leaves_none_behind(monkeypatch):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(prefetched(counting(1000, [])))
    wait_until(lambda: "prefetch" not in {thread.name for thread in threading.enumerate()})


ENDLESS = """
import itertools, threading, torch
from nngcd.training.prefetch import prefetched

def batches():
    while True:
        yield torch.randn(300, 300) @ torch.randn(300, 300)

"""
STILL_HELD = """
kept = [prefetched(batches()) for _ in range(8)]
for items in kept:
    next(items)
"""
TAKEN_AFTER_THE_MAIN_THREAD = """
def work():
    threading.main_thread().join()
    print(sum(1 for _, _ in zip(range(20), prefetched(batches()))))

threading.Thread(target=work).start()
"""
TAKEN_BY_A_DAEMON = """
def work():
    for _ in prefetched(itertools.count()):
        begun.set()

begun = threading.Event()
threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"), [(STILL_HELD, ""), (TAKEN_AFTER_THE_MAIN_THREAD, "20\n"), (TAKEN_BY_A_DAEMON, "")]
)
def test_a_program_ends_whoever_takes_the_batches(program, said):
    """Neither waits forever nor is killed (-6): a thread that ends inside torch takes the whole program with it."""
    ended = subprocess.run([sys.executable, "-c", ENDLESS + program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


def test_what_lies_on_a_device_already_is_not_pinned(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    there = torch.zeros(3, device="meta")
    assert pinned(there) is there


def wait_until(is_so):
    end = time.monotonic() + 300
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    assert is_so()
