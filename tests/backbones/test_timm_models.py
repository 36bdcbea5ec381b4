import pytest
import timm
import torch

from nngcd.backbones.class_token import reads_only_class_token
from nngcd.backbones.timm_models import split_timm
from nngcd.core.errors import ConfigError, UserError

VIT = "vit_tiny_patch16_224"
SMALL = {"depth": 3, "embed_dim": 64, "num_heads": 2}
MODELS = [
    (VIT, {**SMALL, "img_size": 32}),
    (VIT, {**SMALL, "img_size": 32, "global_pool": "avg"}),
    ("vit_small_patch14_reg4_dinov2", {**SMALL, "img_size": 42}),
    ("deit3_small_patch16_224", {**SMALL, "img_size": 32}),
    ("deit_tiny_distilled_patch16_224", {**SMALL, "img_size": 32}),
    ("eva02_tiny_patch14_224", {**SMALL, "img_size": 42}),
    ("vit_small_patch16_dinov3", {**SMALL, "img_size": 32}),
    ("vit_small_patch16_rope_mixed_224", {**SMALL, "img_size": 32}),
    ("resnet18", {}),
    ("convnext_atto", {}),
    ("tf_efficientnet_lite0", {}),
    ("mobilenetv3_small_050", {}),
    ("regnetx_002", {}),
    ("swin_tiny_patch4_window7_224", {"img_size": 56, "depths": (1, 1, 1, 1), "embed_dim": 24}),
]


def build(name, options):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=0, **options).eval()


@pytest.mark.parametrize(("name", "options"), MODELS, ids=lambda value: value if isinstance(value, str) else "")
def test_tail_of_trunk_is_the_model(name, options):
    model = build(name, options)
    images = torch.rand(2, 3, *[options.get("img_size", 64)] * 2)
    for tail_blocks in (1, 2):
        trunk, tail = split_timm(model, tail_blocks)
        # To rounding where only the class token is computed; tests/backbones/test_class_token.py has more.
        tolerance = 1e-5 if reads_only_class_token(model) else 0
        torch.testing.assert_close(tail(trunk(images)), model(images), rtol=0, atol=tolerance)
        assert tail(trunk(images)).shape == (2, model.head_hidden_size)


@pytest.mark.parametrize(("name", "options"), MODELS, ids=lambda value: value if isinstance(value, str) else "")
def test_only_the_tail_learns_and_every_weight_is_in_one_part(name, options):
    model = build(name, options)
    trunk, tail = split_timm(model)
    parts = [{id(p) for p in part.parameters()} for part in (trunk, tail)]
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] == {id(p) for p in model.parameters()}
    assert not any(p.requires_grad for p in trunk.parameters())
    assert all(p.requires_grad for p in tail.parameters() if p.ndim >= 2)
    tail(trunk(torch.rand(2, 3, *[options.get("img_size", 64)] * 2))).sum().backward()


@pytest.mark.parametrize("options", [{}, {"global_pool": "avg"}])
def test_the_final_norm_is_frozen_as_in_the_authors_code(options):
    _, tail = split_timm(build(VIT, {**SMALL, **options}))
    held = [name for name, p in tail.named_parameters() if not p.requires_grad]
    norm = "fc_norm" if options else "norm"
    assert held == [f"readout.{norm}.weight", f"readout.{norm}.bias"]


@pytest.mark.parametrize(("name", "options"), MODELS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_final_norm_learns_when_asked_to(name, options):
    _, tail = split_timm(build(name, options), tail_norm=True)
    assert all(p.requires_grad for p in tail.parameters())


def test_a_deeper_tail_has_more_blocks():
    trunk, tail = split_timm(build(VIT, SMALL), 2)
    assert len(trunk.stem.blocks) == 1 and len(tail.blocks) == 2


@pytest.mark.parametrize("tail_blocks", [0, 4])
def test_more_blocks_than_there_are_is_refused(tail_blocks):
    with pytest.raises(ConfigError, match="between 1 and 3"):
        split_timm(build(VIT, SMALL), tail_blocks)


def test_an_unknown_kind_of_network_points_to_effort_quick():
    with pytest.raises(UserError, match="--effort quick"):
        split_timm(torch.nn.Linear(2, 2))
