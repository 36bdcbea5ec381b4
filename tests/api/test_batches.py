"""`Predictor` and `Embedder` give engines what the command line writes, in the order of the batch."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import nngcd as public
from nngcd.core.errors import ConfigError, DataError

FLAGS = ["--image-size", 32, "--workers", 0, "-q"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Red, green and blue pictures in one folder, and a run on them."""
    from nngcd import pipeline

    root, rng = tmp_path_factory.mktemp("batches"), np.random.default_rng(0)
    for i in range(24):
        colour = np.array([(200, 30, 30), (30, 200, 30), (30, 30, 200)][i % 3])
        pixels = np.clip(colour + rng.integers(-25, 25, (36, 36, 3)), 0, 255).astype(np.uint8)
        name = ("red", "green")[i % 3] if i % 3 < 2 and i < 12 else "unlabelled"
        (root / "data" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / "data" / name / f"{i}.png")
    settings = {
        "method": "kmeans",
        "k": 3,
        "image_size": 32,
        "workers": 0,
        "hold_back": 0.0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.run(str(root / "data"), settings, out=root / "run", report=False, cache=root / "cache")
    return root / "data", root / "run"


def files(data):
    return sorted(data.rglob("*.png"))


def table_of(command, nngcd_, data, out, *flags):
    assert nngcd_(*command, data, "--out", out, "--workers", 0, "-q", *flags)[0] == 0
    return pd.read_parquet(out).set_index("file_name")


def test_a_predictor_gives_what_the_command_writes(nngcd, folders, tmp_path):
    data, run = folders
    table = table_of(["predict", run], nngcd, data, tmp_path / "p.parquet")
    names = [path.relative_to(data).as_posix() for path in files(data)]
    forms = {
        "content": [path.read_bytes() for path in files(data)],
        "pixels": np.stack([np.asarray(Image.open(path)) for path in files(data)]),
        "hugging face": [{"bytes": path.read_bytes(), "path": None} for path in files(data)],
        "pillow": [Image.open(path) for path in files(data)],
    }
    predictor = pickle.loads(pickle.dumps(public.Predictor(run)))
    for form, images in forms.items():
        found = predictor({"image": images, "path": names})
        assert "image" not in found and list(found["path"]) == names, form
        assert list(found["category"]) == table.loc[names, "category"].tolist(), form
        assert np.allclose(found["confidence"], table.loc[names, "confidence"], atol=1e-5), form
        assert set(found) == {"path", *table.columns} - {"image_id"}, form


def test_an_embedder_gives_what_the_command_writes(nngcd, folders, tmp_path):
    data, _ = folders
    table = table_of(["embed"], nngcd, data, tmp_path / "f.parquet", "--image-size", 32)
    names = [path.relative_to(data).as_posix() for path in files(data)]
    embedder = public.Embedder(image_size=32)
    assert len(pickle.dumps(embedder)) < 1000
    found = embedder({"image": [path.read_bytes() for path in files(data)]})
    # A network's weights stay where they were loaded.
    assert len(pickle.dumps(embedder)) < 1000
    assert found["feature"].dtype == np.float32
    assert np.allclose(found["feature"], np.stack(table.loc[names, "feature"]), atol=1e-4)
    assert set(found["reason"]) == {None}


def test_rows_keep_their_order_around_what_cannot_be_read(folders):
    data, run = folders
    good = files(data)[0].read_bytes()
    images = [good, b"no picture", np.zeros((4, 4), np.float32), np.zeros((40, 30, 3), np.uint8), None, good]
    found = public.Predictor(run)({"image": np.array([*images, 0], dtype=object)[:-1]})
    assert [status == "unreadable" for status in found["status"]] == [False, True, True, False, True, False]
    assert found["reason"][1] == "D03: unknown format"
    assert found["reason"][0] is None
    assert found["category"][0] == found["category"][5] is not None
    assert np.isnan(found["confidence"][1])
    found = public.Embedder(image_size=32, prefix="x_")({"image": images, "feature": list(range(6))})
    assert np.isnan(found["x_feature"]).all(1).tolist() == [False, True, True, False, True, False]
    assert found["feature"] == list(range(6))
    assert public.Predictor(run)({"image": []})["category"].shape == (0,)


def test_features_go_to_a_run_on_features(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    run = tmp_path / "run"
    assert nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", run)[0] == 0
    results = pd.read_csv(run / "results.csv")
    predictor = public.Predictor(run, column="feature", top=1)
    found = predictor({"feature": blobs[0]})
    is_sorted = results["label_given"].isna()
    assert (found["category"] == results["category"])[is_sorted].all()
    assert "alt_2" not in found
    with pytest.raises(DataError, match="needs 16 features per image, got 8"):
        predictor({"feature": blobs[0][:, :8]})
    with pytest.raises(DataError, match="was made from features, and the batch has none"):
        predictor({"feature": ["text"]})


def test_mistakes(folders):
    _, run = folders
    predictor = public.Predictor(run)
    with pytest.raises(DataError, match=r"no column 'image' .found: picture.; name it: column="):
        predictor({"picture": []})
    with pytest.raises(ConfigError, match="already has a column 'label'; give prefix='nngcd_'"):
        predictor({"image": [], "label": []})
    assert "nngcd_label" in public.Predictor(run, prefix="nngcd_")({"image": [], "label": []})
    with pytest.raises(DataError, match=r"is not finished|not a run folder|does not exist"):
        public.Predictor(run / "nothing")({"image": []})


KILLS = """
import os, signal, sys
from pathlib import Path
import ray
import nngcd

folder, run, out, mark = sys.argv[1:]

class DiesOnce(nngcd.Predictor):
    def __call__(self, batch):
        try:
            os.open(mark, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return super().__call__(batch)
        os.kill(os.getpid(), signal.SIGKILL)

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
images = ray.data.read_images(folder, include_paths=True, override_num_blocks=6)
sorted_ = images.map_batches(
    DiesOnce, fn_constructor_args=[run], fn_constructor_kwargs={"workers": 0}, batch_size=4, num_cpus=1, concurrency=2
)
sorted_.to_pandas().to_parquet(out)
ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.needs("ray", "ray.data")
@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_ray_sorts_on_two_workers_one_of_which_is_killed(nngcd, folders, tmp_path):
    """The driver is a process of its own, so that nothing of Ray stays in that of the tests."""
    data, run = folders
    script = tmp_path / "driver.py"
    script.write_text(KILLS)
    command = [sys.executable, script, data, run, tmp_path / "ray.parquet", tmp_path / "killed"]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    found = pd.read_parquet(tmp_path / "ray.parquet")
    assert len(found) == 24
    table = table_of(["predict", run], nngcd, data, tmp_path / "p.parquet")
    names = found["path"].str.removeprefix(f"{data}/")
    assert sorted(names) == sorted(table.index)
    assert found["category"].tolist() == table.loc[names, "category"].tolist()
    assert np.allclose(found["confidence"], table.loc[names, "confidence"], atol=1e-5)
