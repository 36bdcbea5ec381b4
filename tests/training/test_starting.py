"""Starting where another run ended."""

import numpy as np
import pytest
import torch

from nngcd.core.errors import ConfigError, DataError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.arrays import from_arrays
from nngcd.pipeline import discover, fit, prepare
from nngcd.settings import resolve

SMALL = {"n_hidden": 64, "n_projection": 16}


def settings(**more):
    values = {"method": "simgcd", "k": 6, "loss": SMALL, "training": {"epochs": 3, "batch_size": 48}, "hold_back": 0.0}
    return resolve(values | more)


@pytest.fixture
def first(blob_split, tmp_path):
    """A finished run of SimGCD."""
    run = RunFolder.create(tmp_path / "first")
    discover(prepare(blob_split, settings()), None, run, cache=None, progress=Progress())
    return run


def still(first, method="simgcd", **more):
    """Settings that start from the run and learn next to nothing."""
    training = {"epochs": 1, "batch_size": 48, "learning_rate": 1e-12}
    return settings(method=method, init_from=str(first.path), training=training, **more)


def test_a_run_begins_with_the_tail_and_heads_of_the_other(first, blob_split):
    kept = {"loss": SMALL | {"prototype_start": "random"}}
    started = fit(blob_split, still(first, **kept))
    fresh = fit(blob_split, settings(training={"epochs": 1, "batch_size": 48, "learning_rate": 1e-12}, **kept))
    loaded = prepare(blob_split, still(first)).start.model
    torch.testing.assert_close(started.scores_nk, loaded.scores(started.features_nd))
    assert not torch.allclose(fresh.features_nd, started.features_nd)


def test_another_method_takes_what_it_has_too(first, blob_split):
    loaded = prepare(blob_split, still(first)).start.model
    started = fit(blob_split, still(first, "gcd"))
    for name, tensor in loaded.backbone.tail.state_dict().items():
        torch.testing.assert_close(started.model.backbone.tail.state_dict()[name], tensor)


def test_k_is_that_of_the_other_run_unless_it_is_given(first, blob_split):
    assert prepare(blob_split, still(first, k=None)).k == 6
    with pytest.raises(ConfigError, match=r"init_from.*n_clusters is 6, this run's is 7"):
        prepare(blob_split, still(first, k=7))


def test_a_stage_that_the_other_run_has_done_is_left_out(first):
    assert resolve({"method": "mugcd"}).loss.contrastive_share > 0
    assert resolve({"method": "mugcd", "init_from": str(first.path)}).loss.contrastive_share == 0
    asked = resolve({"method": "mugcd", "init_from": str(first.path), "loss": {"contrastive_share": 0.5}})
    assert asked.loss.contrastive_share == 0.5


def test_runs_that_do_not_fit_are_refused(first, blobs, blob_split, tmp_path):
    features, labels, _ = blobs
    with pytest.raises(ConfigError, match=r"known categories are not those of these data: for example '2'"):
        prepare(from_arrays(features, np.where(labels == 2, 3, labels)), still(first))
    with pytest.raises(ConfigError, match="n_features is 16, this run's is 8"):
        prepare(from_arrays(features[:, :8], labels), still(first))
    with pytest.raises(ConfigError, match="whitened features are made anew"):
        prepare(blob_split, still(first, whitened_features=4))
    (first.path / "summary.json").unlink()
    with pytest.raises(DataError, match=r"first is not finished.*nngcd fit --resume"):
        prepare(blob_split, still(first))


def test_a_folder_that_is_no_run_is_named(blob_split, tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        prepare(blob_split, settings(init_from=str(tmp_path / "nowhere")))
