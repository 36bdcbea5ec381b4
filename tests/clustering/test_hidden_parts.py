"""New categories inside known clusters: found where labels show them, and nothing is said where they cannot."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.hidden_parts import (
    OWN_LEVEL,
    cheapest_merge,
    hidden_parts,
    labelled_share,
    parts_apart,
    split_gain,
)

N_FEATURES = 16


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def blob(centre, n, generator, spread=0.05):
    return F.normalize(centre + spread * torch.randn(n, N_FEATURES, generator=generator), dim=-1)


def task(generator, *, n_labelled=15, touches=True, labels_in_part=0):
    """Return features, clusters and labels of two known classes of 30 images; 20 others may touch the first one."""
    axes = torch.eye(N_FEATURES)
    near = F.normalize(axes[0] + 0.5 * axes[2], dim=0) if touches else axes[0]
    unit_nd = torch.cat([blob(axes[0], 30, generator), blob(near, 20, generator), blob(axes[1], 30, generator)])
    cluster_n = torch.tensor([0] * 50 + [1] * 30)
    labels_n = torch.full((80,), -1)
    labels_n[:n_labelled], labels_n[50 : 50 + n_labelled] = 0, 1
    labels_n[30 : 30 + labels_in_part] = 0
    return unit_nd, cluster_n, labels_n


def found(unit_nd, cluster_n, labels_n, level=0.05):
    return hidden_parts(
        unit_nd, cluster_n, labels_n, n_old=2, level=level, generator=torch.Generator().manual_seed(0)
    )  # fmt: skip


def test_a_new_category_that_touches_a_known_one_is_found(generator):
    (part,) = found(*task(generator))
    assert part.cluster == 0
    assert part.image_m.tolist() == list(range(30, 50))
    assert (part.n_part, part.n_images, part.n_labelled_in_part, part.n_labelled) == (20, 50, 0, 15)
    assert part.p_value < 1e-3


def test_a_category_with_two_forms_that_are_both_labelled_is_left_whole(generator):
    assert found(*task(generator, labels_in_part=8)) == []


def test_a_category_of_one_form_is_left_whole(generator):
    assert found(*task(generator, touches=False, labels_in_part=10)) == []


@pytest.mark.parametrize("n_labelled", [1, 2, 3, 4, 5])
def test_few_labels_say_nothing(generator, n_labelled):
    unit_nd, cluster_n, labels_n = task(generator)
    labels_n[n_labelled:50] = -1  # the other class keeps its labels, so that half of them seems to be the rule
    assert found(unit_nd, cluster_n, labels_n) == []


def test_no_label_no_finding(generator):
    unit_nd, cluster_n, labels_n = task(generator)
    assert found(unit_nd, cluster_n, torch.full_like(labels_n, -1)) == []


def test_the_level_is_that_of_all_clusters_together(generator):
    unit_nd, cluster_n, labels_n = task(generator)
    (part,) = found(unit_nd, cluster_n, labels_n)
    assert found(unit_nd, cluster_n, labels_n, level=2 * part.p_value) == []
    assert len(found(unit_nd, cluster_n, labels_n, level=2.01 * part.p_value)) == 1


def test_findings_are_rare_where_nothing_hides(generator):
    """Of 200 clusters of one form each, labelled at random, about one in twenty is split at most."""
    axes, n_false = torch.eye(N_FEATURES), 0
    for _ in range(100):
        unit_nd = torch.cat([blob(axes[k], 40, generator, spread=0.2) for k in (0, 1)])
        cluster_n = torch.tensor([0] * 40 + [1] * 40)
        labels_n = torch.where(torch.rand(80, generator=generator) < 0.5, cluster_n, -1)
        n_false += len(found(unit_nd, cluster_n, labels_n))
    assert n_false <= 200 * OWN_LEVEL + 2 * (200 * OWN_LEVEL) ** 0.5


def test_the_labelled_share_is_that_of_the_categories_with_labels(generator):
    axes = torch.eye(N_FEATURES)
    unit_nd = torch.cat([blob(axes[k], 200, generator) for k in range(4)])
    is_labelled_n = (torch.rand(800, generator=generator) < 0.3) & (torch.arange(800) < 400)
    assert labelled_share(unit_nd, is_labelled_n, generator) == pytest.approx(0.3, abs=0.1)
    assert labelled_share(unit_nd, torch.zeros(800, dtype=torch.bool), generator) == 0


def test_a_part_needs_unlabelled_images(generator):
    unit_nd, _, labels_n = task(generator)
    for is_labelled_m in (labels_n[:15] >= 0, labels_n[:17] >= 0, labels_n[15:30] >= 0):
        n = len(is_labelled_m)
        assert not parts_apart(unit_nd[:n], is_labelled_m[None]).any()


def test_the_cheapest_merge_is_of_what_is_alike_and_small(generator):
    axes = torch.eye(N_FEATURES)
    close = F.normalize(axes[3] + 0.1 * axes[4], dim=0)
    unit_nd = torch.cat(
        [blob(axes[k], 10, generator) for k in (0, 1)] + [blob(axes[3], 9, generator), blob(close, 5, generator)]
    )
    cluster_n = torch.tensor([0] * 10 + [1] * 10 + [2] * 9 + [3] * 5)
    merge = cheapest_merge(unit_nd, cluster_n, torch.tensor([1, 2, 3]))
    assert merge[:2] == (2, 3)
    # What it costs to merge two clusters is what it gains to split them again.
    first_m, second_m = ((cluster_n == k).nonzero().flatten() for k in (2, 3))
    assert merge.cost == pytest.approx(split_gain(unit_nd, first_m, second_m), rel=1e-3)
    # An empty cluster costs nothing.
    assert cheapest_merge(unit_nd, cluster_n, torch.tensor([1, 2, 3, 4])).freed == 4
