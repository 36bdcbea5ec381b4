import numpy as np
import pandas as pd
import pytest
from torch import nn

from nngcd.backbones.backbone import Backbone
from nngcd.core.files import write_table
from nngcd.runs import embedding
from nngcd.views.preprocessing import Preprocessing


@pytest.fixture
def small_backbone(monkeypatch):
    """Mean colours of a 2 x 2 grid as features: no weights, and the answer is known."""

    def load(name, *, weights=None, image_size=None):
        same = nn.Conv2d(3, 3, 1, bias=False)  # a network has weights; these change nothing
        nn.init.dirac_(same.weight)
        network = nn.Sequential(same, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        preprocessing = Preprocessing(image_size=image_size or 16, mean=(0, 0, 0), std=(1, 1, 1))
        return Backbone(
            name=name, network=network, split=lambda n: (n, nn.Identity()), preprocessing=preprocessing,
            n_features=12, fingerprint="none",
        )  # fmt: skip

    monkeypatch.setattr(embedding, "load_backbone", load)


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


def test_a_command_that_was_broken_off_between_its_files_can_be_repeated(
    nngcd, small_backbone, image_folder, tmp_path, monkeypatch
):
    out = tmp_path / "f.npy"
    with monkeypatch.context() as broken:

        def killed(path, table):
            write_table(path, table)
            raise KeyboardInterrupt

        broken.setattr(embedding, "write_table", killed)
        nngcd("embed", image_folder, "--out", out, "--workers", 0)
    assert (tmp_path / "f.csv").is_file() and not out.exists()
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
