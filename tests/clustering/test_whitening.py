from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.covariance import ledoit_wolf

from nngcd.clustering import points as rows
from nngcd.clustering.points import ONE_PROCESS, UnitRows, prepare
from nngcd.clustering.whitening import (
    MAX_FEATURES,
    Rest,
    main_directions,
    shrunk_covariance,
    whitened_points,
    whitened_within_classes,
    whitening,
    whitening_map,
)
from nngcd.core.errors import DataError


def elongated_classes(seed=0, n_classes=6, n_images=300):
    """Classes that differ in the last 3 features, images of one class in the first 3."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), n_images)
    x = rng.normal(size=(len(truth), 6)) * [4, 3, 2, 0.5, 0.5, 0.5]
    x[:, 3:] += rng.normal(size=(n_classes, 3))[truth]
    return x + 10, truth


def covariance_within(x, labels):
    rest = np.concatenate([x[labels == c] - x[labels == c].mean(0) for c in np.unique(labels[labels >= 0])])
    return rest.T @ rest / len(rest)


def test_covariance_within_classes_becomes_the_identity():
    x, truth = elongated_classes()
    labels = np.where(truth < 4, truth, -1)
    white = (main_directions(x) @ whitening_map(UnitRows.of(x, labels), 6)).numpy()
    # The shrinkage takes up to a tenth off the smallest variances; what is left has no correlations.
    np.testing.assert_allclose(covariance_within(white, labels), np.eye(6), atol=0.1)
    of_new_classes = covariance_within(white, np.where(truth < 4, -1, truth))
    np.testing.assert_allclose(np.diag(of_new_classes), 1, atol=0.3)


def test_map_by_hand():
    # Two classes, each of two rows 2 apart in one of the two features: both variances are (1 + 1) / 4 and nothing is
    # shrunk, so that every row is multiplied by the root of 2.
    x = torch.tensor([[1.0, 0], [-1, 0], [5, 1], [5, -1]], dtype=torch.float64)
    map_ = whitening_map(prepare(x, torch.tensor([0, 0, 1, 1]), 64, ONE_PROCESS), 2).numpy()
    np.testing.assert_allclose(map_ @ map_.T, 2 * np.eye(2), atol=1e-12)


def test_new_classes_lie_farther_apart():
    x, truth = elongated_classes()
    labels = np.where((truth < 4) & (np.arange(len(truth)) % 2 == 0), truth, -1)

    def between_to_within(rows):
        means = np.stack([rows[truth == c].mean(0) for c in (4, 5)])
        return ((means[0] - means[1]) ** 2).sum() / np.trace(covariance_within(rows, np.where(truth < 4, -1, truth)))

    white, plain = whitened_within_classes(x, labels).numpy(), main_directions(x).numpy()
    assert between_to_within(white) > 3 * between_to_within(plain)
    np.testing.assert_allclose(np.linalg.norm(white, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("labels", [[-1] * 6, [0, 0, 0, -1, -1, -1], [0, 1, 2, 3, 3, -1]])
def test_too_few_labels_leave_the_main_directions(labels):
    x = np.random.default_rng(0).normal(size=(6, 4))
    torch.testing.assert_close(whitened_within_classes(x, np.array(labels)), main_directions(x).float())


def test_main_directions_are_few_centred_and_keep_distances():
    x = np.random.default_rng(0).normal(size=(50, 300)).astype(np.float32)
    main = main_directions(x)
    assert main.shape == (50, MAX_FEATURES)
    np.testing.assert_allclose(main.mean(0), 0, atol=1e-9)
    unit = torch.nn.functional.normalize(torch.from_numpy(x).double())
    torch.testing.assert_close(torch.cdist(main, main), torch.cdist(unit, unit), atol=1e-6, rtol=1e-6)


def test_where_torch_gives_up_on_a_matrix_of_low_rank_numpy_finds_the_directions(monkeypatch):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 300)))
    expected = main_directions(x)

    def give_up(matrix):
        raise torch.linalg.LinAlgError("failed to converge")

    monkeypatch.setattr(torch.linalg, "eigh", give_up)
    found = main_directions(x)
    # A direction may point either way; what counts are the distances.
    torch.testing.assert_close(torch.cdist(found, found), torch.cdist(expected, expected))


def test_equal_images_of_a_class_give_finite_rows():
    x = np.repeat(np.eye(4), 3, axis=0)
    labels = np.repeat(np.arange(4), 3)
    assert torch.isfinite(whitened_within_classes(x, labels)).all()
    x[0, 1] = 0.1
    assert torch.isfinite(whitened_within_classes(x, labels)).all()


def test_nan_is_named():
    with pytest.raises(DataError, match="NaN"):
        whitened_within_classes(np.array([[1.0, np.nan], [1, 2]]), np.array([0, 0]))


def points_whitened(x, labels, shards=ONE_PROCESS):
    points = prepare(x, torch.as_tensor(labels), 64, shards)
    white = whitened_points(points)
    return None if white is None else white.x_nd + white.mean_d


@pytest.mark.parametrize("n_features", [6, MAX_FEATURES + 20])
def test_points_are_whitened_as_unit_features_are_and_in_shards_too(in_threads, n_features):
    x, truth = elongated_classes(n_images=60)
    x = np.hstack([x, np.random.default_rng(1).normal(size=(len(x), n_features - 6))])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = np.where((truth < 4) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    expected, one = whitened_within_classes(x, labels).double(), points_whitened(x, labels)
    shards = torch.cat(in_threads(points_whitened, 2, x, labels))
    # Which way the directions point is no matter: angles are the same.
    torch.testing.assert_close(one @ one.T, expected @ expected.T, atol=1e-5, rtol=0)
    torch.testing.assert_close(shards @ shards.T, one @ one.T, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "labels", [[-1] * 6, [0, 0, 0, -1, -1, -1], [0, 1, 2, -1, -1, -1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1]]
)
@pytest.mark.parametrize("n_features", [4, MAX_FEATURES + 1])
def test_points_with_too_few_labels_are_not_whitened(labels, n_features, in_threads):
    x = np.random.default_rng(0).normal(size=(6, n_features))
    assert points_whitened(x, labels) is None
    assert in_threads(points_whitened, 2, x, np.array(labels)) == [None, None]


def test_a_class_may_have_its_two_rows_in_two_shards(in_threads):
    x, labels = np.random.default_rng(0).normal(size=(6, 4)), np.array([0, 1, -1, -1, 0, 1])
    assert all(white is not None for white in in_threads(points_whitened, 2, x, labels))


def test_too_few_labels_are_found_out_before_the_long_work(monkeypatch):
    monkeypatch.setattr(torch.linalg, "eigh", None)
    assert points_whitened(np.random.default_rng(0).normal(size=(6, MAX_FEATURES + 1)), [0, 0, 0, 0, 0, 1]) is None


@pytest.mark.parametrize("n_directions", [4, 6])
def test_rows_are_read_a_block_at_a_time_and_blocks_change_nothing(monkeypatch, n_directions):
    x, truth = elongated_classes(n_images=60)
    labels = np.where((truth < 4) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    (mean, map_), main, white = (
        whitening(x, labels, n_directions),
        main_directions(x),
        whitened_within_classes(x, labels),
    )
    asked, normalise = [], F.normalize
    monkeypatch.setattr(rows, "UNIT_BLOCK", 7)
    monkeypatch.setattr(F, "normalize", lambda table, **more: asked.append(len(table)) or normalise(table, **more))
    for found, expected in zip(whitening(x, labels, n_directions), (mean, map_), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(main_directions(x), main, atol=1e-12, rtol=0)
    torch.testing.assert_close(whitened_within_classes(x, labels), white, atol=1e-6, rtol=0)
    assert max(asked) == 7


@pytest.mark.parametrize("shape", [(5, 9), (40, 6), (300, 4), (30, 1)])
def test_the_covariance_is_shrunk_as_scikit_learn_does_it(shape):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=shape) * np.arange(1, shape[1] + 1))
    rest = Rest(x.T @ x, float(x.square().sum(1).square().sum()), len(x))
    expected, share = ledoit_wolf(x.numpy(), assume_centered=True)
    assert shape[1] == 1 or 0 < share < 1
    np.testing.assert_allclose(shrunk_covariance(rest).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_numbers_of_classes_do_not_matter(blobs):
    features, labels, _ = blobs
    far = np.where(labels == 2, 2**40, labels)
    assert torch.equal(whitened_within_classes(features, far), whitened_within_classes(features, labels))
    for found, wanted in zip(whitening(features, far, 8), whitening(features, labels, 8), strict=True):
        assert torch.equal(found, wanted)
