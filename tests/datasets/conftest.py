"""Small generated images; no two have the same content unless a test asks for it."""

import shutil
from functools import cache
from pathlib import Path

import miniatures
import pytest


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
