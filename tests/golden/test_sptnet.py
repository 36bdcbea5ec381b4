from __future__ import annotations

import pytest
import torch
from golden_numbers import assert_agrees, classes, normal, rows

from nngcd.backbones.pixel_prompts import PixelPrompt, prompts_per_pixel
from nngcd.core.schedules import cosine_learning_rate
from nngcd.core.seeds import torch_generator
from nngcd.methods import sptnet
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve


def official(dataset="cub"):
    return resolve({"method": "sptnet", "preset": "official", "dataset": dataset, "effort": "full"})


def method_of(settings, *, n_clusters=5):
    task = Task(n_features=4, n_clusters=n_clusters, n_old=2, generator=torch_generator(0, "init"))
    return sptnet.Method(settings.loss, task)


@pytest.mark.parametrize("row", rows("sptnet", "prompts"))
def test_prompts(row):
    assert official("cub" if row["border"] else "cifar10").loss.border_width == row["border"]
    n_prompts_hw = prompts_per_pixel(row["image_size"], border=row["border"], patch=row["patch"]).double()
    assert [(n_prompts_hw == count).sum().item() for count in (0, 1, 2)] == row["pixels"]
    weights_hw = normal(row["weight_seed"], *n_prompts_hw.shape).detach()
    assert (n_prompts_hw * weights_hw).sum().item() == pytest.approx(row["weighted"], rel=1e-6)

    rate = official().training.learning_rate
    factor = row["learning_rate"] / rate
    prompt = PixelPrompt(n_prompts_hw, learning_rate=factor, generator=torch_generator(0, "x")).double()
    before_chw = prompt.prompt.detach().clone()
    optimiser = torch.optim.SGD([prompt.values], rate, momentum=row["momentum"])
    for seed in row["gradient_seeds"]:
        optimiser.zero_grad()
        (prompt.prompt * normal(seed, *before_chw.shape).detach()).sum().backward()
        optimiser.step()
    assert (prompt.prompt - before_chw).norm().item() == pytest.approx(row["moved"], rel=1e-6)


@pytest.mark.parametrize("row", rows("sptnet", "turns"))
def test_turns(row):
    settings = official(row["dataset"])
    n_steps = row["n_images"] // settings.training.batch_size
    assert (settings.training.batch_size, n_steps) == (row["batch_size"], row["steps"])
    method = method_of(settings)
    for epoch in (0, 1, 999):
        first = epoch * n_steps
        phases = [method.phase(Moment(epoch, 1000, first + i, 1000 * n_steps)) for i in range(n_steps)]
        assert (phases.count("prompt"), phases.index("model")) == (row["prompt"], row["first"])
        assert phases.count("model") == n_steps - row["prompt"]


@pytest.mark.parametrize("row", rows("sptnet", "prompt_rates"))
def test_prompt_rates(row):
    settings, n_steps = official(), row["epochs"] * row["batches"]
    method, highest = method_of(settings), settings.training.learning_rate * settings.loss.prompt_learning_rate
    assert (settings.training.epochs, highest) == (row["epochs"], pytest.approx(row["highest"]))
    moments = [Moment(step // row["batches"], row["epochs"], step, n_steps) for step in row["steps"]]
    assert [highest * method.pace(moment) for moment in moments] == pytest.approx(row["rates"], rel=1e-6)


@pytest.mark.parametrize("row", rows("sptnet", "model_rates"))
def test_model_rates(row):
    training = official().training
    start, end = training.learning_rate, training.final_learning_rate
    assert (training.epochs, start) == (row["epochs"], row["highest"])
    found = [cosine_learning_rate(epoch, training.epochs, start, end) for epoch in row["at"]]
    assert found == pytest.approx(row["rates"], rel=1e-6)


@pytest.mark.parametrize("row", rows("sptnet", "losses"))
def test_losses(row):
    settings = official("cub" if row["entropy_weight"] == 2 else "stanford_cars")
    method, (_, n_images, _) = method_of(settings, n_clusters=row["n_classes"]), row["shape"]
    projection_vbd = normal(row["seed"], *row["shape"])
    logits_vbk = normal(row["logit_seed"], 2, n_images, row["n_classes"])
    # What the heads would give.
    method.projection.forward = lambda _: projection_vbd
    method.prototypes.forward = lambda _: logits_vbk
    labels_b = classes(row["label_seed"], n_images, row["n_classes"], labelled=row["labelled"])
    moment = Moment(row["epoch"], 1000, 46 * row["epoch"], 46_000)
    batch = Batch(torch.zeros(2, n_images, 4), labels_b, moment, torch.arange(n_images))
    assert_agrees(row, sum(method.loss(batch).values()), projection_vbd, logits_vbk)
