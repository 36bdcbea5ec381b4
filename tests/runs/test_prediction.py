from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nngcd import CategoryDiscovery
from nngcd.core.errors import DataError
from nngcd.core.run_folder import RunFolder
from nngcd.data import sources
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_images
from nngcd.pipeline import fit
from nngcd.runs import prediction
from nngcd.runs.prediction import Sorter, features_of, predict, predict_with, unlike_words
from nngcd.settings import resolve


@pytest.fixture
def fitted(blob_split):
    return fit(blob_split, resolve({"method": "kmeans", "k": 6}))


def test_features_stream_through_the_model_in_blocks(fitted, blob_split, monkeypatch):
    sorter = Sorter(model=fitted.model, categories=fitted.categories)
    whole = predict_with(sorter, blob_split)
    monkeypatch.setattr(prediction, "ROWS_PER_BLOCK", 100)
    assert [len(features_bd) for features_bd in features_of(fitted.model, blob_split)] == [100, 100, 40]
    pd.testing.assert_frame_equal(predict_with(sorter, blob_split), whole)


def test_features_of_another_size_are_refused_at_once(fitted, blobs):
    with pytest.raises(DataError, match="needs 16 features per image, got 8"):
        features_of(fitted.model, from_arrays(blobs[0][:, :8]))


@pytest.mark.slow
def test_files_stream_in_blocks_into_the_same_table(nngcd, image_folder, tmp_path, monkeypatch):
    run = tmp_path / "run"
    options = ["--k", 3, "--method", "kmeans", "--image-size", 32, "--workers", 0, "-q", "--out", run]
    assert nngcd("fit", image_folder, *options)[0] == 0
    (image_folder / "_unlabelled" / "broken.png").write_bytes(b"no picture")
    (image_folder / "_unlabelled" / "empty.png").write_bytes(b"")
    split = open_images(str(image_folder))
    whole = predict(RunFolder.open(run), split, workers=0).sort_values("file_name", ignore_index=True)
    assert len(whole) == 32

    monkeypatch.setattr(sources, "IMAGES_PER_READ", 7)
    for name in ("new.csv", "new.parquet"):
        code, out, _ = nngcd("predict", run, image_folder, "--out", tmp_path / name, "--workers", 0, "-q")
        assert code == 0
        assert "2  could not be read; the table says why" in out
        table = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
        table = table.sort_values("file_name", ignore_index=True)
        pd.testing.assert_frame_equal(table, whole, check_dtype=False, rtol=1e-4)
    reasons = table.set_index("file_name").loc["_unlabelled/empty.png"]
    assert (reasons["status"], reasons["reason"]) == ("unreadable", "D03: 0 bytes")

    listed = image_folder.parent / "list.csv"
    listed.write_text("file_name,label\npictures/red/red_0.png,\npictures/red/gone.png,\n")
    code, _, _ = nngcd("predict", run, listed, "--out", tmp_path / "two.csv", "--top", 1, "--workers", 0, "-q")
    assert code == 0
    two = pd.read_csv(tmp_path / "two.csv")
    assert two["status"].tolist() == ["known", "unreadable"]
    assert two.columns.tolist() == ["file_name", "image_id", "category", "label", "status", "confidence", "novelty",
                                    "alt_1", "alt_1_p", "reason"]  # fmt: skip


def test_the_confidence_of_the_run_is_used_and_the_share_of_unsure_can_be_changed(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    assert nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", tmp_path / "run")[0] == 0
    results = pd.read_csv(tmp_path / "run" / "results.csv")
    predict_ = ["predict", tmp_path / "run", tmp_path / "blobs.npz", "-q", "--out"]
    assert nngcd(*predict_, tmp_path / "same.csv")[0] == 0
    same, unlabelled = pd.read_csv(tmp_path / "same.csv"), results["label_given"].isna()
    for column in ("category", "status", "confidence", "novelty", "alt_3_p"):
        assert (same[column] == results[column])[unlabelled].all(), column
    assert nngcd(*predict_, tmp_path / "sure.csv", "--unsure", 0)[0] == 0
    assert "unsure" not in set(pd.read_csv(tmp_path / "sure.csv")["status"])
    assert nngcd(*predict_, tmp_path / "half.csv", "--unsure", 0.5)[0] == 0
    assert (pd.read_csv(tmp_path / "half.csv")["status"] == "unsure").sum() > 20


@pytest.mark.parametrize(("n_unlike", "n", "warns"), [(0, 0, False), (5, 100, False), (2, 10, False), (30, 100, True)])
def test_a_warning_needs_more_than_chance(n_unlike, n, warns):
    assert (unlike_words(n_unlike, n) is not None) == warns


def test_new_images_are_called_by_the_names_a_review_gave(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    assert nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", tmp_path / "run")[0] == 0
    with CategoryDiscovery.load(tmp_path / "run").edit() as edit:
        edit.rename("new-001", "hawk")
        edit.merge(["0", "new-002"])
        edit.split("new-003", parts=2)
    assert nngcd("predict", tmp_path / "run", tmp_path / "blobs.npz", "-q", "--out", tmp_path / "new.csv")[0] == 0
    found = pd.read_csv(tmp_path / "new.csv", dtype=str).groupby("category")["label"].unique()
    assert {id_: list(labels) for id_, labels in found.items()} == {
        "0": ["0"], "1": ["1"], "2": ["2"], "new-001": ["hawk"], "new-002": ["0"], "new-003": ["new-004 or new-005"],
    }  # fmt: skip


def test_a_run_that_is_not_finished_cannot_label(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    assert nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", tmp_path / "run")[0] == 0
    (tmp_path / "run" / "summary.json").unlink()
    code, _, err = nngcd("predict", tmp_path / "run", tmp_path / "blobs.npz", "--out", tmp_path / "new.csv")
    assert code == 3
    assert "is not finished. Finish it first: nngcd fit --resume" in " ".join(err.split())
    assert not (tmp_path / "new.csv").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("always::nngcd.core.errors.NngcdWarning")
def test_images_in_hidden_folders_are_named_when_others_are_sorted(nngcd, image_folder, tmp_path):
    run = tmp_path / "run"
    options = ["--k", 3, "--method", "kmeans", "--image-size", 32, "--workers", 0, "-q", "--out", run]
    assert nngcd("fit", image_folder, *options)[0] == 0
    (image_folder / "red").rename(image_folder / ".red")
    code, _, err = nngcd("predict", run, image_folder, "--out", tmp_path / "new.csv", "--workers", 0, "-q")
    assert code == 0
    assert "D28" in err
    assert "'.red'" in err
