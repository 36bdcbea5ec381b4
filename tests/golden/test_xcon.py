from __future__ import annotations

import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, fill, normal, rows

from nngcd.core.seeds import torch_generator
from nngcd.methods import xcon
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve


@pytest.mark.parametrize("row", rows("xcon", "total"))
def test_the_whole_loss_on_images_that_experts_drew_themselves(row):
    n_images, n_experts, n_features, n_classes = (
        row[name] for name in ("n_images", "n_experts", "n_features", "n_classes")
    )
    small = {"n_hidden": 12, "n_projection": 8, "n_directions": 20, "n_experts": n_experts}
    config = resolve({"method": "xcon", "preset": "official", "loss": small}).loss
    task = Task(n_features=n_features, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))
    method = xcon.Method(config, task)
    for place, head in enumerate([*method.expert_heads, method.head]):
        fill(head, row["seed"] + 100 + place)
    shared_vbd = normal(row["seed"], 2, n_images, n_features)
    own_vbd = normal(row["seed"] + 1, 2, n_images, n_features)
    labels = [classes(row["seed"] + 2 + part, n_images, n_classes, labelled=0.5) for part in (0, 1)]
    # Image i of the data is one of expert i's; the shared ones may be of any expert.
    expert_b = torch.arange(n_experts).repeat_interleave(n_images // n_experts)
    method.expert_n = torch.arange(n_experts)
    image_b = torch.cat([torch.zeros(n_images, dtype=torch.int64), expert_b])
    method.n_shared = n_images
    terms = method.loss(Batch(torch.cat([shared_vbd, own_vbd], 1), torch.cat(labels), Moment(0, 1, 0, 1), image_b))
    fine = terms["fine_contrast"] + terms["fine_supcon"]
    assert fine.item() == pytest.approx(0.1 * row["fine"], rel=TOLERANCE)
    assert_agrees(row, torch.stack(list(terms.values())).sum(), shared_vbd, own_vbd)


@pytest.mark.parametrize("row", rows("xcon", "draws"))
def test_draws(row):
    n_experts = len(row["images"])
    settings = resolve({"method": "xcon", "preset": "official", "loss": {"n_hidden": 4, "n_directions": 0}})
    assert (settings.training.batch_size, settings.loss.n_experts) == (row["batch_size"], n_experts)
    method = xcon.Method(settings.loss, Task(n_features=4, n_clusters=2, n_old=1, generator=torch_generator(0, "init")))
    method.expert_n = torch.arange(n_experts).repeat_interleave(torch.tensor(row["images"]))
    labels_n = torch.cat(
        [(torch.arange(n) < m).long() - 1 for n, m in zip(row["images"], row["labelled"], strict=True)]
    )
    drawn = method.draw(labels_n.numpy(), row["batch_size"], torch_generator(0, "sampler"))
    assert len(drawn) == row["steps"]
    assert method.n_shared == row["batch_size"]
    own = torch.arange(n_experts).repeat_interleave(row["own"])
    assert all(torch.equal(method.expert_n[image_b[method.n_shared :]], own) for image_b in drawn)
    is_labelled = (labels_n[torch.stack(list(drawn))] >= 0).double()
    shares = [part.mean().item() for part in is_labelled.split([row["batch_size"], *[row["own"]] * n_experts], dim=1)]
    assert shares == pytest.approx([row["share"]] * (1 + n_experts), abs=0.06)
