from __future__ import annotations

import pytest
import torch
from torch import nn

from nngcd.core.errors import ConfigError
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.arrays import from_arrays
from nngcd.metrics.accuracy import split_accuracy
from nngcd.pipeline import fit
from nngcd.settings import resolve
from nngcd.training.eagc import EagcSettings, Guide

FAST = {"k": 6, "training": {"epochs": 4, "batch_size": 48}}
EAGC = {"active": True, "reference_epochs": 2}
SMALL = {"n_hidden": 128, "n_projection": 32}
GUIDED = {name: SMALL for name in ("simgcd", "nngcd", "legogcd", "debgcd")} | {
    name: SMALL | {"n_directions": 0} for name in ("mugcd", "selex", "cms")
}


def values(name, **more):
    return resolve({"method": name, "loss": GUIDED.get(name, {}), **FAST, "eagc": EAGC, **more})


def opened(**chosen):
    """Return a guide whose images all lie in the first of two directions."""
    guide = Guide(EagcSettings(rescale=False, **chosen), nn.Identity(), 2)
    guide.open_subspace(torch.tensor([[1.0, 0.0]] * 3))
    return guide


def test_directions_without_known_images_are_not_part_of_the_subspace():
    guide = opened()
    assert torch.allclose(guide.conceptor_dd, torch.tensor([[0.8, 0.0], [0.0, 0.0]]))
    assert guide.labelled_energy.item() == pytest.approx(0.8)


def test_an_unlabelled_image_loses_some_of_its_known_gradient_and_a_labelled_one_none():
    guide = opened(anchor_weight=0.0)
    features = torch.ones(1, 2, 2, requires_grad=True)
    guide.labelled_energy.fill_(0.8 / 0.95 - 0.05 / 0.95 * 0.4)  # 0.8 after the labelled image of this batch
    seen = features * 1.0
    terms = guide.steer(seen, seen.detach(), torch.tensor([-1, 0]))
    (gradient,) = torch.autograd.grad(seen.sum() + terms["anchor"], features)
    # Energy 0.4 is half of 0.8, so that half of the weight of 0.5 is left; the first direction is 0.8 known.
    assert gradient[0].tolist() == [pytest.approx([0.8, 1.0], abs=1e-6), [1.0, 1.0]]


@pytest.mark.parametrize(("capped", "left"), [(True, 0.2), (False, 1 - 0.8 * 3)])
def test_no_more_than_the_known_part_is_taken_unless_wished(capped, left):
    guide = opened(projection_weight=3.0, capped=capped, anchor_weight=0.0)
    features = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    seen = features * 1.0
    terms = guide.steer(seen, seen.detach(), torch.tensor([-1]))
    (gradient,) = torch.autograd.grad(seen.sum() + terms["anchor"], features)
    assert gradient.flatten().tolist() == pytest.approx([left, 1.0], abs=1e-5)


def test_the_anchor_pulls_labelled_images_to_the_reference():
    guide = opened()
    features = torch.tensor([[[2.0, 0.0], [5.0, 5.0]]], requires_grad=True)
    terms = guide.steer(features * 1.0, torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]), torch.tensor([0, -1]))
    (gradient,) = torch.autograd.grad(terms["anchor"], features)
    assert gradient[0].tolist() == [pytest.approx([0.35, 0.0]), [0.0, 0.0]]


@pytest.mark.parametrize("length", [0.0, 1e-6, 1e6])
def test_features_of_any_length_give_finite_gradients(length):
    guide = Guide(EagcSettings(), nn.Identity(), 4)
    guide.open_subspace(length * torch.randn(8, 4))
    features = (length * torch.randn(2, 3, 4)).requires_grad_()
    seen = features * 1.0
    terms = guide.steer(seen, seen.detach(), torch.tensor([0, -1, -1]))
    (gradient,) = torch.autograd.grad(seen.sum() + terms["anchor"], features)
    assert torch.isfinite(gradient).all()
    assert torch.isfinite(guide.conceptor_dd).all()


def test_a_batch_that_is_tried_again_moves_the_mean_energy_once():
    guide, features, labels = opened(), torch.ones(1, 1, 2), torch.tensor([0])
    for _ in range(2):
        guide.steer(features, features, labels)
    guide.after_step()
    guide.after_step()
    assert guide.labelled_energy.item() == pytest.approx(0.95 * 0.8 + 0.05 * 0.4)


@pytest.mark.parametrize(
    "name", ["simgcd", *(pytest.param(name, marks=pytest.mark.slow) for name in GUIDED if name != "simgcd")]
)
def test_methods_still_sort_blobs(name, blobs):
    features, labels, classes = blobs
    fitted = fit(from_arrays(features, labels), values(name))
    assert split_accuracy(classes, fitted.scores_nk.argmax(-1).numpy(), classes < 3).all > 0.9


def test_a_resumed_run_gives_the_scores_of_an_unbroken_one(blobs, tmp_path, stop_after):
    split = from_arrays(*blobs[:2])
    unbroken = fit(split, values("simgcd"))
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        # The epochs of the reference count as well.
        fit(split, values("simgcd"), run=run, progress=stop_after(3))
    assert run.checkpoint.is_file()
    assert torch.equal(fit(split, values("simgcd"), run=run).scores_nk, unbroken.scores_nk)


def test_who_cannot_be_guided_is_refused(blobs):
    features, labels, _ = blobs
    with pytest.raises(ConfigError, match="kmeans does not train; leave it out"):
        fit(from_arrays(features, labels), resolve({"method": "kmeans", "k": 6, "eagc": EAGC}))
    with pytest.warns(UserWarning, match="D05"), pytest.raises(ConfigError, match="needs labelled images"):
        fit(from_arrays(features), values("simgcd"))
    with pytest.raises(ConfigError, match=r"training.resting_share=0"):
        resolve({"effort": "normal", "training": {"resting_share": 0.5}, "eagc": EAGC})
