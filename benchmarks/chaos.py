"""Kills, full disks, flipped bits, deletions and rivals: no result may be wrong, nothing may crash or hang.

    python benchmarks/chaos.py [--short] [--seed 0] [--kills 300] [--disks 100] [--flips 500] ...

After each event the command is repeated or the run resumed. It must then give the very bytes of an unbroken run
(`survived`), or, where files were damaged or deleted, end with a message and an exit code from 2 to 5 (`refused`).
Everything else is a fault and is printed: `wrong` bytes with exit code 0 or a half-written file, a traceback or crash,
a hang, litter of killed processes, a command that was broken off and is refused when it is repeated (`blocked`). The
exit code is 1 if there is any. `--short` tries a few of each, or as many as the other options say.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a process with threads cannot be forked
import numpy as np
import torch

from chaos_bed import Bed, Outcome, hashes, kill_at_write
from chaos_commands import COMMANDS, READERS, Command
from nngcd.core.errors import ResourceError
from nngcd.core.locks import hold

FULL = {"kills": 300, "disks": 100, "flips": 500, "deletions": 50, "locks": 1000}
SHORT = {"kills": 9, "disks": 6, "flips": 12, "deletions": 6, "locks": 20}
FAULTS = ("wrong", "tracebacks", "hangs", "litter", "blocked")
COLUMNS = ("tried", "survived", "refused", *FAULTS)
LARGE_DISK = 2**28
MOST_KILLS = 3


class Chaos:
    """Does harm to commands, and counts what becomes of them."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.counts: dict[str, Counter[str]] = {}

    def count(self, kind: str, result: str, what: str, outcome: Outcome | None = None) -> None:
        """Count a result; say what was done when it is a fault."""
        self.counts.setdefault(kind, Counter())[result] += 1
        if result in FAULTS:
            said = outcome.said.strip()[-600:] if outcome else ""
            print(f"{result}: {kind}: {what}: exit code {outcome and outcome.code}\n{said}\n", flush=True)

    def judge(self, command: Command, folder: Path, outcome: Outcome, *, may_lack: bool = False) -> str:
        """Return what a command came to, by its exit code and its results."""
        if outcome.verdict != "done":
            return outcome.verdict
        return "survived" if self.is_right(command, folder, may_lack=may_lack) else "wrong"

    def judge_repeated(self, command: Command, folder: Path, outcome: Outcome) -> str:
        """Return the same for a command that was broken off: it may refuse only where it had come to its end."""
        result = self.judge(command, folder, outcome)
        if result != "refused":
            return result
        return "survived" if self.is_right(command, folder, may_lack=False) else "blocked"

    def is_right(self, command: Command, folder: Path, *, may_lack: bool) -> bool:
        """Whether the results are those of an unbroken run."""
        found, expected = hashes(folder, command), self.bed.expected[command.name]
        return found.items() <= expected.items() if may_lack else found == expected

    def kill(self, rng: np.random.Generator) -> None:
        """Kill a command once or several times, at a moment or at a write, and let it come to its end."""
        command = COMMANDS[rng.integers(len(COMMANDS))]
        what, arguments = command.name, command.arguments
        with self.bed.fresh(command) as folder:
            for _ in range(rng.integers(1, MOST_KILLS + 1)):
                if rng.random() < 0.5:
                    n = int(rng.integers(1, self.bed.n_writes[command.name] + 1))
                    what += f", killed at write {n}"
                    outcome = self.bed.call(arguments, folder, prepare=partial(kill_at_write, n))
                else:
                    seconds = rng.uniform(0, self.bed.seconds[command.name])
                    what += f", killed after {seconds:.2f} s"
                    outcome = self.bed.call(arguments, folder, after=seconds, then=_kill)
                result = outcome.verdict if outcome.code != -signal.SIGKILL else "killed"
                if result in FAULTS or not self.is_right(command, folder, may_lack=True):
                    return self.count("kills", result if result in FAULTS else "wrong", what, outcome)
                arguments = command.retry(folder)
            outcome = self.bed.call(arguments, folder)
            result = self.judge_repeated(command, folder, outcome)
            if result == "survived" and (litter := _litter(folder)):
                result, what = "litter", f"{what}: {litter}"
        return self.count("kills", result, what, outcome)

    def fill_disk(self, rng: np.random.Generator) -> None:
        """Let a command run on a disk that is too small for it, or nearly so, and again when there is room."""
        command = COMMANDS[rng.integers(len(COMMANDS))]
        n_free = int(rng.uniform(0, 1.1) * self.bed.n_bytes[command.name])
        what = f"{command.name}, {n_free:,} bytes free"
        with self.small_disk() as (folder, shrink):
            self.bed.fill(folder, command)
            if shrink:
                shrink(n_free)
            limit = (lambda: None) if shrink else partial(_limit_files, n_free)
            outcome = self.bed.call(command.arguments, folder, prepare=limit)
            result = self.judge(command, folder, outcome)
            if result == "refused":
                if shrink:
                    shrink(LARGE_DISK)
                if litter := list(folder.rglob(".*.tmp")):
                    return self.count("disks", "litter", f"{what}: {litter}", outcome)
                outcome = self.bed.call(command.retry(folder), folder)
                result = self.judge_repeated(command, folder, outcome)
        return self.count("disks", result, what, outcome)

    @contextmanager
    def small_disk(self) -> Iterator[tuple[Path, Callable[[int], None] | None]]:
        """Yield a folder, and a function that leaves it so much room; None where nobody may mount a disk."""
        folder = self.bed.base / "event"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={LARGE_DISK}", "tmpfs", str(folder)]
        has_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0

        def shrink(n_free: int) -> None:
            state = os.statvfs(folder)
            size = (state.f_blocks - state.f_bfree) * state.f_bsize + n_free
            subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)

        try:
            yield folder, shrink if has_disk else None
        finally:
            if has_disk:
                subprocess.run(["umount", "--lazy", str(folder)], check=True)
            shutil.rmtree(folder)

    def flip(self, rng: np.random.Generator) -> None:
        """Turn one bit of one file over, and let a command read it."""
        command = READERS[rng.integers(len(READERS))]
        with self.bed.fresh(command) as folder:
            path = _any_of(rng, [path for path in (folder / command.harmed).rglob("*") if path.is_file()])
            content = bytearray(path.read_bytes())
            if not content:
                return self.count("flips", "survived", "an empty file")
            # Half of them where headers are: most bytes of a large file are weights.
            place = int(rng.integers(min(len(content), 1000) if rng.random() < 0.5 else len(content)))
            content[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(content)
            what = f"{command.name}, byte {place} of {path.relative_to(folder)}"
            outcome = self.bed.call(command.arguments, folder)
            return self.count("flips", self.judge(command, folder, outcome), what, outcome)

    def delete(self, rng: np.random.Generator) -> None:
        """Delete a file or folder before a command reads it, or at some moment while it runs."""
        is_during = rng.random() < 0.5
        command = COMMANDS[0] if is_during else READERS[rng.integers(len(READERS))]
        with self.bed.fresh(command) as folder:
            if is_during:
                seconds = rng.uniform(0, self.bed.seconds[command.name])
                deleted = [folder / "cache"] if rng.random() < 0.5 else []
                outcome = self.bed.call(
                    command.arguments, folder, after=seconds, then=lambda process: _delete(rng, folder, deleted)
                )
            else:
                seconds, deleted = 0.0, [_any_of(rng, list((folder / command.harmed).rglob("*")))]
                _delete(rng, folder, deleted)
                outcome = self.bed.call(command.arguments, folder)
            what = f"{command.name}, {[str(path.relative_to(folder)) for path in deleted]} after {seconds:.2f} s"
            result = self.judge(command, folder, outcome, may_lack=True)
            if result == "refused":
                outcome = self.bed.call(command.retry(folder), folder)
                result = self.judge(command, folder, outcome, may_lack=True)
        return self.count("deletions", result, what, outcome)

    def contend(self, rng: np.random.Generator) -> None:
        """Let three processes ask for one folder at once, in every third round right after its holder was killed."""
        folder = self.bed.base / "event"
        folder.mkdir()
        if rng.random() < 1 / 3:
            self.bed.call("", folder, do=_hold_and_die)
        start = time.monotonic() + 0.02
        children = [_rival(folder, start) for _ in range(3)]
        codes = Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
        shutil.rmtree(folder)
        is_right = codes[0] and codes[0] + codes[ResourceError.exit_code] == len(children)
        self.count("locks", "survived" if is_right else "wrong", f"exit codes {dict(codes)}")


def _rival(folder: Path, start: float) -> int:
    """Start a process that asks for a folder; it ends with 0 if it got it, and with 1 if it was not alone there."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        while time.monotonic() < start:
            pass
        with hold(folder):
            (folder / "inside").mkdir()
            time.sleep(0.002)
            (folder / "inside").rmdir()
        code = 0
    except ResourceError as error:
        code = error.exit_code
    finally:
        os._exit(code)


def _hold_and_die() -> None:
    with hold(Path()):
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def _limit_files(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def _any_of(rng: np.random.Generator, paths: list[Path]) -> Path:
    return sorted(paths)[rng.integers(len(paths))]


def _delete(rng: np.random.Generator, folder: Path, deleted: list[Path]) -> None:
    """Delete what is named, or anything; what is gone already is no matter."""
    paths = [path for path in folder.rglob("*") if not path.name.endswith(".tmp")]
    if not deleted and paths:
        deleted.append(_any_of(rng, paths))
    for path in deleted:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _litter(folder: Path) -> list[str]:
    found = [*folder.rglob(".*.tmp"), *folder.glob("*/checkpoints"), *folder.glob("bench/*/checkpoints")]
    return [path.relative_to(folder).as_posix() for path in found]


def main() -> None:
    """Do as much harm as is asked for, and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    for kind in FULL:
        parser.add_argument(f"--{kind}", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    # In memory, where there is such a place: nothing here is about the speed of disks.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=memory if memory.is_dir() else None) as folder:
        bed = Bed(Path(folder))
        bed.make()
        print(f"ready after {time.monotonic() - started:.0f} s", flush=True)
        chaos = Chaos(bed)
        events = {"kills": chaos.kill, "disks": chaos.fill_disk, "flips": chaos.flip, "deletions": chaos.delete,
                  "locks": chaos.contend}  # fmt: skip
        for number, (kind, event) in enumerate(events.items()):
            given = getattr(options, kind)
            for i in range((SHORT if options.short else FULL)[kind] if given is None else given):
                event(np.random.default_rng([options.seed, number, i]))
    _show(chaos.counts, time.monotonic() - started)
    sys.exit(any(count[fault] for count in chaos.counts.values() for fault in FAULTS))


def _show(counts: dict[str, Counter[str]], seconds: float) -> None:
    print(f"{'':<12}" + "".join(f"{column:>12}" for column in COLUMNS))
    for kind, count in counts.items():
        numbers = [count.total(), *(count[column] for column in COLUMNS[1:])]
        print(f"{kind:<12}" + "".join(f"{number:>12,}" for number in numbers))
    print(f"in {seconds:.0f} s")


if __name__ == "__main__":
    main()
