import numpy as np
import pandas as pd
import pytest

from nngcd.runs import embedding


def test_features_of_a_folder(nngcd, small_backbone, image_folder, tmp_path):
    (image_folder / "red" / "broken.png").write_bytes(b"no picture")
    out = tmp_path / "features.npy"
    code, said, err = nngcd("embed", image_folder, "--out", out, "--workers", 0)
    assert code == 0, err
    assert "30 images, 12 features each (length 1), by efficientnet_lite0" in said
    assert "1 files were not used, first 'red/broken.png'" in said
    features_nd = np.load(out)
    rows = pd.read_csv(tmp_path / "features.csv")["file_name"]
    assert features_nd.dtype == np.float32
    assert np.allclose(np.linalg.norm(features_nd, axis=1), 1, atol=1e-5)
    red = features_nd[rows.str.contains("red_")]
    assert (red[:, :4] > 0.4).all() and (red[:, 4:] < 0.2).all()


def test_parquet_holds_the_same(nngcd, small_backbone, image_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "ROWS_PER_GROUP", 7)
    for name in ("a.npy", "a.parquet"):
        assert nngcd("embed", image_folder, "--out", tmp_path / name, "--workers", 0, "--image-size", 20)[0] == 0
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert np.array_equal(np.stack(table["feature"]), np.load(tmp_path / "a.npy"))
    assert table["file_name"].tolist() == pd.read_csv(tmp_path / "a.csv")["file_name"].tolist()


def test_a_command_that_is_broken_off_leaves_nothing(nngcd, small_backbone, image_folder, tmp_path, monkeypatch):
    out = tmp_path / "f.npy"
    with monkeypatch.context() as broken:

        def killed(*_):
            raise KeyboardInterrupt

        broken.setattr(embedding, "features_of_column", killed)
        assert nngcd("embed", image_folder, "--out", out, "--workers", 0)[0] == 130
    assert not [path.name for path in tmp_path.iterdir() if path.is_file()]
    code, _, err = nngcd("embed", image_folder, "--out", out, "--workers", 0)
    assert (code, len(np.load(out))) == (0, 30), err
    assert "f.npy already exists" in nngcd("embed", image_folder, "--out", out)[2].replace("\n", "")


def test_mistakes(nngcd, small_backbone, image_folder, tmp_path, blobs):
    assert "must end in .npy or .parquet" in nngcd("embed", image_folder, "--out", tmp_path / "a.txt")[2]
    (tmp_path / "a.csv").write_text("mine")
    code, _, err = nngcd("embed", image_folder, "--out", tmp_path / "a.npy")
    assert (code, "a.csv already exists" in err.replace("\n", "")) == (2, True)
    np.savez(tmp_path / "x.npz", X=blobs[0])
    code, _, err = nngcd("embed", tmp_path / "x.npz", "--out", tmp_path / "b.npy")
    assert (code, "already holds features" in err) == (3, True)
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize("name", ["features.npy", "features.parquet"])
def test_a_disk_that_is_too_small_is_said_to_be(nngcd, small_backbone, image_folder, small_disk, name):
    (small_disk / "taken").write_bytes(bytes(2**20 - 2 * 4096))
    code, _, err = nngcd("embed", image_folder, "--out", small_disk / "features.npy", "--workers", 0)
    assert code == 0, err
    (small_disk / "features.npy").unlink()
    (small_disk / "features.csv").unlink()
    (small_disk / "more").write_bytes(bytes(2 * 4096))
    code, _, err = nngcd("embed", image_folder, "--out", small_disk / name, "--workers", 0)
    assert code == 4
    assert f"R01: cannot write {small_disk / name}: No space left on device" in " ".join(err.split())
    assert {path.name for path in small_disk.iterdir()} == {"taken", "more"}
