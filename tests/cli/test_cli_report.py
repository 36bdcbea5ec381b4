"""`nngcd report` and the page that `nngcd fit` writes, from images on disk to the file."""

from __future__ import annotations

import json
import os
import signal
import time

import numpy as np
import pytest

from nngcd import CategoryDiscovery
from nngcd.core.errors import DataError


@pytest.mark.slow
def test_fit_writes_the_page_and_report_writes_it_again(nngcd, image_folder, tmp_path):
    run = tmp_path / "runs" / "first"
    small = ["--image-size", 32, "--workers", 0]
    code, out, err = nngcd("fit", image_folder, "--k", 3, "--method", "kmeans", "--out", run, *small)
    assert (code, err) == (0, "")
    assert f"Look at the categories:  open {run / 'report.html'} in a browser" in out
    assert f"nngcd export {run} --to csv,folders --out sorted" in out
    assert f"nngcd predict {run} NEW_IMAGES/ --out new.csv" in out
    first = (run / "report.html").read_text(encoding="utf-8")
    assert first.count("data:image/jpeg") == 30

    code, out, _ = nngcd("report", run, "--out", tmp_path / "other.html", "--max-images", 6, "--json")
    facts = json.loads(out)
    assert (code, facts["n_categories"], facts["n_thumbnails"]) == (0, 3, 6)
    assert (tmp_path / "other.html").read_text(encoding="utf-8").count("data:image/jpeg") == 6
    assert (run / "report.html").read_text(encoding="utf-8") == first

    (tmp_path / "mine.csv").write_text("precious")
    for place, reason in (
        ("other.html", "already exists"),
        ("mine.csv", "already exists"),
        ("new.csv", "end in .html"),
    ):
        code, _, err = nngcd("report", run, "--out", tmp_path / place)
        assert (code, reason in err) == (2, True)
    code, _, err = nngcd("report", run, "--out", image_folder / "page.html")
    assert (code, "inside the data folder" in " ".join(err.split())) == (2, True)
    code, _, err = nngcd("figures", run, "--out", image_folder / "figures", "--only", "gelu")
    assert (code, "inside the data folder" in " ".join(err.split())) == (2, True)
    assert nngcd("report", run, "--out", tmp_path / "mine.csv", "--overwrite")[0] == 2
    assert (tmp_path / "mine.csv").read_text() == "precious"
    assert nngcd("report", run, "--out", tmp_path / "other.html", "--overwrite")[0] == 0

    check_images_that_are_gone(nngcd, run, image_folder, tmp_path)


@pytest.mark.slow
def test_a_run_stopped_while_its_page_is_written_is_complete(nngcd, image_folder, tmp_path, monkeypatch):
    run = tmp_path / "run"

    def stopped(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)  # Another thread may get the signal, and tells this one a little later.

    monkeypatch.setattr("nngcd.pipeline.write_report", stopped)
    options = ["--k", 3, "--method", "kmeans", "--image-size", 32, "--workers", 0, "--out", run]
    code, _, err = nngcd("fit", image_folder, *options)
    assert code == 130
    assert f"The run is complete. To write the report: nngcd report {run}" in " ".join(err.split())
    assert (run / "results.csv").is_file()


def check_images_that_are_gone(nngcd, run, image_folder, tmp_path):
    """W03: the page may be the last that shows them, so it is replaced only when that is asked for."""
    first = (run / "report.html").read_text(encoding="utf-8")
    moved = image_folder.rename(tmp_path / "moved")
    code, _, err = nngcd("report", run)
    assert code == 3
    err = " ".join(err.split())
    assert (
        f"W03: {run / 'report.html'} shows 30 images, but a new page would show only 0, so the old one is kept." in err
    )
    assert "RUN --root FOLDER, write to another file with --out ANOTHER.html, or replace" in err
    assert (run / "report.html").read_text(encoding="utf-8") == first
    code, out, _ = nngcd("report", run, "--out", tmp_path / "bare.html")
    assert code == 0
    assert "No thumbnails: The images were moved or deleted" in out
    code, out, _ = nngcd("report", run, "--root", moved)
    assert (code, "(3 categories, 30 thumbnails," in out) == (0, True)
    assert (run / "report.html").read_text(encoding="utf-8") == first
    code, _, err = nngcd("report", run, "--root", tmp_path / "nothing")
    assert code == 2
    assert "does not hold the images of this run" in err

    (moved / "red" / "red_0.png").unlink()
    code, _, err = nngcd("report", run, "--root", moved)
    assert (code, "1 image can no longer be shown, first 'red/red_0.png'" in " ".join(err.split())) == (3, True)
    assert (run / "report.html").read_text(encoding="utf-8") == first
    code, out, _ = nngcd("report", run, "--root", moved, "--overwrite")
    assert (code, "29 thumbnails" in out) == (0, True)
    assert nngcd("report", run, "--root", moved)[0] == 0, "nothing is lost that was still there"


def test_a_run_on_features_gets_a_page_without_thumbnails_when_asked(nngcd, blobs, tmp_path):
    features, labels, _ = blobs
    np.savez(tmp_path / "data.npz", X=features, y=labels)
    run = tmp_path / "run"
    code, out, _ = nngcd("fit", tmp_path / "data.npz", "--k", 6, "--method", "kmeans", "--out", run)
    assert code == 0
    assert f"Look at the categories:  nngcd report {run}" in out
    # What is advised works: there are neither files to sort nor images to label.
    assert f"nngcd export {run} --to csv --out sorted" in out
    assert f"nngcd predict {run} NEW.npz --out new.csv" in out
    assert "NEW_IMAGES" not in out
    assert nngcd("export", run, "--to", "csv", "--out", tmp_path / "sorted")[0] == 0
    assert nngcd("predict", run, tmp_path / "data.npz", "--out", tmp_path / "new.csv")[0] == 0
    assert not (run / "report.html").exists()
    code, out, _ = nngcd("report", run)
    assert code == 0
    assert "No thumbnails: This run was made from features" in out
    assert (run / "report.html").is_file()


def test_an_unfinished_run_has_no_report(nngcd, tmp_path):
    (tmp_path / "config.yaml").write_text("data: x\n")
    code, _, err = nngcd("report", tmp_path)
    assert code == 3
    assert "is not finished. Finish it first: nngcd fit --resume" in err


def test_the_estimator_writes_the_page_of_what_it_fitted(blobs, tmp_path):
    features, labels, _ = blobs
    discovery = CategoryDiscovery(6, method="kmeans").fit(features, labels)
    text = discovery.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count('class="card ') == 6
    assert "6 categories, known and new together. The number was given" in text
    discovery.save(tmp_path / "model")
    with pytest.raises(DataError, match="nngcd report RUN"):
        CategoryDiscovery.load(tmp_path / "model").report(tmp_path / "page.html")
