"""What methods with centres share: a new category that hides in a known cluster gets a centre at the end."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nngcd.core.components import component_names
from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.datasets.arrays import from_arrays
from nngcd.methods import gcd, kmeans
from nngcd.methods.contract import Task
from nngcd.pipeline import fit
from nngcd.settings import presets_of, resolve
from nngcd.training.model import Model

SMALL = {gcd: {"n_hidden": 12, "n_projection": 8, "n_directions": 0}, kmeans: {}}


def make(module, k_range=None, **settings):
    """Return a method whose centres swallow one category and have two for another."""
    generator = torch_generator(0, "init")
    task = Task(n_features=16, n_clusters=4, n_old=2, generator=generator, k_range=k_range)
    method = module.Method(module.Config(**SMALL[module] | {"split_at_end": True} | settings), task)
    axes = torch.eye(16)
    wanted_kd = torch.stack([axes[0] + 0.2 * axes[2], axes[1], axes[3] + 0.02 * axes[5], axes[3] - 0.02 * axes[5]])
    method.centres_kd.copy_(torch.nn.functional.normalize(wanted_kd, dim=-1))
    return method


def clusters(method, overview):
    return method.assign(overview.features_nd).argmax(-1)


@pytest.mark.parametrize("module", [gcd, kmeans])
def test_a_swallowed_category_gets_the_centre_that_another_can_do_without(swallowed, module):
    method = make(module)
    assert len(clusters(method, swallowed)[80:].unique()) == 2 and (clusters(method, swallowed)[:50] == 0).all()
    method.search_at_end(swallowed)
    after_n = clusters(method, swallowed)
    assert (after_n[:30] == 0).all() and (after_n[50:80] == 1).all()
    assert len(after_n[30:50].unique()) == len(after_n[80:].unique()) == 1
    assert after_n[30] >= 2 and after_n[30] != after_n[80]
    (split,), epoch = method.known_splits(), 2 if module is gcd else 0
    assert split[:6] == (0, epoch, 20, 50, 0, 15) and split.p_value < 1e-3
    assert len(method.cluster_merges()) == 1 and method.label_check() is not None


@pytest.mark.parametrize("module", [gcd, kmeans])
def test_the_number_may_fall_where_it_is_not_given_and_never_grows(swallowed, distinct, module):
    method = make(module, k_range=(3, 6))
    method.centres_kd[3] = torch.eye(16)[6]
    method.search_at_end(distinct)
    assert method.n_clusters == 4  # a part that no merge pays for stays where it is
    method = make(module, k_range=(3, 6))
    labels_n = swallowed.labels_n.clone()
    labels_n[30:40] = 0  # the other form of the first category is labelled, so nothing is split
    method.search_at_end(swallowed._replace(labels_n=labels_n))
    assert method.n_clusters == 3 and method.known_splits() == []


@pytest.mark.parametrize("module", [gcd, kmeans])
def test_nothing_is_searched_unless_it_is_asked_for(swallowed, module):
    method = make(module, split_at_end=False)
    before_kd = method.centres_kd.clone()
    method.search_at_end(swallowed)
    assert torch.equal(method.centres_kd, before_kd) and method.label_check() is None
    with pytest.raises(ConfigError, match="split_level"):
        module.Config(split_level=2.0)


@pytest.mark.parametrize("name", ["gcd", "kmeans"])
def test_a_run_whose_number_has_changed_is_saved_and_loaded(distinct, tmp_path, monkeypatch, name):
    monkeypatch.setattr("nngcd.pipeline.moves_range", lambda estimate: (3, 9))
    split = from_arrays(distinct.features_nd.numpy(), distinct.labels_n.numpy())
    loss = SMALL[gcd] if name == "gcd" else {}
    training = {"epochs": 2, "batch_size": 40}
    fitted = fit(split, resolve({"method": name, "k": 8, "loss": loss, "training": training, "hold_back": 0}))
    assert fitted.scores_nk.shape[1] == fitted.model.blueprint.n_clusters == len(fitted.categories) < 8
    fitted.model.save(tmp_path / "model", fitted.categories)
    loaded, categories = Model.load(tmp_path / "model")
    assert categories == fitted.categories
    assert torch.equal(loaded.scores(fitted.features_nd), fitted.scores_nk)


def test_published_presets_never_search():
    for method in component_names("nngcd.methods", "Method"):
        for preset in {*presets_of(method)} & {"official", "paper"}:
            loss = dataclasses.asdict(resolve({"method": method, "preset": preset, "effort": "quick"}).loss)
            assert not loss.get("split_epochs") and not loss.get("split_at_end"), (method, preset)
    searched = [name for name in ("gcd", "kmeans") if resolve({"method": name}).loss.split_at_end]
    assert searched == ["gcd", "kmeans"]
