"""Small generated images; no two have the same content unless a test asks for it."""

import shutil
from functools import cache
from itertools import count
from pathlib import Path

import miniatures
import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def save_image():
    serial = count()

    def save(path: Path, *, seed: int | None = None) -> Path:
        rng = np.random.default_rng(next(serial) if seed is None else seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 6, 3), dtype=np.uint8)).save(path)
        return path

    return save


@pytest.fixture(scope="session")
def miniature_at(tmp_path_factory):
    """The miniature of a name, written once for all tests that only read it."""

    @cache
    def write(name: str) -> Path:
        return getattr(miniatures, name)(tmp_path_factory.mktemp(name))

    return write


@pytest.fixture
def miniature_of(miniature_at, tmp_path):
    """A copy of the miniature of a name, for tests that change it."""
    return lambda name: Path(shutil.copytree(miniature_at(name), tmp_path / name))


@pytest.fixture
def birds(tmp_path, save_image):
    """A folder with two categories and unlabelled images."""
    root = tmp_path / "birds"
    for name in ("owl/a.png", "owl/b.png", "crow/a.png", "_unlabelled/x.png", "_unlabelled/y.png", "loose.png"):
        save_image(root / name)
    return root
