"""What every method must do, whoever wrote it: found by file name, so a new file is tested before it has a test."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from nngcd.core.components import component_names, find_component
from nngcd.core.config import build, field_docs, to_values
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import torch_generator
from nngcd.data.image_arrays import ImageArrays
from nngcd.datasets.arrays import from_arrays
from nngcd.methods.contract import Batch, Moment, Overview, Task
from nngcd.metrics.accuracy import split_accuracy
from nngcd.pipeline import fit
from nngcd.settings import resolve
from nngcd.training.model import Model

pytestmark = pytest.mark.filterwarnings("ignore:.*random weights:nngcd.core.errors.NngcdWarning")
METHODS = component_names("nngcd.methods", "Method")
SMALL = {
    "n_hidden": 512, "n_projection": 64, "sparse_weight": 1e-6, "n_directions": 0, "n_starts": 5,
    "search_steps": 20, "n_candidates": 4, "n_steps": 100, "n_experts": 3, "memory_size": 256,
}  # fmt: skip
"""Settings that make any method fast; those a method does not have are left out. A head much narrower than this one
starts, with the authors' weights of deviation 0.02, so close to zero that its projections collapse."""

SMALL_NETWORK = {
    "backbone": "test_vit", "weights": "random", "image_size": 32, "workers": 0, "views": {"per_image": "online"},
}  # fmt: skip
"""For methods that learn inside the network."""
UNBROKEN = {}
DECIDES = {"cms", "infosieve", "selex"}
"""Methods that give clusters of their own to the images of a run: of equal size, or of a tree."""


def small_config(name):
    config = find_component("nngcd.methods", name, "Method").Config
    return {key: value for key, value in SMALL.items() if key in field_docs(config)}


def make(name, *, n_clusters=6, n_old=3, seed=0):
    module = find_component("nngcd.methods", name, "Method")
    task = Task(n_features=16, n_clusters=n_clusters, n_old=n_old, generator=torch_generator(seed, "init"))
    return module.Method(build(module.Config, small_config(name)), task)


def cuts_network(name):
    return find_component("nngcd.methods", name, "Method").Method.cuts_network


def settings(name, **more):
    values = {"method": name, "k": 6, "loss": small_config(name), "training": {"epochs": 8, "batch_size": 48}}
    return resolve(values | (SMALL_NETWORK if cuts_network(name) else {}) | more)


@pytest.fixture
def blobs(name, blobs):
    """The blobs; fewer for a method that learns inside the network, where each image takes its time."""
    is_kept = np.arange(240) % 40 < (32 if cuts_network(name) else 40)
    return tuple(values[is_kept] for values in blobs)


@pytest.fixture
def blob_split(name, blobs):
    """The blobs as the method can take them."""
    features, labels, _ = blobs
    return split_of(name, features, labels)


@pytest.fixture
def unbroken(name, blob_split, tmp_path_factory):
    """What a run of the method finds that nothing interrupts, and its folder; one for all tests that only look."""
    if name not in UNBROKEN:
        run = RunFolder.create(tmp_path_factory.mktemp(name) / "run")
        UNBROKEN[name] = fit(blob_split, settings(name), run=run), run
    return UNBROKEN[name]


def split_of(name, features, labels=None):
    """Return features, or pictures of them for a method that needs a network."""
    split = from_arrays(features, labels)
    if not cuts_network(name):
        return split
    low, high = features.min(), features.max()
    pixels_nhw = np.rint((features - low) / (high - low) * 255).astype(np.uint8).reshape(-1, 4, 4)
    return dataclasses.replace(split, features_nvd=None, images=ImageArrays(pixels_nhw), may_flip=False)


def trained(names):
    return [name for name in names if find_component("nngcd.methods", name, "Method").Method.trains]


