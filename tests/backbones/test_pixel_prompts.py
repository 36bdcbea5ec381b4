import copy
import math
from dataclasses import replace

import pytest
import timm
import torch
from torch import nn

from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.pixel_prompts import PixelPrompt, patch_size, prompt_of, prompts_per_pixel, with_pixel_prompts
from nngcd.core.seeds import torch_generator
from nngcd.training.extraction import run_tail, run_trunk
from nngcd.views.preprocessing import Preprocessing


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    convolutions = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3)
    network = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Backbone(
        name="small",
        network=network,
        split=lambda network: (network[:3], network[3:]),
        preprocessing=Preprocessing(image_size=8),
        n_features=5,
        fingerprint="0",
        may_fold=True,
    )


def prompted(backbone, *, is_on=True, border=72, learning_rate=4.0):
    result = with_pixel_prompts(
        backbone, border=border, learning_rate=learning_rate, generator=torch_generator(0, "prompt")
    )
    prompt_of(result.tail).is_on.fill_(float(is_on))
    return result


def images(n=6):
    return torch.randint(0, 256, (n, 3, 8, 8), dtype=torch.uint8, generator=torch_generator(0, "images"))


def test_the_edge_of_the_image_and_of_every_patch_has_prompts():
    # Two rows and columns of patches of 4 pixels; one pixel at the edge of the image.
    drawn = """
        22222222
        20011002
        20011002
        21111112
        21111112
        20011002
        20011002
        22222222"""
    expected_hw = torch.tensor([[float(count) for count in row] for row in drawn.split()])
    assert torch.equal(prompts_per_pixel(8, border=1, patch=4), expected_hw)
    # Without a border of the image, its patches' edges are left.
    assert torch.equal(prompts_per_pixel(8, border=0, patch=4), expected_hw.clamp(max=1))


def test_networks_without_patches_have_the_usual_ones(backbone):
    assert patch_size(backbone.network) == 16
    assert patch_size(timm.create_model("vit_tiny_patch16_224", depth=1, patch_size=14, img_size=28)) == 14


def test_border_and_learning_rate_go_with_the_size_of_the_image(backbone):
    small = prompted(replace(backbone, preprocessing=Preprocessing(image_size=112)), border=30, learning_rate=8.0)
    # 30 of 224 pixels are 15 of 112, which has a quarter of the area.
    expected_hw = (2.0 * prompts_per_pixel(112, border=15, patch=16)).sqrt()
    assert torch.equal(prompt_of(small.tail).scale_hw, expected_hw)


@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_until_it_is_on_the_prompt_changes_no_feature(backbone, effort):
    plain = frozen(backbone) if effort == "quick" else backbone
    expected_bd = run_tail(plain, run_trunk(plain, images()))
    for is_on in (False, True):
        other = prompted(plain, is_on=is_on)
        hidden_b = run_trunk(other, images())
        assert hidden_b.shape == (6, 4, 8, 8)
        assert torch.equal(run_tail(other, hidden_b), expected_bd) != is_on
        hidden_b[:, 3] = 0  # none of the prompt
        assert torch.equal(run_tail(other, hidden_b), expected_bd)


def test_the_prompt_is_added_to_the_normalised_pixels(backbone):
    other = prompted(backbone)
    normalised_b = backbone.preprocessing.normalise(images())
    expected_bd = backbone.network.eval()(normalised_b + prompt_of(other.tail).prompt)
    torch.testing.assert_close(run_tail(other, run_trunk(other, images())), expected_bd)


def test_gradients_reach_the_prompt_through_weights_that_stay(backbone):
    other = prompted(backbone)
    before = copy.deepcopy(other.tail.network.trunk.state_dict())
    optimiser = torch.optim.SGD([p for p in other.tail.parameters() if p.requires_grad], 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        other.tail(run_trunk(other, images())).square().sum().backward()
        optimiser.step()
    has_prompt_hw = prompt_of(other.tail).scale_hw > 0
    gradient_chw = prompt_of(other.tail).values.grad.view(3, 8, 8)
    assert (gradient_chw.abs().sum(0) > 0).equal(has_prompt_hw)
    assert 0 < has_prompt_hw.sum() < 64
    assert all(p.grad is None and not p.requires_grad for p in other.tail.network.trunk.parameters())
    for name, tensor in other.tail.network.trunk.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(p.grad.abs().sum() > 0 for p in other.tail.network.tail.parameters())


@pytest.mark.parametrize("n_prompts", [1, 2])
def test_its_scale_is_its_learning_rate(n_prompts):
    """Against prompts that learn with that rate, one of them or two on the same pixel, by SGD with momentum."""
    rate, factor = 0.01, 9.0
    prompt = PixelPrompt(torch.full((2, 2), n_prompts), learning_rate=factor, generator=torch_generator(0, "x"))
    prompt.is_on.fill_(1.0)
    plain = [nn.Parameter(prompt.prompt.detach() / n_prompts) for _ in range(n_prompts)]
    target = torch.randn(3, 2, 2, generator=torch_generator(0, "target"))
    learnt = ([prompt.values], rate), (plain, factor * rate)
    optimisers = [torch.optim.SGD(parameters, lr, momentum=0.9) for parameters, lr in learnt]
    for _ in range(5):
        for optimiser, value in zip(optimisers, (prompt(torch.ones(1, 4, 2, 2)) - 1, sum(plain)), strict=True):
            optimiser.zero_grad()
            (value - target).pow(4).mean().backward()
            optimiser.step()
    torch.testing.assert_close(prompt.prompt, sum(plain))


def test_it_starts_as_noise_of_the_given_deviation_whatever_its_rate():
    def start(**more):
        return PixelPrompt(torch.ones(64, 64), generator=torch_generator(0, "x"), **more).prompt

    assert start(learning_rate=25.0).std().item() == pytest.approx(1, abs=0.02)
    torch.testing.assert_close(start(learning_rate=1.0, deviation=0.5), start(learning_rate=25.0) / 2)
    assert not start(learning_rate=1.0, deviation=0.0).any()
    two = PixelPrompt(torch.full((64, 64), 2), generator=torch_generator(0, "x"), learning_rate=25.0)
    torch.testing.assert_close(two.prompt, start(learning_rate=25.0) * math.sqrt(2))  # the sum of two such


def test_a_slower_tail_does_not_slow_the_prompt(backbone):
    tails = prompted(backbone).tail, prompted(replace(backbone, tail_learning_rate=0.1)).tail
    usual_hw, slow_hw = (prompt_of(tail).scale_hw for tail in tails)
    torch.testing.assert_close(0.1 * slow_hw.square(), usual_hw.square())


def test_the_same_generator_draws_the_same_prompt_and_no_other_randomness_is_used(backbone):
    before = torch.random.get_rng_state()
    first, again = prompted(backbone), prompted(backbone)
    assert torch.equal(prompt_of(first.tail).values, prompt_of(again.tail).values)
    assert torch.equal(torch.random.get_rng_state(), before)
