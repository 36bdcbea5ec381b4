from __future__ import annotations

from dataclasses import asdict
from math import isnan

import numpy as np
import pytest

from nngcd.metrics.cooccurrence import _effective_rank, cooccurrence_image, cooccurrence_statistics

ESTIMATED = ("old_sparsity", "new_sparsity", "negative_mass")
ESTIMATED_ERRORS = tuple(f"{name}_error" for name in ESTIMATED)


@pytest.fixture
def images(rng):
    """60 features in 7 classes, the first 4 old, in no order."""
    class_ = rng.integers(0, 7, 60)
    features = rng.normal(size=(7, 9))[class_] + rng.normal(size=(60, 9))
    return features, class_, class_ < 4


def similarities(features):
    norm = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features / np.where(norm > 0, norm, 1)
    return unit @ unit.T


def slow_statistics(features, class_, is_old, *, threshold):
    """The same from the whole matrix, one pair at a time."""
    matrix, pairs = similarities(features), {}
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            if i == j:
                continue
            group = {(True, True): "old", (False, False): "new"}.get((bool(is_old[i]), bool(is_old[j])), "old_new")
            kind = "within" if class_[i] == class_[j] else "between"
            pairs.setdefault(group if group == "old_new" else f"{group}_{kind}", []).append(matrix[i, j])
    values = np.concatenate(list(pairs.values()))
    eigenvalues = np.linalg.eigvalsh(matrix).clip(min=0)
    share = eigenvalues[eigenvalues > 1e-12] / eigenvalues.sum()
    return {
        **{name: np.mean(pair) for name, pair in pairs.items()},
        "old_sparsity": np.mean(np.abs(pairs["old_between"]) < threshold),
        "new_sparsity": np.mean(np.abs(pairs["new_between"]) < threshold),
        "negative_mass": -values[values < 0].sum() / np.abs(values).sum(),
        "effective_rank": np.exp(-(share * np.log(share)).sum()),
        "active_dimensions": features.shape[1],
        "n_pair_images": len(features),
        **dict.fromkeys(ESTIMATED_ERRORS, 0),
    }


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_statistics_agree_with_the_whole_matrix(images, threshold):
    fast = asdict(cooccurrence_statistics(*images, threshold=threshold, block_size=16))
    assert fast == pytest.approx(slow_statistics(*images, threshold=threshold), abs=1e-10)


@pytest.mark.parametrize("block_size", [1, 7, 60, 1000])
def test_the_block_size_changes_nothing(images, block_size):
    blocks, whole = (cooccurrence_statistics(*images, block_size=size) for size in (block_size, 60))
    assert asdict(blocks) == pytest.approx(asdict(whole), abs=1e-12)


def test_no_block_is_larger_than_asked(images, monkeypatch):
    sizes, minimum = [], np.minimum

    def watched(block, *args):
        sizes.append(block.shape)
        return minimum(block, *args)

    monkeypatch.setattr(np, "minimum", watched)
    cooccurrence_statistics(*images, block_size=16)
    assert max(sizes) == (16, 16)
    assert len(sizes) == 4 * 5 / 2  # each pair of blocks once


@pytest.fixture
def many_images(rng):
    """3,000 features in 20 classes, the first 12 old."""
    class_ = rng.integers(0, 20, 3000)
    features = rng.normal(size=(20, 9))[class_] + rng.normal(size=(3000, 9))
    return features, class_, class_ < 12


def test_a_sample_of_pairs_is_near_all_pairs_and_says_how_near(many_images):
    exact = asdict(cooccurrence_statistics(*many_images))
    found = [asdict(cooccurrence_statistics(*many_images, max_pair_images=1000, seed=seed)) for seed in range(40)]
    for name in ESTIMATED:
        miss = np.array([(one[name] - exact[name]) / one[f"{name}_error"] for one in found])
        assert 0.7 < np.sqrt(np.mean(miss**2)) < 1.3, name  # standard errors are what they are called
        assert max(one[f"{name}_error"] for one in found) < 0.02
    exact_ones = exact.keys() - {*ESTIMATED, *ESTIMATED_ERRORS, "n_pair_images"}
    for one in found:
        assert one["n_pair_images"] == 1000
        assert all(one[name] == exact[name] for name in exact_ones)


def test_a_larger_sample_has_a_smaller_error_and_all_images_none(many_images):
    errors = [
        cooccurrence_statistics(*many_images, max_pair_images=size).negative_mass_error for size in (200, 800, 2900)
    ]
    assert errors[0] > 1.5 * errors[1] > 5 * errors[2] > 0
    whole = [cooccurrence_statistics(*many_images, max_pair_images=size) for size in (None, 3000, 20_000)]
    assert whole[0] == whole[1] == whole[2]
    assert (whole[0].n_pair_images, whole[0].negative_mass_error, whole[0].old_sparsity_error) == (3000, 0, 0)


def test_the_seed_alone_decides_the_sample(many_images):
    one, again, other = (cooccurrence_statistics(*many_images, max_pair_images=100, seed=seed) for seed in (3, 3, 4))
    assert one == again
    assert one.negative_mass != other.negative_mass