def each(names, *, is_fast=lambda name: True):
    """Return the names as parameters; what trains a network takes too long for the fast path."""
    return [
        name if is_fast(name) and not cuts_network(name) else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


def each_fitted():
    """Return all names as parameters of a test that fits; few of them in the fast path."""
    return each(METHODS, is_fast=lambda name: name in ("kmeans", "gcd", "simgcd", "nngcd"))


@pytest.mark.parametrize("name", each(METHODS))
def test_every_setting_is_described_and_has_a_default(name):
    config = find_component("nngcd.methods", name, "Method").Config
    assert set(field_docs(config)) == {field.name for field in dataclasses.fields(config)}
    assert build(config, to_values(config())) == config()


@pytest.mark.parametrize("name", each(trained(METHODS)))
@pytest.mark.parametrize("labelled", ["none", "one", "all"])
def test_the_loss_is_finite_whatever_is_labelled(name, labelled):
    labels_b = {"none": [-1] * 8, "one": [2] + [-1] * 7, "all": [0, 1, 2, 0, 1, 2, 0, 1]}[labelled]
    method = make(name)
    features = torch.randn(2, 8, 16, generator=torch_generator(0, "x"), requires_grad=True)
    all_features, labels_n = torch.randn(8, 16, generator=torch_generator(1, "x")), torch.tensor(labels_b)
    for epoch in {0, 7}:
        if method.looks_before(epoch, 8):
            method.look(Overview(all_features, labels_n, epoch, seed=0))
        batch = Batch(features, labels_n, Moment(epoch, 8, 10 * epoch, 80), torch.arange(8), features.detach())
        terms = method.loss(batch)
        loss = torch.stack(list(terms.values())).sum()
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(features.grad).all()


@pytest.mark.parametrize("name", each_fitted())
def test_blobs_are_sorted_and_known_classes_keep_their_number(unbroken, blobs):
    (fitted, _), classes = unbroken, blobs[2]
    cluster = fitted.scores_nk.argmax(-1).numpy()
    assert fitted.scores_nk.shape == (len(classes), 6)
    assert split_accuracy(classes, cluster, classes < 3).all > 0.9
    is_old = classes < 3
    assert np.mean(cluster[is_old] == classes[is_old]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", each(trained(METHODS)))
def test_the_loss_falls(unbroken):
    losses = [line["loss"] for line in unbroken[1].read_metrics()]
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", each(METHODS))
def test_the_same_seed_gives_the_same_scores_and_another_seed_others(name, blob_split, unbroken):
    first, again = unbroken[0], fit(blob_split, settings(name))
    assert torch.equal(first.scores_nk, again.scores_nk)
    if name in trained(METHODS):
        other = fit(blob_split, settings(name, seed=1))
        assert not torch.equal(first.scores_nk, other.scores_nk)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(trained(METHODS)))
@pytest.mark.parametrize("n_epochs", [1, 6])
def test_a_resumed_run_gives_the_scores_of_an_unbroken_one(name, n_epochs, blob_split, unbroken, tmp_path, stop_after):
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(blob_split, settings(name), run=run, progress=stop_after(n_epochs))
    assert torch.equal(fit(blob_split, settings(name), run=run).scores_nk, unbroken[0].scores_nk)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_on_another_device_no_tensor_is_left_behind(name, blob_split, elsewhere):
    short = settings(name, training={"epochs": 2, "batch_size": 96})
    expected_nk = fit(blob_split, short).scores_nk
    with elsewhere() as device:
        fitted = fit(blob_split, short)
    assert {value.device for value in fitted.model.method.state_dict().values()} <= {device}
    # A network sees larger batches there, and rounds otherwise.
    close = torch.allclose if cuts_network(name) else torch.equal
    assert close(fitted.scores_nk, expected_nk, **({"atol": 1e-3} if cuts_network(name) else {}))


@pytest.mark.parametrize("name", each(METHODS))
def test_making_a_method_leaves_the_global_random_state_alone(name):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    make(name)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", each_fitted())
def test_a_saved_model_gives_the_same_scores(name, unbroken, tmp_path):
    fitted, _ = unbroken
    fitted.model.save(tmp_path / "model", fitted.categories)
    loaded, categories = Model.load(tmp_path / "model")
    assert categories == fitted.categories
    scores_nk = fitted.model.scores(fitted.features_nd)
    assert torch.equal(loaded.scores(fitted.features_nd), scores_nk)
    # A method may settle on other clusters for a few images than its scores say.
    is_decided_n = scores_nk.argmax(-1) != fitted.scores_nk.argmax(-1)
    assert torch.equal(scores_nk[~is_decided_n], fitted.scores_nk[~is_decided_n])
    assert is_decided_n.float().mean() <= (0.05 if name in DECIDES else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(METHODS))
def test_without_any_label_images_are_still_grouped(name, blobs):
    features, _, classes = blobs
    with pytest.warns(UserWarning, match="D05"):
        fitted = fit(split_of(name, features), settings(name))
    cluster = fitted.scores_nk.argmax(-1).numpy()
    assert split_accuracy(classes, cluster, np.zeros(len(classes), dtype=bool)).all > 0.6
