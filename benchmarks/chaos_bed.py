"""Test bed of `chaos.py`: small data, and quick processes to run commands in.

One process imports everything and is then forked for each command, so that a `fit` takes a second.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from chaos_commands import COMMANDS, FIT, READERS, Command
from nngcd.cli import main as nngcd
from nngcd.core.torchvision_ops import make_torchvision_importable

LONGEST = 120.0
"""Seconds for a command before it counts as a hang; the longest takes two where nothing else runs."""
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (128, 128, 128)}
WRITES = ("os.rename", "os.remove", "os.mkdir", "os.truncate", "os.rmdir")
_nothing = lambda: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: its exit code, minus a signal, or None for a hang; and what it said."""

    code: int | None
    said: str

    @property
    def verdict(self) -> str:
        """Return `done`, `refused`, or what is never allowed."""
        if self.code is None:
            return "hangs"
        if self.code == 0:
            return "done"
        is_clear = self.code in (2, 3, 4, 5) and "Traceback" not in self.said and self.said.strip()
        return "refused" if is_clear else "tracebacks"


@dataclass
class Bed:
    """Small data, finished and half-finished runs on them, and what every command gives when nothing is in its way."""

    base: Path
    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    n_writes: dict[str, int] = field(default_factory=dict)
    n_bytes: dict[str, int] = field(default_factory=dict)

    def make(self) -> None:
        """Make the data and run everything once."""
        os.environ["NNGCD_HOME"] = str(self.base / "home")
        make_torchvision_importable()
        importlib.import_module("timm")
        template = self.base / "template"
        template.mkdir()
        self._must("", self.base, do=lambda: _make_data(self.base))
        self._must(f"fit {{base}}/images {FIT}", template)
        half = f"fit {{base}}/images {FIT}".replace("--out run", "--out half")
        self._must(half, template, prepare=lambda: _kill_at_write(_ThirdCheckpoint()))
        self._must("", template, do=_review)
        gc.freeze()  # or the `gc.collect` of every run would look through, and copy, all that is imported here
        for command in (*COMMANDS, *READERS[-2:]):
            self._measure(command)
        assert self.expected["fit"] == self.expected["resume"] == self.expected["fit from cache"]

    def _measure(self, command: Command) -> None:
        with self.fresh(command) as folder:
            before, started = _size(folder), time.monotonic()
            self._must(command.arguments, folder, prepare=_counted)
            self.seconds[command.name] = time.monotonic() - started
            self.n_writes[command.name] = int((self.base / "n_writes").read_text())
            self.n_bytes[command.name] = _size(folder) - before
            self.expected[command.name] = hashes(folder, command)
        assert self.expected[command.name], command

    def _must(self, arguments: str, folder: Path, **options: Callable[[], None]) -> None:
        outcome = self.call(arguments, folder, **options)
        is_killed = outcome.code == -signal.SIGKILL and "prepare" in options
        assert outcome.code == 0 or is_killed, (arguments, outcome)
        for name in (self.base / "modules").read_text().split() if (self.base / "modules").is_file() else ():
            # What the first command of a kind had to import, the next ones find.
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    @contextlib.contextmanager
    def fresh(self, command: Command) -> Iterator[Path]:
        """Yield a new folder with what a command needs."""
        folder = self.base / "event"
        folder.mkdir()
        try:
            self.fill(folder, command)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def fill(self, folder: Path, command: Command) -> None:
        """Copy what a command needs."""
        for need in command.needs:
            name, _, other = need.partition("=")
            shutil.copytree(self.base / "template" / name, folder / (other or name))

    def call(
        self,
        arguments: str,
        folder: Path,
        *,
        prepare: Callable[[], None] = _nothing,
        do: Callable[[], None] = nngcd,
        after: float = LONGEST,
        then: Callable[[int], None] | None = None,
    ) -> Outcome:
        """Run a command in a process of its own; `then` happens to it `after` some seconds."""
        output = self.base / "output"
        process = os.fork()
        if process == 0:
            self._be_a_process(arguments, folder, output, prepare, do)
        started, status = time.monotonic(), 0
        while (ended := os.waitpid(process, os.WNOHANG))[0] == 0 and time.monotonic() - started < LONGEST:
            if then and time.monotonic() - started >= after:
                then, now = None, then
                now(process)
            time.sleep(0.001)
        if ended[0] == 0:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return Outcome(None, output.read_text(errors="replace"))
        status = os.waitstatus_to_exitcode(ended[1])
        return Outcome(status, output.read_text(errors="replace"))

    def _be_a_process(
        self, arguments: str, folder: Path, output: Path, prepare: Callable[[], None], do: Callable[[], None]
    ) -> None:
        code, modules = 1, set(sys.modules)
        try:
            os.chdir(folder)
            opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, 1)
            os.dup2(opened, 2)
            sys.argv = ["nngcd", *arguments.format(base=self.base).split()]
            prepare()
            do()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
        finally:
            if prepare is _counted:
                (self.base / "n_writes").write_text(str(_n_writes))
                (self.base / "modules").write_text("\n".join(set(sys.modules) - modules))
            os._exit(code)


_n_writes = 0


def kill_at_write(n: int) -> None:
    """Kill this process at the n-th time that it opens a file for writing, renames, removes or makes something."""
    _kill_at_write(lambda event, arguments: _n_writes == n)


def _kill_at_write(is_now: Callable[[str, tuple[object, ...]], bool]) -> None:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        global _n_writes
        is_opened = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if is_opened or event in WRITES:
            _n_writes += 1
            if is_now(event, arguments):
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _counted() -> None:
    _kill_at_write(lambda event, arguments: False)


class _ThirdCheckpoint:
    """Whether the checkpoint of the third epoch is about to get its name."""

    n = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> bool:
        self.n += event == "os.rename" and str(arguments[1]).endswith("last.safetensors")
        return self.n == 3


def hashes(folder: Path, command: Command) -> dict[str, str]:
    """Return the results of a command as hashes by path; hidden files are none."""
    files = {path for pattern in command.results for path in folder.glob(pattern) if path.is_file()}
    named = {path.relative_to(folder).as_posix(): path for path in files}
    shown = {name: path for name, path in named.items() if not f"/{name}".count("/.")}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in shown.items()}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _review() -> None:
    """Correct the finished run as a person would: a name, an approval, a few images moved."""
    from nngcd.core.run_folder import RunFolder
    from nngcd.review.session import Review

    review = Review(RunFolder(Path("run")))
    first, *others = list(review.state.categories)
    review.approve(first)
    review.rename(others[-1], "strange")


def _make_data(base: Path) -> None:
    from safetensors.torch import save_file
    from timm import create_model

    rng = np.random.default_rng(0)

    def paint(path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.array(COLOURS[name]) + rng.integers(-60, 60, size=(32, 32, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)

    for name in COLOURS:
        for i in range(5):
            paint(base / "images" / "_unlabelled" / f"{name}{i}.png", name)
            paint(base / "new" / f"{name}{i}.png", name)
            if name in ("red", "green"):
                paint(base / "images" / name / f"{name}{i}.png", name)
    features = np.repeat(rng.normal(size=(4, 8)), 10, axis=0) * 3 + rng.normal(size=(40, 8))
    np.savez(base / "features.npz", X=features.astype(np.float32), y=np.repeat([0, -1, 1, -1, -1, -1, -1, -1], 5))
    torch.manual_seed(0)
    save_file(create_model("test_resnet", pretrained=False).state_dict(), base / "weights.safetensors")
