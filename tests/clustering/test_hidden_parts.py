"""New categories inside known clusters: found where labels show them, and nothing is said where they cannot."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.hidden_parts import (
    LEAST_LABELS,
    PLAIN_LEVEL,
    HiddenPart,
    _not_by_chance,
    cut_known_clusters,
    hidden_parts,
    nearer_to_part,
    part_apart,
    typical_share,
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


def found(unit_nd, cluster_n, labels_n, *, level=0.05, plain_nd=None):
    plain_nd = unit_nd if plain_nd is None else plain_nd
    cuts = cut_known_clusters(unit_nd, cluster_n, labels_n, 2)
    return hidden_parts(cuts, plain_nd, cluster_n, labels_n, n_old=2, level=level)


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


@pytest.mark.parametrize("n_labelled", range(1, LEAST_LABELS))
def test_few_labels_say_nothing(generator, n_labelled):
    unit_nd, cluster_n, labels_n = task(generator)
    labels_n[n_labelled:50] = -1  # the other class keeps its labels, so that half of them seems to be the rule
    assert found(unit_nd, cluster_n, labels_n, level=1.0) == []


def test_no_label_no_finding(generator):
    unit_nd, cluster_n, labels_n = task(generator)
    assert found(unit_nd, cluster_n, torch.full_like(labels_n, -1)) == []


def test_the_level_is_a_share_of_what_is_found(generator):
    unit_nd, cluster_n, labels_n = task(generator)
    (part,) = found(unit_nd, cluster_n, labels_n)
    assert found(unit_nd, cluster_n, labels_n, level=1.99 * part.p_value) == []
    assert len(found(unit_nd, cluster_n, labels_n, level=2.01 * part.p_value)) == 1


@pytest.mark.parametrize(("p_values", "n_kept"), [([0.001, 0.03], 2), ([0.03, 0.03], 2), ([0.03], 0), ([], 0)])
def test_several_findings_support_each_other(p_values, n_kept):
    """Of five tests at a level of 0.1 the least p-value must be at most 0.02, the second 0.04."""
    parts = [HiddenPart(0, torch.arange(3), 3, 9, 0, 6, p) for p in p_values]
    assert len(_not_by_chance(parts, 5, 0.1)) == n_kept


def test_labelled_images_that_training_drew_together_split_nothing(generator):
    """In learned features they look like another category than the unlabelled ones; in plain features they do not."""
    unit_nd, cluster_n, labels_n = task(generator, touches=False)
    learned_nd = unit_nd.clone()
    learned_nd[:15] = blob(torch.eye(N_FEATURES)[0] - 0.5 * torch.eye(N_FEATURES)[3], 15, generator)
    assert found(learned_nd, cluster_n, labels_n) != []
    assert found(learned_nd, cluster_n, labels_n, plain_nd=unit_nd) == []


def test_findings_are_rare_where_nothing_hides(generator):
    """Of 200 clusters of one form each, labelled at random, no more are split than the test in plain features lets by.

    The cut looks for labels that are few, so the p-value of the part itself promises too much.
    """
    axes, n_false = torch.eye(N_FEATURES), 0
    for _ in range(100):
        unit_nd = torch.cat([blob(axes[k], 40, generator, spread=0.2) for k in (0, 1)])
        cluster_n = torch.tensor([0] * 40 + [1] * 40)
        labels_n = torch.where(torch.rand(80, generator=generator) < 0.5, cluster_n, -1)
        n_false += len(found(unit_nd, cluster_n, labels_n))
    assert n_false <= 200 * PLAIN_LEVEL + 2 * (200 * PLAIN_LEVEL) ** 0.5


def test_the_typical_share_is_that_of_the_median_cluster():
    cluster_n = torch.tensor([0] * 10 + [1] * 10 + [2] * 30 + [3] * 10)
    is_labelled_n = torch.zeros(60, dtype=torch.bool)
    is_labelled_n[[0, 1, 2, 3, 10, 11, 12, 13, 14, 20, 21]] = True
    assert typical_share(cluster_n, is_labelled_n, 3) == pytest.approx(0.4)
    assert typical_share(cluster_n, torch.zeros_like(is_labelled_n), 3) == 0


def test_a_part_needs_unlabelled_images(generator):
    unit_nd, _, labels_n = task(generator)
    for is_labelled_m in (labels_n[:15] >= 0, labels_n[:17] >= 0):
        assert not part_apart(unit_nd[: len(is_labelled_m)], is_labelled_m).any()


def test_each_image_is_left_out_of_its_own_mean():
    """Four points on a line: the third is nearer to the part's mean only as far as it is that mean itself."""
    plain_md = torch.tensor([[0.0], [1.0], [2.4], [6.0]])
    is_part_m = torch.tensor([False, False, True, True])
    assert nearer_to_part(plain_md, is_part_m).tolist() == [False, False, False, True]
    alone_m = torch.tensor([False, False, False, True])
    assert nearer_to_part(plain_md, alone_m)[:3].tolist() == [False] * 3
