"""Shared fixtures: small data that runs in seconds and needs neither network nor ../shared."""

from __future__ import annotations

import gc
import hashlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nngcd.cli import main
from nngcd.core.progress import Progress
from nngcd.data.split import Split
from nngcd.datasets.arrays import from_arrays

BROWSER_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--proxy-server=127.0.0.1:9", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip


def pytest_runtest_setup(item):
    """Skip a test whose extra is not installed: one marked `needs`, or of a method that needs Infomap."""
    needed = {package for mark in item.iter_markers("needs") for package in mark.args}
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if any(isinstance(value, str) and value in ("dccl", "communities") for value in values):
        needed.add("infomap")
    for package in sorted(needed):
        if find_spec(package) is None:  # not imported here: faiss and Infomap crash in one process
            pytest.skip(f"needs {package}, which is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep garbage collection, which every run asks for, away from all that collecting the tests imports."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Lines are counted in the tests of `make check` only: counting makes a test take half as long again."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")


@pytest.fixture(scope="session", autouse=True)
def _home_of_the_tests(tmp_path_factory):
    """Neither what the user has added with `nngcd data add` nor weights that lie on this machine change a test."""
    weights = str(tmp_path_factory.mktemp("weights"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNGCD_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_HUB_CACHE", weights)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", weights)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Files are written but not forced to the disk, which takes milliseconds each: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _each_large_matrix_once():
    """Finding the eigenvectors of 1,280 features is most of a small fit, and many tests fit the same images."""
    from nngcd.clustering import whitening  # not above: the process that only shares out the tests needs no torch

    find, found = whitening._eigenvectors, {}

    def find_once(symmetric_dd):
        if symmetric_dd.device.type != "cpu" or len(symmetric_dd) < 256:
            return find(symmetric_dd)
        key = hashlib.sha1(symmetric_dd.contiguous().numpy()).digest()
        if key not in found:
            if len(found) == 12:
                found.pop(next(iter(found)))
            found[key] = find(symmetric_dd)
        return found[key].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whitening, "_eigenvectors", find_once)
        yield


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of one megabyte; only where this user may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def nngcd(monkeypatch, capsys):
    """Run a command in this process; return its exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nngcd", *(str(a) for a in arguments)])
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as exit_:
            main()
        signal.signal(signal.SIGTERM, before)
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def made_once(tmp_path_factory) -> Callable[[Callable[[Path], None], Path], Path]:
    """Return a function that gives a test its own copy of a folder, which is made for the first test of a file."""
    folders = {}

    def copy(make: Callable[[Path], None], to: Path) -> Path:
        if make.__qualname__ not in folders:
            make(folder := tmp_path_factory.mktemp("made"))
            folders[make.__qualname__] = folder
        return Path(shutil.copytree(folders[make.__qualname__], to, dirs_exist_ok=True))

    return copy


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def blobs(rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """240 features in 6 well separated classes: X, y (classes 0-2 half labelled, the rest -1), true classes."""
    centres = rng.normal(size=(6, 16)) * 3
    classes = np.repeat(np.arange(6), 40)
    features = (centres[classes] + rng.normal(size=(240, 16)) * 0.3).astype(np.float32)
    labels = np.where((classes < 3) & (np.arange(240) % 2 == 0), classes, -1)
    return features, labels, classes


@pytest.fixture
def blob_split(blobs) -> Split:
    features, labels, _ = blobs
    return from_arrays(features, labels)


@pytest.fixture
def save_image():
    serial = count()

    def save(path: Path, *, seed: int | None = None) -> Path:
        rng = np.random.default_rng(next(serial) if seed is None else seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 6, 3), dtype=np.uint8)).save(path)
        return path

    return save


@pytest.fixture
def birds(tmp_path, save_image):
    """A folder with two categories and unlabelled images."""
    root = tmp_path / "birds"
    for name in ("owl/a.png", "owl/b.png", "crow/a.png", "_unlabelled/x.png", "_unlabelled/y.png", "loose.png"):
        save_image(root / name)
    return root


@pytest.fixture
def image_folder(tmp_path, rng) -> Path:
    """Red and green pictures in labelled folders; red, green and blue ones to be sorted."""
    root = tmp_path / "pictures"
    colours = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}

    def paint(path: Path, colour: tuple[int, int, int]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = rng.integers(-25, 25, size=(40, 40, 3))
        Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)

    for name in ("red", "green"):
        for i in range(6):
            paint(root / name / f"{name}_{i}.png", colours[name])
    for name, colour in colours.items():
        for i in range(6):
            paint(root / "_unlabelled" / f"{name}_{i}.png", colour)
    return root


class StopAfter(Progress):
    """Stands for a crash: raises after some epochs, when their checkpoint is written."""

    def __init__(self, n_epochs):
        self.left, self.stage = n_epochs, ""

    def start(self, stage, total):
        self.stage = stage

    def advance(self, n=1, note=""):
        if self.stage.startswith("training") and n:
            self.left -= n
            if self.left <= 0:
                raise KeyboardInterrupt


@pytest.fixture
def stop_after() -> type[Progress]:
    return StopAfter


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Chromium without a network: only 127.0.0.1 can be reached, by its number."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra `test`)")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no browser: install Debian's packages chromium and chromium-driver (`make browser` tries to)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*BROWSER_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium') / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


@pytest.fixture
def browser(chromium):
    """Give a window of Chromium that knows nothing of other tests: opening Chromium takes longer than most of them."""
    first = chromium.current_window_handle
    chromium.switch_to.new_window("window")
    for forget in ("Network.clearBrowserCookies", "Network.clearBrowserCache"):
        chromium.execute_cdp_cmd(forget, {})
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    yield chromium
    chromium.close()
    chromium.switch_to.window(first)
