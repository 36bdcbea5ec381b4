from __future__ import annotations

import pytest
import torch
from golden_numbers import TOLERANCE, normal, rows
from torch import nn

from nngcd.training.eagc import EagcSettings, Guide

N_IMAGES, N_FEATURES = 5, 6
LABELS = torch.tensor([0, 1, -1, -1, -1])


@pytest.mark.parametrize("row", rows("eagc", "step"))
def test_a_step(row):
    chosen = EagcSettings(projection_weight=row["projection_weight"], capped=False, rescale=False)
    guide = Guide(chosen, nn.Identity(), N_FEATURES).double()
    guide.open_subspace(normal(row["seed"], 20, N_FEATURES).detach() * torch.linspace(0.2, 2, N_FEATURES))
    guide.labelled_energy.fill_(row["running"])
    leaf_vbd = normal(row["seed"] + 1, 2 * N_IMAGES, N_FEATURES)
    features_vbd = (leaf_vbd * 1.0).unflatten(0, (2, N_IMAGES))
    reference_vbd, weight = (normal(row["seed"] + i, 2 * N_IMAGES, N_FEATURES).detach() for i in (2, 3))
    terms = guide.steer(features_vbd, reference_vbd.unflatten(0, (2, N_IMAGES)), LABELS)
    loss = (features_vbd.flatten(0, 1) * weight).sum() + terms["anchor"]
    (gradient,) = torch.autograd.grad(loss, [leaf_vbd])
    guide.after_step()
    close = {"rel": TOLERANCE, "abs": TOLERANCE}
    assert guide.conceptor_dd.norm().item() == pytest.approx(row["conceptor"], **close)
    assert guide.energy(features_vbd)[0].tolist() == pytest.approx(row["energies"], **close)
    assert guide.labelled_energy.item() == pytest.approx(row["labelled_energy"], **close)
    assert gradient.norm(dim=-1).tolist() == pytest.approx(row["gradients"], **close)
