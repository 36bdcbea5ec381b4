"""Mistakes planted in a real method, which the pretended device must find as a GPU would."""

from __future__ import annotations

import pytest
import torch
from pretended_device import DeviceError

from nngcd.datasets.arrays import from_arrays
from nngcd.methods import simgcd
from nngcd.pipeline import fit
from nngcd.settings import resolve

SHORT = {"k": 6, "training": {"epochs": 1, "batch_size": 240}, "loss": {"prototype_start": "matched", "n_hidden": 32}}


def mask_of_the_cpu(method, batch):
    return batch.labels_b * torch.ones(len(batch.labels_b), dtype=torch.int64)


def generator_of_the_cpu(method, batch):
    return torch.rand(3, device=batch.labels_b.device, generator=torch.Generator())


def numpy_on_its_memory(method, batch):
    return batch.labels_b.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [mask_of_the_cpu, generator_of_the_cpu, numpy_on_its_memory])
def test_a_planted_mistake_is_found_there_and_only_there(mistake, blobs, elsewhere, monkeypatch):
    right = simgcd.Method.loss
    monkeypatch.setattr(simgcd.Method, "loss", lambda method, batch: (mistake(method, batch), right(method, batch))[1])
    split, chosen = from_arrays(blobs[0], blobs[1]), resolve({"method": "simgcd"} | SHORT)
    fit(split, chosen)
    with elsewhere(), pytest.raises((DeviceError, RuntimeError), match=r"of the CPU|numpy"):
        fit(split, chosen)


@pytest.mark.slow
def test_whitened_views_and_searches_stay_there(blobs, elsewhere):
    loss = {"split_epochs": 1, "entropy_memory": 0.9, "neighbour_weight": 1.0}
    split = from_arrays(blobs[0], blobs[1])
    chosen = resolve(SHORT | {"whitened_features": 6, "loss": SHORT["loss"] | loss})
    expected_nk = fit(split, chosen).scores_nk
    with elsewhere() as device:
        fitted = fit(split, chosen)
    assert {value.device for value in fitted.model.method.state_dict().values()} <= {device}
    assert torch.equal(fitted.scores_nk, expected_nk)
