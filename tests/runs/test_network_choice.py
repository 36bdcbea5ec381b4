"""A run that names no network takes the best one that is here, for the user's own images only."""

from __future__ import annotations

import json

import numpy as np
import pytest
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import save_file

from nngcd.backbones import OWN_BACKBONE, choosing
from nngcd.backbones.timm_loading import timm
from nngcd.core.errors import UserError
from nngcd.runs.run_settings import with_backbone

CACHED = "test_vit.r160_in1k"


@pytest.fixture
def trees(tmp_path, rng):
    """A folder of images of three kinds, of which two are known."""
    for number in range(24):
        kind = number % 3
        folder = tmp_path / "trees" / (f"kind{kind}" if kind < 2 and number < 12 else "_unlabelled")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(80 * kind + rng.normal(40, 20, (40, 40, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "trees"


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A small transformer in the cache of the hub, which nngcd would choose."""
    snapshot = tmp_path / "hub" / f"models--timm--{CACHED}" / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("0123abcd")
    save_file(timm.create_model("test_vit").state_dict(), snapshot / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(choosing, "SMALL", choosing.Network(CACHED, "Tiny ViT", 2, 0.1, image_size=160))


def chosen(**asked):
    told = []
    return with_backbone({name: str(value) for name, value in asked.items()}, tell=told.append), told


def test_own_images_get_a_choice_and_a_sentence(trees):
    values, told = chosen(data=trees)
    assert values["backbone"] == OWN_BACKBONE
    assert len(told) == 1
    assert chosen(data=trees, backbone="auto")[0]["backbone"] == OWN_BACKBONE


@pytest.mark.usefixtures("cached")
def test_what_names_a_network_or_a_benchmark_is_left_alone(nngcd, trees, tmp_path):
    embedded = tmp_path / "features"
    assert nngcd("embed", trees, "--out", embedded, "--backbone", OWN_BACKBONE, "-q")[0] == 0
    for asked in (
        {"data": "digits"},
        {"data": trees, "backbone": "dino"},
        {"data": trees, "weights": "mine.pth"},
        {"data": trees, "init_from": "runs/before"},
        {"data": trees, "dataset": "cub"},
        {"data": tmp_path / "features.npz"},
        {"data": embedded},
        {},
    ):
        assert chosen(**asked) == ({name: str(value) for name, value in asked.items()}, [])


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_fit_takes_a_transformer_from_the_cache_and_writes_down_which(nngcd, trees, tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "hub_answers", lambda: pytest.fail("the network was asked"))
    flags = ("--k", "3", "--workers", "0", "--no-report", "--set", "training.epochs=1")
    code, out, err = nngcd("fit", trees, "--out", tmp_path / "run", *flags)
    assert code == 0, err
    assert "backbone: Tiny ViT (Apache-2.0), found in the cache." in " ".join(out.split())
    network = json.loads((tmp_path / "run" / "environment.json").read_text())["network"]
    assert (network["name"], network["revision"]) == (CACHED, "0123abcd")
    again = ("--backbone", "auto", "--download", "no", "--json", "--out", tmp_path / "again")
    code, out, err = nngcd("fit", trees, *again, *flags)
    assert json.loads(out)["backbone"] == CACHED, err


def test_an_unknown_answer_about_downloads_is_refused(nngcd, trees):
    code, _, err = nngcd("fit", trees, "--download", "perhaps")
    assert code == UserError.exit_code
    assert "perhaps" in err