def test_a_class_id_may_be_old_for_some_images_and_new_for_others():
    features = np.array([[1.0, 0], [0.6, 0.8], [0, 1]])
    found = cooccurrence_statistics(features, [0, 0, 0], [True, True, False])
    assert (found.old_within, found.old_new) == (pytest.approx(0.6), pytest.approx(0.4))
    assert isnan(found.new_within)


def test_half_precision_is_read_as_it_is(images):
    features, class_, is_old = images
    half = features.astype(np.float16)
    single = cooccurrence_statistics(half, class_, is_old)
    assert asdict(single) == asdict(cooccurrence_statistics(half.astype(np.float64), class_, is_old))


def test_classes_on_axes_of_their_own_by_hand():
    # Two old classes (2 and 1 images), one new class (2 images): everything is 1 inside and 0 outside.
    features = np.eye(4)[[0, 0, 1, 2, 2]] * np.array([1, 2, 3, 4, 5])[:, None]
    class_ = np.array([0, 0, 1, 2, 2])
    found = cooccurrence_statistics(features, class_, class_ < 2)
    assert (found.old_within, found.new_within) == (1, 1)
    assert (found.old_between, found.old_new, found.old_sparsity) == (0, 0, 1)
    assert isnan(found.new_between)
    assert isnan(found.new_sparsity)
    assert (found.negative_mass, found.active_dimensions) == (0, 3)
    # Eigenvalues 2, 1, 2 of 5.
    assert found.effective_rank == pytest.approx(np.exp(-2 * 0.4 * np.log(0.4) - 0.2 * np.log(0.2)))


def test_negative_mass_by_hand():
    # Three unit vectors: cosines 0.6, -0.6 and 0.28, each in both orders.
    features = np.array([[1.0, 0], [0.6, 0.8], [-0.6, 0.8]])
    found = cooccurrence_statistics(features, [0, 1, 2], [True, True, False])
    assert found.negative_mass == pytest.approx(0.6 / (0.6 + 0.6 + 0.28))


def test_the_lengths_of_features_and_the_order_of_images_do_not_matter(images, rng):
    features, class_, is_old = images
    expected = asdict(cooccurrence_statistics(*images))
    longer = features * rng.uniform(0.1, 10, size=(60, 1))
    assert asdict(cooccurrence_statistics(longer, class_, is_old)) == pytest.approx(expected, abs=1e-10)
    order = rng.permutation(60)
    shuffled = cooccurrence_statistics(features[order], class_[order], is_old[order])
    assert asdict(shuffled) == pytest.approx(expected, abs=1e-10)


def test_float32_is_as_good(images):
    features, class_, is_old = images
    single = cooccurrence_statistics(features.astype(np.float32), class_, is_old)
    assert asdict(single) == pytest.approx(asdict(cooccurrence_statistics(*images)), abs=1e-5)


def test_zero_features_and_a_single_image_give_no_error():
    zero = cooccurrence_statistics(np.zeros((3, 2)), [0, 0, 1], [True, True, False])
    assert (zero.old_within, zero.old_new, zero.active_dimensions) == (0, 0, 0)
    assert isnan(zero.negative_mass)
    assert isnan(zero.effective_rank)
    one = cooccurrence_statistics(np.ones((1, 2)), [0], [True])
    assert isnan(one.old_within)
    assert isnan(one.negative_mass)
    assert one.effective_rank == pytest.approx(1)


def test_what_does_not_fit_is_refused(images):
    features, class_, is_old = images
    with pytest.raises(ValueError, match="equally long"):
        cooccurrence_statistics(features, class_[1:], is_old)
    with pytest.raises(ValueError, match="finite numbers"):
        cooccurrence_statistics(features * np.nan, class_, is_old)
    with pytest.raises(ValueError, match="at least 2"):
        cooccurrence_statistics(features, class_, is_old, max_pair_images=1)
    with pytest.raises(ValueError, match="at least 1"):
        cooccurrence_image(features, np.arange(60), size=0)


@pytest.mark.parametrize("size", [1, 6, 7, 60, 256])
def test_a_pixel_is_the_mean_over_its_patch(images, rng, size):
    features = images[0]
    order = rng.permutation(60)
    matrix = similarities(features)[np.ix_(order, order)]
    n_pixels = min(size, 60)
    edges = [i * 60 // n_pixels for i in range(n_pixels + 1)]
    expected = [
        [matrix[edges[i] : edges[i + 1], edges[j] : edges[j + 1]].mean() for j in range(n_pixels)]
        for i in range(n_pixels)
    ]
    assert np.allclose(cooccurrence_image(features, order, size=size), expected, atol=1e-12)


def test_the_order_may_leave_images_out(images):
    assert cooccurrence_image(images[0], [3, 5, 9]).shape == (3, 3)


def test_an_eigenvalue_too_small_for_a_share_leaves_the_rank_a_number():
    assert _effective_rank(np.diag([20.0, 20.0, 5e-324])) == pytest.approx(2)
