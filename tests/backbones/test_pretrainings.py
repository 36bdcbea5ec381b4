from pathlib import Path
from urllib.error import URLError

import pytest
import timm
import torch
from huggingface_hub import constants

from nngcd.backbones import hub_cache, load_backbone, timm_loading
from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.cli.shared_options import BACKBONE_HELP
from nngcd.core.components import component_names
from nngcd.core.errors import ResourceError, UserError

NAMES = "dino dinov2 mae ibot mocov3 sam deit deit3 clip supervised-1k supervised-22k".split()
IMAGENET_MEAN = (0.485, 0.456, 0.406)


@pytest.fixture
def small_networks(monkeypatch):
    """Build every network with one narrow block."""

    def small(name):
        return timm.create_model(name, num_classes=0, depth=1, embed_dim=24, num_heads=2)

    monkeypatch.setattr(timm_loading, "_untrained", small)


def test_the_names_are_those_of_table_vi():
    assert list(PRE_TRAININGS) == NAMES


def test_no_name_hides_another_backbone():
    assert not set(NAMES) & {*timm.list_models(), *component_names("nngcd.backbones", "load")}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_vit_b_that_timm_knows_with_weights(name):
    timm_name = PRE_TRAININGS[name].timm_name
    assert timm_name in timm.list_pretrained()
    with torch.device("meta"):
        network = timm.create_model(timm_name, num_classes=0)
    assert (network.embed_dim, len(network.blocks), network.blocks[0].attn.num_heads) == (768, 12, 12)
    assert network.global_pool == "token"
    patch = 14 if name == "dinov2" else 16
    shapes = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    assert shapes["patch_embed.proj.weight"] == (768, 3, patch, patch)
    # DINOv2 was released for 518 pixels; DeiT III gives its class token no position.
    assert shapes["pos_embed"] == (1, {"dinov2": 1370, "deit3": 196}.get(name, 197), 768)
    assert shapes["blocks.11.attn.qkv.weight"] == (2304, 768)
    assert ("blocks.11.ls1.gamma" in shapes) == (name in ("dinov2", "deit3"))


@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize("name", NAMES)
def test_each_reads_images_of_224_pixels(name):
    backbone = load_backbone(name, pretrained=False)
    assert backbone.name == name
    assert backbone.preprocessing.image_size == 224
    assert backbone.tail(backbone.trunk(torch.rand(1, 3, 224, 224))).shape == (1, 24)


@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize("name", ["ibot", "mocov3", "dino"])
def test_images_are_normalised_as_in_the_pre_training(name):
    preprocessing = load_backbone(name, pretrained=False).preprocessing
    assert preprocessing.mean == IMAGENET_MEAN


@pytest.mark.usefixtures("small_networks")
def test_another_image_size_can_be_asked_for():
    assert load_backbone("dinov2", image_size=28, pretrained=False).trunk(torch.rand(1, 3, 28, 28)).shape == (1, 5, 24)


def test_clip_has_the_activation_it_was_trained_with():
    with torch.device("meta"):
        network = timm.create_model(PRE_TRAININGS["clip"].timm_name, num_classes=0)
    assert "QuickGELU" in repr(network.blocks[0].mlp) or "quick_gelu" in repr(network.blocks[0].mlp)


@pytest.mark.parametrize(
    ("name", "file", "project"),
    [
        ("mocov3", "vit-b-300ep.pth.tar", "facebookresearch/moco-v3"),
        ("ibot", "checkpoint_teacher.pth", "bytedance/ibot"),
    ],
)
def test_weights_that_no_hub_has_are_named(name, file, project):
    with pytest.raises(ResourceError, match=r"Download .*, and add --weights FILE") as caught:
        load_backbone(name)
    assert f"{file} of {project}" in str(caught.value)


def test_weights_of_the_hub_are_named_too(monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise URLError("no network in this test")

    monkeypatch.setattr(hub_cache, "urlopen", fail)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ResourceError, match=r"vit_base_patch16_224\.dino.* add --weights"):
        load_backbone("dino")


@pytest.mark.usefixtures("small_networks")
def test_a_file_with_foreign_names_gives_the_backbone(tmp_path):
    source = timm_loading._untrained("vit_base_patch16_224.dino").eval()
    state = {f"module.base_encoder.{name}": tensor for name, tensor in source.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "vit-b-300ep.pth.tar")
    backbone = load_backbone("mocov3", weights=tmp_path / "vit-b-300ep.pth.tar")
    images = torch.rand(2, 3, 224, 224)
    features = backbone.tail(backbone.trunk(images))
    torch.testing.assert_close(features, source(images), rtol=1e-4, atol=1e-5)


def test_a_misspelt_name_gets_a_suggestion_and_the_list():
    with pytest.raises(UserError, match="Did you mean 'mocov3'") as caught:
        load_backbone("moco-v3")
    assert ", ".join(NAMES) in str(caught.value)


def test_the_help_lists_them():
    assert ", ".join(NAMES) in BACKBONE_HELP


def test_the_docs_have_a_row_for_each():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "pretrainings.md").read_text()
    for name, known in PRE_TRAININGS.items():
        assert f"| `{name}` | {known.training} | `{known.timm_name}` | {known.weights} | {known.licence} |" in text
