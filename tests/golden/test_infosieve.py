from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, fill, normal, rows

from nngcd.core.seeds import torch_generator
from nngcd.losses.code import code_condition, code_length, mask_condition
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import closeness, relative_closeness, unit
from nngcd.losses.supcon import supcon
from nngcd.methods import infosieve
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve

SIMILARITY = {"": closeness, "code_": partial(relative_closeness, of="other")}


@pytest.mark.parametrize(
    ("row", "kind"), [(*row.values, kind) for kind in SIMILARITY for row in rows("infosieve", f"{kind}contrast")]
)
def test_contrast_by_distance_with_a_smooth_target(row, kind):
    z_vbd = normal(row["seed"], *row["shape"])
    value = info_nce(
        unit(z_vbd), temperature=row["temperature"], smoothing=row["smoothing"], similarity=SIMILARITY[kind]
    )
    assert_agrees(row, value, z_vbd)


@pytest.mark.parametrize(
    ("row", "kind"), [(*row.values, kind) for kind in SIMILARITY for row in rows("infosieve", f"{kind}supcon")]
)
def test_contrast_of_labelled_images_by_distance(row, kind):
    z_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    assert_agrees(row, supcon(z_vbd, labels_b, temperature=row["temperature"], similarity=SIMILARITY[kind]), z_vbd)


@pytest.mark.parametrize("row", rows("infosieve", "conditions"))
def test_conditions_on_codes_masks_and_their_length(row):
    z_vbl = normal(row["seed"], *row["shape"])
    # Their length is the sum over all views.
    values = {
        "code": lambda: code_condition(z_vbl.tanh()),
        "mask": lambda: mask_condition(z_vbl.sigmoid()),
        "length": lambda: code_length(z_vbl.sigmoid()) * z_vbl[..., 0].numel(),
    }
    assert_agrees(row, values[row["name"]](), z_vbl)


def official(row):
    """Return the method as its preset has it, with small heads, and a batch."""
    small = {"n_hidden": 12, "n_projection": 8, "n_directions": 20, "n_digits": row["n_digits"]}
    settings = resolve({"method": "infosieve", "preset": "official", "loss": small})
    # The weight of the recipe is for a sum over the views of its own batches.
    weight = settings.loss.length_weight * row["n_images"] / settings.training.batch_size
    config = dataclasses.replace(settings.loss, length_weight=weight)
    task = Task(n_features=row["n_features"], n_clusters=9, n_old=row["n_classes"], generator=torch_generator(0, "x"))
    method = infosieve.Method(config, task)
    fill(method.head, row["seed"] + 100)
    fill(method.coder, row["seed"] + 101)
    features_vbd = normal(row["seed"], 2, row["n_images"], row["n_features"])
    labels_b = classes(row["seed"] + 200, row["n_images"], row["n_classes"], labelled=0.5)
    pseudo_label_b = classes(row["seed"] + 201, row["n_images"], row["n_classes"] + 2)
    method.pseudo_label_n = torch.where(labels_b >= 0, labels_b, pseudo_label_b)
    moment = Moment(row["epoch"], row["n_epochs"], 0, 1)
    return method, Batch(features_vbd, labels_b, moment, torch.arange(row["n_images"]))


@pytest.mark.parametrize("row", rows("infosieve", "code_head"))
def test_codes_at_an_age(row):
    method, batch = official(row)
    seen = []
    method.coder.register_forward_hook(lambda coder, given, codes: seen.append(codes))
    method.loss(batch)
    norms = {name.split("_")[0]: part.norm().item() for name, part in seen[0]._asdict().items()}
    assert norms == pytest.approx({name: row[name] for name in norms}, rel=TOLERANCE)


@pytest.mark.parametrize("row", rows("infosieve", "total"))
def test_the_whole_loss(row):
    method, batch = official(row)
    terms = method.loss(batch)
    assert (terms["contrast"] + terms["supcon"]).item() == pytest.approx(row["loss_in"], rel=TOLERANCE)
    assert (terms["code_contrast"] + terms["code_supcon"]).item() == pytest.approx(row["loss_code"], rel=TOLERANCE)
    weights = {"category": 0.01, "length": 0.1, "code_condition": 0.01, "mask_condition": 0.01}
    for name, weight in weights.items():
        assert terms[name].item() == pytest.approx(weight * row[name], rel=TOLERANCE)
    assert_agrees(row, torch.stack(list(terms.values())).sum(), batch.features_vbd)


@pytest.mark.parametrize("row", rows("infosieve", "draws"))
def test_draws(row, monkeypatch):
    settings = resolve({"method": "infosieve", "preset": "official", "loss": {"n_hidden": 4, "n_directions": 0}})
    method = infosieve.Method(
        settings.loss, Task(n_features=4, n_clusters=2, n_old=1, generator=torch_generator(0, "x"))
    )
    weights, multinomial = [], torch.multinomial
    monkeypatch.setattr(
        torch, "multinomial", lambda w, *args, **kwargs: weights.append(w) or multinomial(w, *args, **kwargs)
    )
    labels_n = np.repeat([0, -1], [row["n_labelled"], row["n_unlabelled"]])
    method.draw(labels_n, settings.training.batch_size, torch_generator(0, "sampler"))
    share = weights[0][: row["n_labelled"]].sum() / weights[0].sum()
    assert share.item() == pytest.approx(row["share"], rel=TOLERANCE)
