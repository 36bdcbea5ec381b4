"""What methods with prototypes share: a new category that hides in a known cluster gets a prototype of its own."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.datasets.arrays import from_arrays
from nngcd.methods import nngcd, simgcd
from nngcd.methods.contract import Task
from nngcd.pipeline import fit
from nngcd.settings import resolve

N_FEATURES = 16
SMALL = {"n_hidden": 12, "n_projection": 8, "split_epochs": 2}


def make(module, overview, k_range=None, **settings):
    """Return a method whose prototypes swallow one category and have two for another."""
    generator = torch_generator(0, "init")
    task = Task(n_features=N_FEATURES, n_clusters=4, n_old=2, generator=generator, k_range=k_range)
    method = module.Method(module.Config(**SMALL | settings), task)
    axes = torch.eye(N_FEATURES)
    wanted_kd = torch.stack([axes[0] + 0.2 * axes[2], axes[1], axes[3] + 0.02 * axes[5], axes[3] - 0.02 * axes[5]])
    method.prototypes.turn(wanted_kd)
    if method.teacher is not None:
        method.teacher.load_state_dict(method.prototypes.state_dict())
    return method


def clusters(method, overview):
    return method.assign(overview.features_nd).argmax(-1)


@pytest.mark.parametrize("module", [simgcd, nngcd])
def test_a_swallowed_category_gets_the_prototype_that_another_can_do_without(swallowed, module):
    method = make(module, swallowed)
    before_n = clusters(method, swallowed)
    assert (before_n[:50] == 0).all() and len(before_n[80:].unique()) == 2
    lengths = method.prototypes.weight.norm(dim=-1)
    method.look(swallowed)
    after_n = clusters(method, swallowed)
    assert (after_n[:30] == 0).all()
    assert (after_n[50:80] == 1).all()
    assert len(after_n[30:50].unique()) == len(after_n[80:].unique()) == 1
    assert after_n[30] >= 2 and after_n[30] != after_n[80]
    assert torch.allclose(method.prototypes.weight.norm(dim=-1), lengths)
    (split,) = method.known_splits()
    assert split[:6] == (0, 2, 20, 50, 0, 15) and split.p_value < 1e-3
    moved, (merge,) = method.moved_images(), method.cluster_merges()
    assert [one.image for one in moved if one.move == "split"] == list(range(30, 50))
    assert len([one for one in moved if one.move == "merge" and 80 <= one.image < 120]) == merge.n_freed
    assert len(moved) == 20 + merge.n_freed and {one.n for one in moved} == {0}


def test_labelled_images_that_training_drew_together_split_nothing(swallowed):
    """In plain features the 20 images are of the first category: training alone has set them apart."""
    plain_nd = F.normalize(swallowed.features_nd, dim=-1)
    plain_nd[30:50] = plain_nd[:20].roll(1, 0)
    plain_nd[:15] = plain_nd[torch.randperm(50, generator=torch_generator(0, "plain"))[:15]]
    method = make(nngcd, swallowed)
    method.look(swallowed._replace(plain_nd=plain_nd))
    assert method.known_splits() == []


def test_a_remembered_mean_prediction_follows(swallowed):
    method = make(nngcd, swallowed, entropy_memory=0.9)
    method.look(swallowed)
    freed = int(clusters(method, swallowed)[30])
    assert method.mean_k[freed] == pytest.approx(20 / 120)
    assert method.mean_k[0] == pytest.approx(30 / 120)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_clusters_are_searched_only_when_it_is_due(swallowed, epoch):
    method = make(nngcd, swallowed)
    before = method.prototypes.weight.clone()
    method.look(swallowed._replace(epoch=epoch))
    assert torch.equal(method.prototypes.weight, before)
    assert method.looks_before(2, 10) and not method.looks_before(epoch, 10)


def test_it_is_off_by_default_and_with_a_single_new_cluster(swallowed):
    method = make(nngcd, swallowed, split_epochs=0)
    assert method.remembers == () and not method.looks_before(2, 10)
    task = Task(n_features=N_FEATURES, n_clusters=3, n_old=2, generator=torch_generator(0, "init"))
    method = nngcd.Method(nngcd.Config(**SMALL), task)
    before = method.prototypes.weight.clone()
    method.look(swallowed)
    assert torch.equal(method.prototypes.weight, before)


@pytest.mark.parametrize("wrong", [{"split_epochs": -1}, {"split_level": 1.5}])
def test_settings_that_cannot_be_meant(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        nngcd.Config(**wrong)


@pytest.mark.parametrize(
    ("method", "more"), [("simgcd", {}), ("mugcd", {"contrastive_share": 0.2, "n_directions": 0, "split_epochs": 1})]
)
def test_a_run_that_resumes_between_two_searches_ends_as_an_unbroken_one(swallowed, tmp_path, stop_after, method, more):
    from nngcd.core.run_folder import RunFolder

    split = from_arrays(swallowed.features_nd.numpy(), swallowed.labels_n.numpy())
    loss = SMALL | {"prototype_start": "random", "split_level": 1.0} | more
    training = {"epochs": 6, "batch_size": 40, "learning_rate": 1.0}
    settings = resolve({"method": method, "k": 4, "loss": loss, "training": training, "hold_back": 0})
    unbroken, run = fit(split, settings), RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(split, settings, run=run, progress=stop_after(3))
    resumed = fit(split, settings, run=run)
    assert torch.equal(resumed.scores_nk, unbroken.scores_nk)
    ours, theirs = resumed.model.method, unbroken.model.method
    assert ours.known_splits() == theirs.known_splits() != []
    assert ours.moved_images() == theirs.moved_images() and ours.label_check() == theirs.label_check() is not None


@pytest.mark.parametrize("module", [simgcd, nngcd])
def test_a_number_that_is_not_given_follows_the_splits(distinct, module):
    method = make(module, distinct, k_range=(3, 6), entropy_memory=0.9)
    method.prototypes.turn(torch.eye(N_FEATURES)[[6]], torch.tensor([3]))
    if method.teacher is not None:
        method.teacher.load_state_dict(method.prototypes.state_dict())
    method.look(distinct)
    assert method.n_clusters == 5 and method.cluster_merges() == []
    assert len(clusters(method, distinct)[30:50].unique()) == 1
    assert method.mean_k[:5].tolist() == pytest.approx([30 / 120, 30 / 120, 20 / 120, 20 / 120, 20 / 120])
    method.trim()
    assert method.assign(distinct.features_nd).shape == (120, 5)
    assert {tuple(t.shape) for n, t in method.state_dict().items() if n.endswith("s.weight")} == {(5, N_FEATURES)}
    assert not [name for name in method.state_dict() if "n_used" in name]


def test_clusters_that_are_one_thing_are_merged_where_the_number_is_not_given(swallowed):
    labels_n = swallowed.labels_n.clone()
    labels_n[30:40] = 0  # the other form of the first category is labelled, so nothing is split
    method = make(nngcd, swallowed, k_range=(3, 6))
    method.look(swallowed._replace(labels_n=labels_n))
    assert method.n_clusters == 3 and method.known_splits() == []
    (merge,) = method.cluster_merges()
    assert merge.epoch == 2 and merge.n_kept + merge.n_freed == 40 and merge.cost <= merge.limit


def test_a_run_whose_number_has_changed_resumes_as_an_unbroken_one(swallowed, tmp_path, stop_after, monkeypatch):
    from nngcd import pipeline
    from nngcd.core.run_folder import RunFolder
    from nngcd.training.model import Model

    monkeypatch.setattr(pipeline, "moves_range", lambda estimate: (2, 9))
    split = from_arrays(swallowed.features_nd.numpy(), swallowed.labels_n.numpy())
    loss = SMALL | {"prototype_start": "matched", "split_level": 1.0, "entropy_memory": 0.9}
    settings = resolve(
        {"method": "nngcd", "k": 8, "loss": loss, "training": {"epochs": 6, "batch_size": 40}, "hold_back": 0}
    )
    unbroken, run = fit(split, settings), RunFolder.create(tmp_path / "run")
    assert unbroken.scores_nk.shape[1] == unbroken.model.blueprint.n_clusters == len(unbroken.categories) != 8
    with pytest.raises(KeyboardInterrupt):
        fit(split, settings, run=run, progress=stop_after(3))
    resumed = fit(split, settings, run=run)
    assert torch.equal(resumed.scores_nk, unbroken.scores_nk)
    assert resumed.model.method.cluster_merges() == unbroken.model.method.cluster_merges() != []
    resumed.model.save(tmp_path / "model", resumed.categories)
    loaded, categories = Model.load(tmp_path / "model")
    assert categories == resumed.categories
    assert torch.equal(loaded.scores(resumed.features_nd), resumed.scores_nk)


def test_moves_never_see_the_truth(swallowed, tmp_path, monkeypatch):
    """Poisoned truth: right or wrong, the same clusters are split and merged."""
    from nngcd import pipeline
    from nngcd.core.progress import Progress
    from nngcd.core.run_folder import RunFolder
    from nngcd.data.split import Truth
    from nngcd.runs.preparing import prepare

    monkeypatch.setattr(pipeline, "moves_range", lambda estimate: (2, 9))
    split = from_arrays(swallowed.features_nd.numpy(), swallowed.labels_n.numpy())
    loss = SMALL | {"prototype_start": "matched", "split_level": 1.0}
    settings = resolve({"data": "blobs", "k": 8, "loss": loss, "training": {"epochs": 5, "batch_size": 40}})
    right = np.repeat([0, 2, 1, 3], [30, 20, 30, 40])
    wrong = np.where(split.is_labelled, right, 3 - right)
    found = []
    for name, classes in (("right", right), ("wrong", wrong)):
        run = RunFolder.create(tmp_path / name)
        truth = Truth(classes=classes, class_names=tuple("abcd"), n_old=2)
        pipeline.discover(prepare(split, settings), truth, run, cache=None, progress=Progress())
        found.append(json.loads(run.summary.read_text()))
    assert found[0]["scores"] != found[1]["scores"]
    moves = [[summary[name] for name in ("known_splits", "merges", "k")] for summary in found]
    assert moves[0] == moves[1] and moves[0][1] != []
    tables = [pd.read_csv(tmp_path / name / "moves.csv") for name in ("right", "wrong")]
    assert tables[0].equals(tables[1])
    merged = tables[0][tables[0]["move"] == "merge"]
    assert merged.groupby("n").size().tolist() == [one["n_freed"] for one in found[0]["merges"] if one["n_freed"]]
    assert merged.groupby("n")["epoch"].first().isin([one["epoch"] for one in found[0]["merges"]]).all()
    assert "moves.csv" in json.loads((tmp_path / "right" / "digests.json").read_text())
