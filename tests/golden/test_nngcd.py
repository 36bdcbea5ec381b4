from __future__ import annotations

import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, normal, rows
from head_inputs import N_CLUSTERS, step

from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.distill import cross_view_distillation, mean_entropy_gap
from nngcd.losses.nmf_nce import nmf_nce
from nngcd.losses.sparse import hybrid_sparse_norm
from nngcd.methods.contract import Moment
from nngcd.methods.simgcd import teacher_temperature
from nngcd.settings import resolve

OFFICIAL = resolve({"method": "nngcd", "preset": "official", "effort": "full", "data": "cub"}).loss


@pytest.mark.parametrize("row", rows("nngcd", "nmf_nce"))
def test_nmf_nce(row):
    z_vbd = normal(row["seed"], *row["shape"])
    loss = nmf_nce(z_vbd, temperature=row["temperature"], mean=row["mean"], deviation=row["deviation"])
    assert_agrees(row, loss, z_vbd)


@pytest.mark.parametrize("row", rows("nngcd", "hybrid_sparse"))
def test_hybrid_sparse_regularisation(row):
    weights = [normal(row["seed"] + i, *shape) for i, shape in enumerate(row["shapes"])]
    assert_agrees(row, hybrid_sparse_norm(weights, l1_share=row["l1_share"]), *weights)


@pytest.mark.parametrize("row", rows("nngcd", "distillation"))
def test_distillation(row):
    student_vbk, teacher_vbk = (normal(row[seed], *row["shape"]) for seed in ("seed", "teacher_seed"))
    loss = cross_view_distillation(
        row["scale"] * student_vbk,
        row["scale"] * teacher_vbk,
        student_temperature=OFFICIAL.student_temperature,
        teacher_temperature=teacher_temperature(OFFICIAL, row["epoch"]),
    )
    assert_agrees(row, loss, student_vbk)


@pytest.mark.parametrize("row", rows("nngcd", "mean_entropy"))
def test_mean_entropy(row):
    logits_vbk = normal(row["seed"], *row["shape"])
    gap = mean_entropy_gap(row["scale"] * logits_vbk, temperature=OFFICIAL.student_temperature)
    assert_agrees(row, gap, logits_vbk)


@pytest.mark.parametrize("row", rows("nngcd", "classify"))
def test_cross_entropy_of_labelled_images(row):
    logits_vbk = normal(row["seed"], *row["shape"])
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    loss = labelled_cross_entropy(row["scale"] * logits_vbk, labels_b, temperature=OFFICIAL.student_temperature)
    assert_agrees(row, loss, logits_vbk)


@pytest.mark.parametrize("row", rows("nngcd", "teacher_momentum"))
def test_teacher_momentum(row):
    method, _, _ = step("nngcd", {"seed": 0, "label_seed": 0, "epoch": 0, "dataset": "cub"})
    found = method.teacher_momentum(Moment(epoch=0, n_epochs=1, step=row["step"], n_steps=row["n_steps"]))
    assert found == pytest.approx(row["value"], abs=1e-10)


@pytest.mark.parametrize("row", rows("nngcd", "whole_loss"))
def test_the_loss_of_a_step(row):
    method, batch, inputs = step("nngcd", row)
    loss = sum(method.loss(batch).values())
    # The authors regularise the frozen lengths of the prototypes, too: K ones, |W|_1 = K and |W|_2,1 = |W|_F^2.
    constant = method.config.sparse_weight * method.config.sparse_l1_share * N_CLUSTERS
    assert loss.item() + constant == pytest.approx(row["value"], rel=1e-9)
    norms = [gradient.norm().item() for gradient in torch.autograd.grad(loss, inputs)]
    assert norms == pytest.approx(row["gradients"], rel=TOLERANCE)
