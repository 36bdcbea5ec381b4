from __future__ import annotations

import pytest
import torch
from golden_numbers import assert_agrees, classes, normal, rows
from torch import nn

from nngcd.clustering.semi_affinity import affinities
from nngcd.core.seeds import torch_generator
from nngcd.losses.affinity_contrast import affinity_contrast
from nngcd.methods import affinity_memory, promptcal
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve


def groups(seed, centre_seed, *shape):
    """Return normal numbers around six centres, which the rows take in turn."""
    x_nd = normal(seed, *shape).detach().flatten(0, -2)
    centre_cd = normal(centre_seed, 6, shape[-1]).detach()
    return (x_nd + 2 * centre_cd[torch.arange(len(x_nd)) % 6]).view(shape)


def method_of(row):
    """Return PromptCAL with `official`'s weights and temperatures, and with heads that change nothing."""
    official = resolve({"method": "promptcal", "preset": "official", "dataset": "cub", "effort": "full"}).loss
    names = ("supervised_weight", "contrastive_temperature", "supcon_temperature", "prompt_weight", "affinity_share",
             "affinity_ramp_epochs", "affinity_temperature", "affinity_form")  # fmt: skip
    own = {"n_neighbours": row["n_neighbours"], "affinity_quantile": row["quantile"],
           "n_compared": row["n_compared"]} if "quantile" in row else {}  # fmt: skip
    sizes = {"n_hidden": 4, "n_projection": 4, "n_directions": 0, "untaught_share": 0.5}
    config = promptcal.Config(**{name: getattr(official, name) for name in names}, **own, **sizes)
    task = Task(n_features=row["shape"][-1], n_clusters=6, n_old=3, generator=torch_generator(0, "init"))
    method = promptcal.Method(config, task)
    method.heads = method.teacher_heads = nn.ModuleList([nn.Identity(), nn.Identity()])
    return method


def batch_of(row, teacher_vbd, step):
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    z_vbd = normal(row["seed"], *row["shape"])
    return Batch(z_vbd, labels_b, Moment(step // 5, 10, step, 50), torch.arange(len(labels_b)), teacher_vbd)


@pytest.mark.parametrize("row", rows("promptcal", "first_stage"))
def test_first_stage(row):
    batch = batch_of(row, torch.zeros(row["shape"]), step=0)
    assert_agrees(row, sum(method_of(row).loss(batch).values()), batch.features_vbd)


@pytest.mark.parametrize("row", rows("promptcal", "affinities"))
def test_affinities(row):
    features_nd = groups(row["seed"], row["seed"] + 1000, *row["shape"])
    near_nn = affinities(features_nd, n_neighbours=row["n_neighbours"], share=row["quantile"])
    near_bm = near_nn[: row["n_batch"], row["n_batch"] :]
    assert near_bm.sum(1).tolist() == row["n_near"]
    assert (near_bm * (1 + torch.arange(near_bm.shape[1]))).sum(1).tolist() == row["columns"]


@pytest.mark.parametrize("row", rows("promptcal", "second_stage"))
def test_second_stage(row, monkeypatch):
    """What our loss subtracts, the mean of log P over the views, has no gradient; it is added again here."""
    log_counts = []

    def first(is_candidate_bm, count_b, _):
        return is_candidate_bm & (is_candidate_bm.cumsum(1) <= count_b[:, None])

    def with_count(*features, is_positive_bm, **others):
        log_counts.append((1 + is_positive_bm.sum(1)).double().log().mean())
        return affinity_contrast(*features, is_positive_bm=is_positive_bm, **others)

    monkeypatch.setattr(affinity_memory, "drawn", first)
    monkeypatch.setattr(affinity_memory, "affinity_contrast", with_count)
    method, n_columns = method_of(row), row["shape"][-1]
    centre_seed = row["teacher_seed"] + 1000
    method.memory.features_md = groups(row["memory_seed"], centre_seed, row["n_memory"], n_columns)
    method.memory.labels_m = classes(
        row["memory_label_seed"], row["n_memory"], row["n_classes"], labelled=row["labelled"]
    )
    batch = batch_of(row, groups(row["teacher_seed"], centre_seed, *row["shape"]), row["step"])
    value = sum(method.loss(batch).values())
    share, c = method._affinity_share(batch.moment), method.config
    subtracted = (1 - c.supervised_weight) * share * (log_counts[0] + c.prompt_weight * log_counts[1])
    assert_agrees(row, value + subtracted, batch.features_vbd)
