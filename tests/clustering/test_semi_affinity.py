from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.clustering import semi_affinity
from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.clustering.semi_affinity import affinities, consensus, diffused, drawn, labelled_first
from nngcd.core.seeds import torch_generator


def reference(features_nd, n_neighbours, n_steps, share):
    """The authors' way in plain loops: pairs counted image by image, dense products, an interpolated quantile."""
    n, neighbour_nm = len(features_nd), nearest_neighbours(features_nd, n_neighbours).tolist()
    count_nn = np.zeros((n, n))
    for i, neighbours in enumerate(neighbour_nm):
        for a in neighbours:
            count_nn[i, a] += 1
            count_nn[a, i] += 1
            for b in neighbours:
                count_nn[a, b] += a != b
    p_nn = count_nn / count_nn.sum(1, keepdims=True)
    q_nn = p_nn
    for _ in range(n_steps):
        q_nn = p_nn @ q_nn @ p_nn.T + np.eye(n)
    threshold = np.quantile(q_nn[q_nn > q_nn[q_nn != 0].mean()], share)
    return count_nn, q_nn > threshold


@pytest.mark.parametrize(("n_neighbours", "n_steps", "share"), [(1, 1, 0.8), (5, 1, 0.5), (5, 2, 0.8), (9, 1, 0.31)])
def test_agrees_with_plain_loops(n_neighbours, n_steps, share):
    features_nd = torch.randn(150, 4, generator=torch_generator(0, "x"))
    count_nn, is_near_nn = reference(features_nd, n_neighbours, n_steps, share)
    assert consensus(nearest_neighbours(features_nd, n_neighbours)).tolist() == count_nn.tolist()
    found_nn = affinities(features_nd, n_neighbours=n_neighbours, n_steps=n_steps, share=share)
    assert found_nn.tolist() == is_near_nn.tolist()
    assert found_nn.fill_diagonal_(False).any() == (n_neighbours > 1)


def test_consensus_by_hand():
    # 0 and 1 are each other's nearest; 2 is nearest to 1. Neighbourhoods: {0, 1} twice, {2, 1} once.
    assert consensus(torch.tensor([[1], [0], [1]])).tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]


def test_the_walk_by_hand():
    # 3 is nearest to 2, the others as above. P = [0 1 0 0; 2/3 0 1/3 0; 0 1/2 0 1/2; 0 0 1 0].
    consensus_nn = consensus(torch.tensor([[1], [0], [1], [2]]))
    assert consensus_nn.tolist() == [[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    expected_nn = [[1, 5 / 9, 0, 1 / 3], [5 / 6, 1, 1 / 2, 0], [0, 4 / 9, 1, 2 / 3], [1 / 2, 0, 1 / 2, 1]]
    assert diffused(consensus_nn, 1).flatten().tolist() == pytest.approx(np.ravel(expected_nn).tolist())


def test_what_exceeds_the_quantile_of_the_stronger_half_is_near(monkeypatch):
    # The mean of the seven non-zero entries is 4; above it are 5, 6 and 8, whose median is 6.
    walk_nn = torch.tensor([[0.0, 8.0, 2.0], [5.0, 6.0, 0.0], [3.0, 1.0, 3.0]])
    monkeypatch.setattr(semi_affinity, "diffused", lambda *_: walk_nn)
    for share, expected in ((0.0, [1, 4]), (0.5, [1]), (0.6, [1]), (1.0, [])):
        is_near_nn = affinities(torch.eye(3), n_neighbours=1, share=share)
        assert is_near_nn.flatten().nonzero().flatten().tolist() == expected
    monkeypatch.setattr(semi_affinity, "diffused", lambda *_: torch.eye(3))
    assert not affinities(torch.eye(3), n_neighbours=1).any()


def test_groups_that_are_apart_are_kept_apart():
    generator = torch_generator(0, "x")
    group_n = torch.arange(3).repeat_interleave(60)
    features_nd = 5 * torch.eye(3)[group_n] + 0.3 * torch.randn(180, 3, generator=generator)
    is_near_nn = affinities(features_nd, n_neighbours=5, share=0.2)
    assert not is_near_nn[group_n[:, None] != group_n].any()
    assert is_near_nn.sum(1).float().mean() > 5


def test_labels_put_right_what_the_graph_says():
    is_near_bm = torch.tensor([[True, False, True], [True, False, True]])
    found_bm = labelled_first(is_near_bm, torch.tensor([1, -1]), torch.tensor([0, 1, -1]))
    assert found_bm.tolist() == [[False, True, True], [True, False, True]]


def test_as_many_candidates_are_drawn_as_asked_for_and_all_when_there_are_fewer():
    is_candidate_bm = torch.rand(40, 50, generator=torch_generator(0, "x")) < 0.5
    count_b = torch.arange(-5, 35)
    drawn_bm = drawn(is_candidate_bm, count_b, torch_generator(0, "y"))
    assert not (drawn_bm & ~is_candidate_bm).any()
    assert torch.equal(drawn_bm.sum(1), torch.minimum(count_b.clamp_min(0), is_candidate_bm.sum(1)))
    assert torch.equal(drawn_bm, drawn(is_candidate_bm, count_b, torch_generator(0, "y")))
    assert not torch.equal(drawn_bm, drawn(is_candidate_bm, count_b, torch_generator(0, "z")))
