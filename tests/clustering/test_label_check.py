"""Whether labels are a random share of their categories: silent where they are, said where they were picked by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.hidden_parts import LEAST_LABELS
from nngcd.clustering.label_check import MOST_IMAGES, LabelCheck, check_labels, is_apart
from nngcd.core.seeds import torch_generator

N_FEATURES, N_OLD, N_IMAGES = 16, 8, 40


def blobs(generator, *, distance, n_swallowed=0):
    """Return unit features and clusters of 8 known classes with two forms each; some have swallowed 20 other images."""
    axes = torch.eye(N_FEATURES)
    centres, cluster = [], []
    for k in range(N_OLD):
        centres += [axes[k]] * (N_IMAGES // 2) + [axes[k] + distance * axes[8 + k]] * (N_IMAGES // 2)
        centres += [axes[k] + axes[(k + 1) % N_OLD]] * 20 * (k < n_swallowed)
        cluster += [k] * (N_IMAGES + 20 * (k < n_swallowed))
    noise = 0.2 * torch.randn(len(centres), N_FEATURES, generator=generator)
    return F.normalize(torch.stack(centres) + noise, dim=-1), torch.tensor(cluster)


def labelled(cluster_n, generator, *, share_of_first):
    """Return labels of 20 of the first 40 images of each class, so many of them of its first form."""
    labels_n = torch.full_like(cluster_n, -1)
    for k in range(N_OLD):
        image_m = (cluster_n == k).nonzero().flatten()[:N_IMAGES]
        forms = image_m.split(N_IMAGES // 2)
        n_first = round(share_of_first * N_IMAGES / 2)
        for form_m, n in zip(forms, (n_first, N_IMAGES // 2 - n_first), strict=True):
            labels_n[form_m[torch.randperm(len(form_m), generator=generator)[:n]]] = k
    return labels_n


def check(unit_nd, cluster_n, labels_n, seed=0):
    return check_labels(unit_nd, cluster_n, labels_n, n_old=N_OLD, generator=torch_generator(seed, "check"))


@pytest.mark.parametrize("n_swallowed", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_random_halves_are_hardly_ever_doubted(n_swallowed):
    """Of 100 tasks at most 3 are, also where a quarter of the known clusters have swallowed a category."""
    n_doubted = 0
    for seed in range(100):
        generator = torch_generator(seed, "blobs")
        unit_nd, cluster_n = blobs(generator, distance=1.0, n_swallowed=n_swallowed)
        labels_n = torch.full_like(cluster_n, -1)
        for k in range(N_OLD):
            image_m = (cluster_n == k).nonzero().flatten()[:N_IMAGES]
            labels_n[image_m[torch.randperm(N_IMAGES, generator=generator)[: N_IMAGES // 2]]] = k
        n_doubted += check(unit_nd, cluster_n, labels_n).is_doubtful
    assert n_doubted <= 3


@pytest.mark.parametrize("seed", range(10))
def test_labels_of_one_form_are_noticed(seed):
    generator = torch_generator(seed, "blobs")
    unit_nd, cluster_n = blobs(generator, distance=1.0)
    found = check(unit_nd, cluster_n, labelled(cluster_n, generator, share_of_first=1.0))
    assert found.is_doubtful and found.n_tested == N_OLD


def test_two_forms_that_are_labelled_alike_are_left_in_peace():
    generator = torch_generator(0, "blobs")
    unit_nd, cluster_n = blobs(generator, distance=2.0)
    assert check(unit_nd, cluster_n, labelled(cluster_n, generator, share_of_first=0.5)).n_apart <= 1


def test_few_labels_or_few_others_are_not_tested():
    generator = torch_generator(0, "blobs")
    unit_nd, cluster_n = blobs(generator, distance=1.0)
    labels_n = labelled(cluster_n, generator, share_of_first=1.0)
    few_n = torch.where((torch.arange(len(cluster_n)) % N_IMAGES) < LEAST_LABELS - 1, cluster_n, -1)
    assert check(unit_nd, cluster_n, few_n) == LabelCheck(0, 0)
    assert check(unit_nd, cluster_n, torch.full_like(labels_n, -1)) == LabelCheck(0, 0)
    assert check(unit_nd, cluster_n, cluster_n) == LabelCheck(0, 0)


def test_a_labelled_image_counts_for_its_category_wherever_it_was_put():
    generator = torch_generator(0, "blobs")
    unit_nd, cluster_n = blobs(generator, distance=1.0)
    labels_n = labelled(cluster_n, generator, share_of_first=1.0)
    elsewhere_n = torch.where(labels_n >= 0, (labels_n + 1) % N_OLD, cluster_n)
    assert check(unit_nd, elsewhere_n, labels_n) == check(unit_nd, cluster_n, labels_n)


def test_a_large_cluster_is_drawn_from():
    generator = torch_generator(0, "large")
    x_md = F.normalize(torch.randn(2 * MOST_IMAGES + 1, 4, generator=generator), dim=-1)
    labels_n = torch.where(x_md[:, 0] > 0, 0, -1)
    found = check_labels(x_md, torch.zeros_like(labels_n), labels_n, n_old=1, generator=generator)
    assert found == LabelCheck(1, 1)


def test_the_excess_is_that_of_labelled_neighbours():
    """Two far groups of 10: all of one labelled is all that is possible; half of each is nothing."""
    x_md = torch.cat([torch.zeros(10, 2), torch.ones(10, 2)]) + 0.01 * torch.randn(
        20, 2, generator=torch_generator(0, "x")
    )
    generator = torch_generator(0, "permutations")
    assert is_apart(x_md, torch.arange(20) < 10, generator)
    assert not is_apart(x_md, torch.arange(20) % 2 == 0, generator)


@pytest.mark.parametrize(("n_tested", "n_apart", "is_doubtful"), [(2, 2, False), (3, 3, True), (40, 10, True),
                                                                  (40, 9, False), (0, 0, False)])  # fmt: skip
def test_more_must_be_apart_than_swallowed_categories_explain(n_tested, n_apart, is_doubtful):
    assert LabelCheck(n_tested, n_apart).is_doubtful == is_doubtful
