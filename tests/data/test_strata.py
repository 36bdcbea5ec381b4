"""A sample has all labelled rows, and as much of a rare kind as of a frequent one."""

from __future__ import annotations

import numpy as np
import pytest

from nngcd.core.errors import ConfigError
from nngcd.data import sources, strata
from nngcd.data.sources import source_of_split
from nngcd.data.split import UNLABELLED
from nngcd.datasets.arrays import from_arrays

SIZES = [3000, 1500, 800, 30, 20, 10]


@pytest.fixture
def uneven(rng):
    """Six kinds of features, three of them rare; a few of the frequent ones are labelled."""
    kinds = np.repeat(np.arange(6), SIZES)
    centres = rng.normal(size=(6, 16)) * 3
    features = (centres[kinds] + rng.normal(size=(len(kinds), 16)) * 0.3).astype(np.float32)
    order = rng.permutation(len(kinds))
    kinds, features = kinds[order], features[order]
    labels = np.where((kinds < 3) & (np.arange(len(kinds)) % 40 == 0), kinds, UNLABELLED)
    return features, kinds, labels


def test_rows_are_drawn_evenly_and_small_strata_whole():
    stratum_n = np.array([0] * 50 + [1] * 5 + [2] * 20 + [-1] * 4, dtype=np.int16)
    key_n = np.random.default_rng(0).random(len(stratum_n), dtype=np.float32)
    drawn = strata.evenly(stratum_n, key_n, 30)
    assert len(set(drawn.tolist())) == 30
    counts = np.bincount(stratum_n[drawn])
    assert counts[1] == 5 and abs(int(counts[0]) - int(counts[2])) <= 1
    # Within a stratum it is the smallest keys, so the draw is uniform.
    zero = drawn[stratum_n[drawn] == 0]
    assert key_n[zero].max() < np.delete(key_n[:50], zero).min()
    assert len(strata.evenly(stratum_n, key_n, 500)) == 75
    assert len(strata.evenly(stratum_n[75:], key_n[75:], 3)) == 0


def test_a_sample_keeps_every_label_and_finds_rare_kinds(uneven, monkeypatch):
    monkeypatch.setattr(sources, "FEATURES_PER_READ", 999)
    features, kinds, labels = uneven
    source = source_of_split(from_arrays(features, labels))
    drawn = strata.draw(source, 600, lambda names, given: list(given))
    n_labelled = int((labels >= 0).sum())
    assert len(drawn.names) == 600 == len(drawn.features_nd)
    assert sum(label is not None for label in drawn.labels) == n_labelled
    rows = np.array([int(name.removeprefix("row-")) for name in drawn.names])
    assert np.array_equal(drawn.features_nd, features[rows])
    assert (np.diff(rows) > 0).all()
    free = rows[labels[rows] < 0]
    found = np.bincount(kinds[free], minlength=6)
    at_random = np.array(SIZES) * len(free) / len(kinds)
    # Of 60 rare rows, chance draws five; strata of their own give most of them.
    assert found[3:].sum() > 4 * at_random[3:].sum()
    again = strata.draw(source, 600, lambda names, given: list(given))
    assert again.names == drawn.names


def test_a_sample_of_labelled_rows_only_is_refused(uneven):
    features, _, labels = uneven
    n_labelled = int((labels >= 0).sum())
    with pytest.raises(ConfigError, match=f"--sample = {n_labelled}: must be more than the {n_labelled} labelled"):
        strata.draw(source_of_split(from_arrays(features, labels)), n_labelled, lambda names, given: list(given))
