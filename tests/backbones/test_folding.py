import pytest
import torch
from torch import nn

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import frozen, with_folded_norms
from nngcd.backbones.weights import fingerprint

FOLDED = ["efficientnet_lite0", "tf_efficientnet_lite0", "mobilenetv3_small_050", "resnet18", "regnetx_002"]


def backbone_with_lively_norms(name):
    torch.manual_seed(0)
    backbone = load_backbone(name, pretrained=False)
    # Random statistics under trained gains amplify a change of 1e-7 in the input 3,000 times: keep the trained ones.
    is_trained = name == "efficientnet_lite0"
    for module in backbone.network.modules():
        if isinstance(module, nn.BatchNorm2d) and not is_trained:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return backbone


def assert_equal_to_rounding(actual, expected):
    assert (actual - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("name", FOLDED)
def test_a_folded_trunk_gives_the_same_features(name):
    backbone = backbone_with_lively_norms(name)
    before = fingerprint(backbone.network)
    images = torch.rand(2, 3, 64, 64)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in backbone.trunk.modules())
    with torch.no_grad():
        expected = backbone.network(images)
        assert_equal_to_rounding(backbone.tail(backbone.trunk(images)), expected)
        scaled = nn.functional.normalize(expected) * 20**0.5
        assert_equal_to_rounding(frozen(backbone).trunk(images), scaled)
    assert fingerprint(backbone.network) == before


def test_a_norm_by_hand():
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, eps=0.0))
    for tensor, value in zip(network.state_dict().values(), (3.0, 1.0, 2.0, 5.0, 4.0, 9.0), strict=False):
        tensor.fill_(value)
    folded = with_folded_norms(network)
    # (3 x + 1 - 4) / sqrt(9) * 2 + 5 = 2 x + 3
    assert folded[0].weight.item() == pytest.approx(2.0) and folded[0].bias.item() == pytest.approx(3.0)


def test_networks_of_unchecked_order_are_not_folded():
    trunk = frozen(load_backbone("test_byobnet", pretrained=False)).trunk
    assert any(isinstance(module, nn.BatchNorm2d) for module in trunk.modules())
