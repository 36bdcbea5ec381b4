"""The network of a run that names none: what is in the cache, what may be downloaded, what comes with the package."""

from __future__ import annotations

import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from nngcd.backbones import choosing, hub_cache
from nngcd.backbones.choosing import BASE, OTHERS, OWN_BACKBONE, SMALL, choose_backbone

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, and how to put a file of weights into it."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(name, tensors=None):
        repository = tmp_path / "hub" / f"models--timm--{name}"
        snapshot = repository / "snapshots" / "0123abcd"
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123abcd")
        save_file(tensors or {"x": torch.zeros(1)}, snapshot / "model.safetensors")

    return put


@pytest.fixture(autouse=True)
def hub(monkeypatch):
    """What was asked of the network; it answers."""
    asked = []
    monkeypatch.setattr(choosing, "hub_answers", lambda: asked.append("hub") or True)
    monkeypatch.setattr(choosing, "measured_gflop_per_second", lambda device: 100.0)
    return asked


def test_nothing_in_the_cache_is_the_packaged_network_at_once(cache, hub):
    choice = choose_backbone(CPU)
    assert (choice.name, choice.image_size, hub) == (OWN_BACKBONE, None, [])
    assert "DINOv2 ViT-S/14 (88 MB, Apache-2.0, about 6 min per 1,000 images on this machine)" in choice.words
    assert "--download yes" in choice.words


@pytest.mark.parametrize(("device", "name"), [(CPU, SMALL.name), (GPU, BASE.name)])
def test_what_is_in_the_cache_is_taken_the_one_for_the_device_first(device, name, cache, hub):
    for network in (*OTHERS, SMALL, BASE):
        cache(network.name)
    choice = choose_backbone(device, may_download=lambda question: pytest.fail("nothing has to be downloaded"))
    assert (choice.name, choice.image_size, hub) == (name, 224, [])
    assert f"--backbone {OWN_BACKBONE}" in choice.words
    assert hub_cache.revision_of(name) == "0123abcd"


def test_a_download_is_asked_for_once_and_only_where_the_hub_answers(cache, hub, monkeypatch):
    questions = []
    assert choose_backbone(CPU, may_download=lambda text: questions.append(text) or True).name == SMALL.name
    assert "Download DINOv2 ViT-S/14 (88 MB, Apache-2.0" in questions[0]
    assert choose_backbone(CPU, may_download=lambda text: False).name == OWN_BACKBONE
    monkeypatch.setattr(choosing, "hub_answers", lambda: False)
    assert choose_backbone(CPU, may_download=lambda text: pytest.fail("asked offline")).name == OWN_BACKBONE


def test_a_network_that_would_take_hours_is_not_offered(cache, hub, monkeypatch):
    monkeypatch.setattr(choosing, "measured_gflop_per_second", lambda device: 10.0)
    assert choose_backbone(CPU, may_download=lambda text: pytest.fail("offered")).name == OWN_BACKBONE


def test_a_licence_with_conditions_is_named_and_never_chosen(cache):
    cache("vit_small_patch16_dinov3.lvd1689m")
    choice = choose_backbone(CPU)
    assert choice.name == OWN_BACKBONE
    assert "DINOv3 is in the cache as well. Its licence has conditions" in choice.words
    assert "--backbone vit_small_patch16_dinov3.lvd1689m" in choice.words


@pytest.mark.parametrize("network", [SMALL, BASE, *OTHERS], ids=lambda network: network.name)
def test_what_is_said_of_a_network_is_what_timm_says(network):
    config = timm.get_pretrained_cfg(network.name)
    assert config.hf_hub_id == f"timm/{network.name}"
    assert config.license.lower() == network.licence.lower()


def test_the_size_and_the_cost_of_a_network_are_those_of_its_layers():
    with torch.device("meta"):
        model = timm.create_model(SMALL.name, num_classes=0, img_size=224)
    n_weights = sum(weight.numel() for weight in model.parameters())
    n_tokens, width, depth = 16 * 16 + 5, 384, 12
    attention = 4 * n_tokens**2 * width * depth
    assert 4e-6 * n_weights == pytest.approx(SMALL.megabytes, rel=0.05)
    assert 1e-9 * (2 * n_tokens * n_weights + attention) == pytest.approx(SMALL.gflop, rel=0.05)
