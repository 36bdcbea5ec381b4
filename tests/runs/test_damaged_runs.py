"""A run whose files are damaged or a stranger's: refused with the file's name (R03), never used in silence."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.api.estimator import CategoryDiscovery
from nngcd.core.config import read_yaml
from nngcd.core.errors import DataError
from nngcd.core.files import write_json, write_tensors, write_yaml
from nngcd.core.verified_files import read_tensors
from nngcd.datasets.arrays import from_arrays
from nngcd.training.model import Model

FEW = ("--method", "simgcd", "--set", "loss.n_hidden=16", "--set", "loss.n_projection=8",
       "--set", "training.batch_size=48", "--set", "training.epochs=2", "--quiet")  # fmt: skip


@pytest.fixture
def run(nngcd, blobs, tmp_path, made_once):
    """A finished run on features, with K estimated."""

    def make(folder):
        np.savez(folder / "mine.npz", X=blobs[0], y=blobs[1])
        (folder / "truth.csv").write_text("file_name,label\nrow-000001,0\nrow-000200,4\n")
        assert nngcd("fit", folder / "mine.npz", "--k", "5..7", "--out", folder / "run", *FEW)[0] == 0

    return made_once(make, tmp_path) / "run"


def commands(run):
    """Return the commands that read a file of a run."""
    here = run.parent
    predict = ("predict", run, here / "mine.npz", "--out", here / "p.csv", "-q")
    evaluate = ("evaluate", run, "--truth", here / "truth.csv")
    report, figures = ("report", run), ("figures", run, "--only", "tsne", "--format", "svg")
    export, compare = ("export", run, "--to", "csv", "--out", here / "e"), ("compare", run, run)
    begin = ("fit", here / "mine.npz", "--init-from", run, "--out", here / "next", *FEW)
    return {
        "results.parquet": (evaluate, report, figures, export),
        "summary.json": (report, figures, compare, ("fit", "--resume", run)),
        "environment.json": (report, figures),
        "k.json": (report,),
        "metrics.jsonl": (report,),
        "problems.csv": (report, export),
        "config.yaml": (predict, evaluate, report, export, compare, figures),
        "features.safetensors": (report, figures, ("estimate-k", run, "-q")),
        "data/manifest.parquet": (("estimate-k", run, "-q"),),
        "data/split.csv": (begin,),
        "model/model.safetensors": (predict, begin),
        "model/config.json": (predict, begin),
        "model/categories.json": (predict, report, export),
        "model/confidence.json": (predict,),
        "model/surroundings.safetensors": (predict,),
    }


NAMES = ("results.parquet", "summary.json", "environment.json", "k.json", "metrics.jsonl", "problems.csv",
         "config.yaml", "features.safetensors", "data/manifest.parquet", "data/split.csv", "model/model.safetensors",
         "model/config.json", "model/categories.json", "model/confidence.json",
         "model/surroundings.safetensors")  # fmt: skip


@pytest.mark.slow
@pytest.mark.needs("matplotlib")
def test_every_file_that_a_command_reads_is_refused_by_name_when_it_is_not_what_the_run_wrote(nngcd, run):
    assert tuple(commands(run)) == NAMES
    for name, readers in commands(run).items():
        path = run / name
        whole = path.read_bytes()
        if name == "config.yaml":
            write_yaml(path, read_yaml(path) | {"seed": 7})
        elif path.suffix == ".safetensors":
            path.write_bytes(whole[:-2] + bytes([whole[-2] ^ 0x40]) + whole[-1:])
        else:
            path.write_bytes(whole + b"\n")
        for arguments in readers:
            code, out, err = nngcd(*arguments)
            found = (code, "R03" in err, path.name in err.replace("\n", ""), "Traceback" in err)
            assert found == (2 if name == "config.yaml" else 3, True, True, False), (name, arguments, out, err)
        path.write_bytes(whole)
    assert nngcd("doctor", run)[0] == 0
    assert not (run.parent / "p.csv").exists()


@pytest.mark.slow
def test_doctor_verifies_a_run(nngcd, run):
    code, out, _ = nngcd("doctor", run)
    assert (code, "19 files, 19 fine, 0 not verified, 0 damaged" in out) == (0, True), out
    for name in (*NAMES, "results.csv", "categories.csv", "model/preprocessor.json"):
        path = run / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        code, out, err = nngcd("doctor", run)
        assert code == 3, name
        assert f"damaged       {name}: " in out
        assert "Traceback" not in err
        path.unlink()
        may_be_deleted = name in ("metrics.jsonl", "k.json")
        assert nngcd("doctor", run)[0] == (0 if may_be_deleted else 3), name
        path.write_bytes(whole)
    (run / "digests.json").unlink(missing_ok=True)
    code, out, _ = nngcd("doctor", run)
    assert code == 0
    assert "not verified  results.parquet (it has no checksum)" in out
    verdicts = json.loads(nngcd("doctor", run, "--json")[1])[str(run)]
    assert {verdict["state"] for verdict in verdicts} == {"fine", "not verified"}


@pytest.mark.slow
@pytest.mark.filterwarnings("always::nngcd.core.errors.NngcdWarning")
def test_doctor_verifies_a_cache(nngcd, image_folder, tmp_path):
    few = ("--method", "kmeans", "--k", 3, "--quiet", "--backbone", "resnet18", "--weights", "random")
    cache = tmp_path / ".nngcd-cache"
    assert nngcd("fit", image_folder, "--out", tmp_path / "run", "--cache", cache, *few, "--image-size", 32)[0] == 0
    assert nngcd("doctor", "--cache", cache)[0] == 0
    path = next(cache.rglob("*.npy"))
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    for arguments in (("--cache", cache), (tmp_path / "run",)):
        code, out, _ = nngcd("doctor", *arguments)
        assert (code, f"{path.name} is damaged; the next run computes it again" in out) == (3, True)
    assert nngcd("doctor", "--cache", tmp_path / "absent")[0] == 2


def test_no_flipped_bit_of_the_weights_changes_a_prediction_in_silence(run, blobs, rng):
    path = run / "model" / "model.safetensors"
    whole = path.read_bytes()
    for _ in range(40):
        content = bytearray(whole)
        content[int(rng.integers(len(whole) // 2, len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"model\.safetensors is damaged"):
            Model.load(path.parent)


def test_scores_that_are_not_finite_are_never_written(nngcd, run):
    path = run / "model" / "model.safetensors"
    tensors, _ = read_tensors(path)
    name = next(name for name in tensors if name.startswith("method.") and name.endswith("weight"))
    tensors[name][0] = torch.nan
    for name in tensors:
        if name.startswith("tail."):
            tensors[name][...] = torch.nan
    write_tensors(path, tensors)
    code, _, err = nngcd("predict", run, run.parent / "mine.npz", "--out", run.parent / "p.csv", "-q")
    assert (code, "S05: the scores of 240 of 240 images are not finite" in err.replace("\n", " ")) == (3, True), err
    assert not (run.parent / "p.csv").exists()


def test_places_in_the_settings_of_a_run_may_change(nngcd, run):
    (run.parent / "mine.npz").rename(run.parent / "moved.npz")
    values = read_yaml(run / "config.yaml")
    write_yaml(run / "config.yaml", values | {"data": str(run.parent / "moved.npz"), "workers": 1})
    assert nngcd("report", run)[0] == 0
    assert nngcd("doctor", run)[0] == 0


@pytest.mark.parametrize(
    "change",
    [{"backbone": "vit_giant_patch14_dinov2", "n_features": None, "image_size": None}, {"n_clusters": 10**8},
     {"n_features": 10**5}, {"n_features": 2**31 - 1}, {"loss": {"n_hidden": 10**6}}, {"loss": []}, {"method": "none"},
     {"sizes": [1.0] * 100}, {"tail_blocks": 0}, {"n_clusters": 5}, {"whitened_features": 10**5}],
    ids=str,
)  # fmt: skip
def test_a_network_that_cannot_fit_its_weights_is_refused_before_it_is_built(run, change):
    (run / "digests.json").unlink(missing_ok=True)
    path = run / "model" / "config.json"
    write_json(path, json.loads(path.read_text()) | change)
    with pytest.raises(DataError, match=r"R03: .*(config\.json is damaged|does not match its config\.json)"):
        Model.load(run / "model")


def test_a_checkpoint_of_more_epochs_than_the_run_has_is_refused(nngcd, blobs, tmp_path, stop_after):
    from nngcd.core.run_folder import RunFolder
    from nngcd.pipeline import discover
    from nngcd.runs.preparing import prepare
    from nngcd.settings import resolve

    np.savez(tmp_path / "mine.npz", X=blobs[0], y=blobs[1])
    small = {"n_hidden": 16, "n_projection": 8}
    settings = resolve({"data": str(tmp_path / "mine.npz"), "method": "simgcd", "k": 6, "loss": small,
                        "training": {"epochs": 4, "batch_size": 48}})  # fmt: skip
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        discover(prepare(from_arrays(blobs[0], blobs[1], name="mine"), settings), None, run, cache=None,
                 progress=stop_after(2))  # fmt: skip
    tensors, _ = read_tensors(run.checkpoint)
    for done in ("x", "99"):
        write_tensors(run.checkpoint, tensors, {"epochs_done": done})
        code, _, err = nngcd("fit", "--resume", run.path, "-q")
        assert (code, f"epochs_done = '{done}' of 4 epochs" in err.replace("\n", " ")) == (3, True), err


def test_a_saved_model_is_verified_too(blobs, tmp_path):
    CategoryDiscovery(6, method="kmeans").fit(blobs[0], blobs[1]).save(tmp_path / "model")
    assert len(CategoryDiscovery.load(tmp_path / "model").predict(blobs[0])) == 240
    path = tmp_path / "model" / "confidence.json"
    path.write_text(path.read_text().replace("0.9", "0.8"))
    with pytest.raises(DataError, match=r"confidence\.json is damaged \(it was changed after the run"):
        CategoryDiscovery.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.assign(category="elsewhere"), "the model has no category 'elsewhere'"),
        (lambda table: table.assign(label_given="elsewhere"), "the model has no category 'elsewhere'"),
        (lambda table: table.drop(columns="alt_2_p"), "one of the columns 'alt_2' and 'alt_2_p' is missing"),
        (lambda table: table.drop(columns="alt_1"), "one of the columns 'alt_1' and 'alt_1_p' is missing"),
    ],
    ids=["category", "label", "no probability", "no alternative"],
)
def test_results_that_do_not_fit_are_refused(nngcd, run, change, reason):
    (run / "digests.json").unlink(missing_ok=True)
    change(pd.read_parquet(run / "results.parquet")).to_parquet(run / "results.parquet", index=False)
    for arguments in (("export", run, "--to", "csv", "--out", run.parent / "e"), ("report", run)):
        code, _, err = nngcd(*arguments)
        assert (code, "R03" in err, reason in " ".join(err.split())) == (3, True, True)


def test_results_without_the_probabilities_of_alternatives_are_read(nngcd, run):
    (run / "digests.json").unlink(missing_ok=True)
    table = pd.read_parquet(run / "results.parquet")
    table.assign(alt_1_p=None).to_parquet(run / "results.parquet", index=False)
    assert nngcd("export", run, "--to", "csv", "--out", run.parent / "e")[0] == 0


def test_features_too_large_for_half_precision_are_kept_in_full(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "mine.npz", X=blobs[0] * 1e5, y=blobs[1])
    few = ("--method", "kmeans", "--k", 6, "--quiet")
    assert nngcd("fit", tmp_path / "mine.npz", "--out", tmp_path / "run", *few)[0] == 0
    assert read_tensors(tmp_path / "run" / "features.safetensors")[0]["features_nd"].isfinite().all()
    assert nngcd("report", tmp_path / "run")[0] == 0
