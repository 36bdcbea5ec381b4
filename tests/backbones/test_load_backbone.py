import time
from urllib.error import HTTPError, URLError

import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from nngcd.backbones import RANDOM, hub, hub_cache, load_backbone
from nngcd.backbones.timm_loading import preprocessing_of
from nngcd.core.errors import ConfigError, NngcdWarning, ResourceError, UserError


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise URLError("no network in this test")

    monkeypatch.setattr(hub_cache, "urlopen", fail)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))


@pytest.mark.usefixtures("no_network")
def test_weights_that_cannot_be_had_are_refused_within_seconds():
    start = time.monotonic()
    with pytest.raises(ResourceError, match=r"^S04: .*add --weights") as caught:
        load_backbone("test_vit.r160_in1k")
    assert time.monotonic() - start < 100
    assert "https://huggingface.co/timm/test_vit.r160_in1k" in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.usefixtures("no_network")
def test_the_hub_stays_as_the_user_set_it():
    before = constants.HF_HUB_OFFLINE
    with hub._offline_unless_needed("test_vit.r160_in1k"):
        assert constants.HF_HUB_OFFLINE
    assert constants.HF_HUB_OFFLINE == before


def test_a_hub_that_answers_with_an_error_is_there(monkeypatch):
    def refuse(*args, **kwargs):
        raise HTTPError("https://huggingface.co", 403, "forbidden", None, None)

    monkeypatch.setattr(hub_cache, "urlopen", refuse)
    assert hub_cache.hub_answers()


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(UserError, match="Did you mean 'efficientnet_lite0'"):
        load_backbone("efficientnet_lit0")
    with pytest.raises(UserError, match="Did you mean 'vit_tiny_patch16_224'"):
        load_backbone("vit_tiny_patch16_24")


def test_an_unknown_pre_training_lists_the_known_ones():
    with pytest.raises(UserError, match=r"test_vit\.r160_in1k"):
        load_backbone("test_vit.dino9")


def test_an_architecture_without_any_pre_training_asks_for_a_file():
    with pytest.raises(UserError, match="--weights"):
        load_backbone(_without_weights())


def _without_weights():
    pretrained = {name.partition(".")[0] for name in timm.list_pretrained()}
    return next(name for name in timm.list_models() if name not in pretrained)


def test_a_local_file_is_used(tmp_path):
    source = timm.create_model("mobilenetv3_small_050")
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    backbone = load_backbone("mobilenetv3_small_050", weights=tmp_path / "weights.safetensors")
    source.reset_classifier(0)
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(backbone.tail(backbone.trunk(images)), source.eval()(images), rtol=1e-4, atol=1e-5)
    assert backbone.n_features == 1024


def test_image_size_must_fit_the_patches():
    with pytest.raises(ConfigError, match="nearest sizes are 224 and 240"):
        load_backbone("test_vit", image_size=230, pretrained=False)
    with pytest.raises(ConfigError, match=r"nearest sizes are 16$"):
        load_backbone("test_vit", image_size=3, pretrained=False)


def test_image_size_reaches_network_and_preprocessing():
    backbone = load_backbone("test_vit", image_size=64, pretrained=False)
    assert backbone.preprocessing.image_size == 64
    assert backbone.trunk(torch.rand(1, 3, 64, 64)).shape == (1, 17, 64)


def test_preprocessing_comes_from_the_model_with_room_for_random_crops():
    model = timm.create_model("vit_small_patch14_dinov2.lvd142m", num_classes=0, depth=1)
    preprocessing = preprocessing_of(model)
    assert (preprocessing.image_size, preprocessing.interpolation) == (518, "bicubic")
    assert preprocessing.mean == (0.485, 0.456, 0.406)
    assert preprocessing.crop_fraction == 0.875


def test_convolutions_have_their_channels_last():
    network = load_backbone("resnet18", pretrained=False).network
    assert network.layer1[0].conv1.weight.is_contiguous(memory_format=torch.channels_last)


def test_random_weights_are_the_same_in_every_run_and_said_to_be_random():
    with pytest.warns(NngcdWarning, match=r"resnet18 has random weights.*not to judge accuracy"):
        first = load_backbone("resnet18", weights=RANDOM, image_size=32)
    torch.manual_seed(7)
    with pytest.warns(NngcdWarning):
        assert load_backbone("resnet18", weights=RANDOM, image_size=32).fingerprint == first.fingerprint
    with pytest.raises(ConfigError, match=r"weights = 'random': efficientnet_lite0 has its own"):
        load_backbone("efficientnet_lite0", weights=RANDOM)
