"""A finished run on files with ugly names, reviewed a little."""

import numpy as np
import pandas as pd
import pytest
from finished_runs import IMAGES, finished_run, results_table
from PIL import Image

from nngcd.review.session import Review


@pytest.fixture
def data(tmp_path):
    """The images of the run as files; each has a size of its own."""
    root = tmp_path / "data"
    for i, (name, *_) in enumerate(IMAGES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((10 + i, 20, 3), 20 * i, dtype=np.uint8)
        # Not compressed: the bytes, and with them the ids in golden files, are the same everywhere.
        Image.fromarray(pixels).save(root / name, format="PPM")
    return root


@pytest.fixture
def run(tmp_path, data):
    return finished_run(tmp_path / "run", data=data)


@pytest.fixture
def reviewed_run(run, monkeypatch):
    """new-001 is named and approved, i is moved to the owls, c rejected; at a time that golden files can name."""
    monkeypatch.setattr("nngcd.review.session.now", lambda: "2026-11-16T10:00:00+00:00")
    review = Review(run, user="ana")
    review.rename("new-001", "=Tawny, <b>")
    review.approve("new-001")
    review.move(["_unlabelled/i.png"], to="owl")
    review.reject(["_unlabelled/c.png"])
    return run


@pytest.fixture
def ugly_run(tmp_path):
    """Categories and files with names that some file system does not take, or takes for another."""
    names = ["a/x.png", "b/x.png", "b/X.PNG", "c/con.png", "c/" + "l" * 200 + ".png", "d/été.png", "d/ok.png"]
    results = results_table()[: len(names)].assign(file_name=names, image_id=[f"id-{i}" for i in range(len(names))])
    root = tmp_path / "ugly"
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, dtype=np.uint8)).save(root / name, format="PNG")
    run = finished_run(tmp_path / "ugly-run", data=root, results=results)
    review = Review(run)
    review.rename("owl", "<script>alert(1)</script>")
    review.rename("crow", "CON")
    review.split("new-001", parts=[[name] for name in names[4:]])
    for id_, name in (("new-004", "a/b"), ("new-005", "dots..."), ("new-006", "con")):
        review.rename(id_, name)
    return run


def read_csv(path):
    return pd.read_csv(path, keep_default_na=False)
