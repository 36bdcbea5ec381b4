"""`fit --sample`: trained on few, everything sorted, one run folder."""

from __future__ import annotations

import json

import numpy as np
import packed
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nngcd.runs import parts


@pytest.fixture
def features(tmp_path, rng):
    """1,200 features of six kinds in three files; some of three kinds are labelled."""
    kinds = rng.permutation(np.repeat(np.arange(6), 200))
    centres = rng.normal(size=(6, 16)) * 3
    features = (centres[kinds] + rng.normal(size=(1200, 16)) * 0.3).astype(np.float32)
    names = [f"{row}.jpg" for row in range(1200)]
    labels = [f"kind {k}" if k < 3 and row % 10 == 0 else None for row, k in enumerate(kinds)]
    (tmp_path / "features").mkdir()
    for part in range(3):
        some = slice(400 * part, 400 * (part + 1))
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(features[some].reshape(-1)), 16)
        table = pa.table({"file_name": names[some], "label": labels[some], "feature": vectors})
        pq.write_table(table, tmp_path / "features" / f"{part}.parquet")
    return tmp_path / "features", kinds, labels


def test_a_run_on_a_sample_sorts_everything(nngcd, features, tmp_path):
    data, kinds, labels = features
    run = tmp_path / "run"
    code, out, err = nngcd("fit", data, "--k", 6, "--method", "kmeans", "--sample", 300, "--out", run)
    assert code == 0, err
    n_labelled = sum(label is not None for label in labels)
    assert f"plan: train on a sample of 300 rows ({n_labelled} labelled), then sort all 1,200 in 3 parts" in out
    assert "all 1,200 images are sorted in assigned/" in " ".join(out.split())
    assert len(pd.read_csv(run / "results.csv")) == 300
    assert json.loads((run / "assigned" / "_manifest.json").read_text())["rows"] == 1200
    table = pd.read_parquet(run / "assigned")
    assert table["file_name"].tolist() == [f"{row}.jpg" for row in range(1200)]
    # Every kind is one category, also of the 900 rows that training never saw.
    assert pd.crosstab(kinds, table["category"]).max(axis=1).sum() > 1190
    assert nngcd("predict", run, data, "--out", tmp_path / "again.parquet", "-q")[0] == 0
    assert pd.read_parquet(tmp_path / "again.parquet")["category"].tolist() == table["category"].tolist()


@pytest.mark.slow
def test_a_stopped_run_goes_on_sorting(nngcd, features, tmp_path, monkeypatch):
    data, *_ = features
    run, write, n_left = tmp_path / "run", parts._write_part, [1]

    def stops(*arguments):
        if not n_left[0]:
            raise KeyboardInterrupt
        n_left[0] -= 1
        return write(*arguments)

    with monkeypatch.context() as killed:
        killed.setattr(parts, "_write_part", stops)
        code, _, err = nngcd("fit", data, "--k", 6, "--method", "kmeans", "--sample", 300, "-q", "--out", run)
    assert (code, f"fit --resume {run}" in err.replace("\n", "")) == (130, True), err
    assert (run / "summary.json").is_file() and not (run / "assigned" / "_manifest.json").exists()
    code, out, err = nngcd("fit", "--resume", run)
    assert code == 0, err
    assert "all 1,200 images are sorted in assigned/" in " ".join(out.split())


@pytest.mark.slow
def test_a_sample_of_images_is_random_and_keeps_labels(nngcd, tmp_path):
    packed.write_tars(tmp_path / "data", packed.pictures(60), 3)
    run = tmp_path / "run"
    flags = ["--k", 3, "--method", "kmeans", "--image-size", 32, "--workers", 0]
    code, out, err = nngcd("fit", tmp_path / "data", *flags, "--sample", 40, "--out", run, "--cache", tmp_path / "c")
    assert code == 0, err
    assert "plan: train on a sample of 40 rows (20 labelled), then sort all in 3 parts" in " ".join(out.split())
    results = pd.read_csv(run / "results.csv")
    assert (len(results), results["label_given"].notna().sum()) == (40, 20)
    assert len(pd.read_parquet(run / "assigned")) == 60
    page = (run / "report.html").read_text()
    assert "The run was trained on a sample; all 60 images are sorted in assigned/" in page
