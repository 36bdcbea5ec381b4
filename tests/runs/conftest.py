import pytest
from torch import nn

from nngcd.backbones.backbone import Backbone
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
