from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nngcd.clustering import communities as module
from nngcd.clustering.communities import Links, communities, link_communities, nearest_with_cosines, neighbour_links
from nngcd.core.errors import ResourceError
from nngcd.core.seeds import torch_generator


def on_circle(*degrees):
    return torch.tensor([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


def weights(features_nd, labels, n_neighbours, min_similarity):
    nearest = nearest_with_cosines(features_nd, n_neighbours)
    links = neighbour_links(nearest, torch.tensor(labels), min_similarity=min_similarity)
    return dict(zip(zip(links.source_l.tolist(), links.target_l.tolist(), strict=True), links.weight_l, strict=True))


def cosine(degrees):
    return pytest.approx(math.cos(math.radians(degrees)), abs=1e-6)


def test_links_go_to_similar_neighbours_and_weigh_their_cosine():
    found = weights(on_circle(0, 10, 25, 180) * 3, [-1, -1, -1, -1], 2, 0.9)
    assert found == {
        (0, 1): cosine(10), (0, 2): cosine(25), (1, 0): cosine(10), (1, 2): cosine(15),
        (2, 1): cosine(15), (2, 0): cosine(25),
    }  # fmt: skip


def test_links_of_one_class_are_raised_to_the_greatest_weight_of_the_image_they_leave():
    found = weights(on_circle(0, 10, 25, 180), [7, -1, 7, -1], 2, 0.9)
    assert (found[0, 2], found[2, 0]) == (cosine(10), cosine(15))
    assert (found[0, 1], found[1, 2], found[2, 1]) == (cosine(10), cosine(15), cosine(15))


def test_links_between_classes_stay_and_too_little_similarity_is_not_mended_by_a_class():
    found = weights(on_circle(0, 10, 25, 180), [7, 2, 7, 7], 3, 0.9)
    assert found[0, 1] == cosine(10)
    assert not any(3 in pair for pair in found)


def test_links_are_those_of_a_slow_reference_whatever_the_order_of_the_images():
    features_nd = torch.randn(40, 6, generator=torch_generator(0, "x"))
    labels_n = torch.randint(-1, 3, (40,), generator=torch_generator(1, "x"))
    unit_nd = (features_nd / features_nd.norm(dim=1, keepdim=True)).double()
    slow = {}
    for i in range(40):
        nearest = sorted(set(range(40)) - {i}, key=lambda j: -float(unit_nd[i] @ unit_nd[j]))[:5]
        similarity = {j: float(unit_nd[i] @ unit_nd[j]) for j in nearest}
        for j in nearest:
            is_raised = labels_n[i] >= 0 and labels_n[i] == labels_n[j]
            if similarity[j] >= 0.5:
                slow[i, j] = pytest.approx(max(similarity.values()) if is_raised else similarity[j], abs=1e-6)
    assert weights(features_nd, labels_n.tolist(), 5, 0.5) == slow
    order = torch.randperm(40, generator=torch_generator(2, "x"))
    moved = weights(features_nd[order], labels_n[order].tolist(), 5, 0.5)
    assert {(int(order[i]), int(order[j])): weight for (i, j), weight in moved.items()} == slow


@pytest.mark.needs("infomap")
def cliques(*groups, bridges=()):
    pairs = [(i, j) for group in groups for i in group for j in group if i != j] + list(bridges)
    source_l, target_l = np.array(pairs).T
    return Links(source_l, target_l, np.ones(len(pairs)))


@pytest.mark.needs("infomap")
def test_cliques_are_communities_also_with_a_bridge_and_small_ones_and_images_alone_are_none():
    links = cliques(range(1, 7), range(7, 12), range(12, 16), bridges=[(1, 7), (7, 1)])
    found = link_communities(links, 17, min_size=5)
    assert sorted([set(np.flatnonzero(found == c).tolist()) for c in range(2)], key=min) == [
        set(range(1, 7)), set(range(7, 12)),
    ]  # fmt: skip
    assert found.max() == 1
    assert np.flatnonzero(found < 0).tolist() == [0, 12, 13, 14, 15, 16]
    assert link_communities(links, 17, min_size=4).max() == 2


@pytest.mark.needs("infomap")
def test_without_links_there_is_no_community():
    nothing = np.zeros(0, dtype=np.int64)
    assert link_communities(Links(nothing, nothing, nothing.astype(float)), 3).tolist() == [-1, -1, -1]
    assert communities(torch.ones(1, 4), torch.tensor([0])).tolist() == [-1]
    assert communities(on_circle(0, 90, 180, 270), torch.zeros(4, dtype=torch.int64)).tolist() == [-1] * 4


@pytest.mark.needs("infomap")
def test_blobs_are_found_silently_and_alike_with_any_seed_without_a_file(blobs, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, labels, classes = blobs
    for seed in (0, 2**63 - 1):
        found = communities(torch.from_numpy(features), torch.from_numpy(labels), seed=seed)
        pairs = set(zip(classes.tolist(), found.tolist(), strict=True))
        assert len(pairs) == len({community for _, community in pairs}) == 6
        again = communities(torch.from_numpy(features), torch.from_numpy(labels), seed=seed)
        assert found.tolist() == again.tolist()
    assert tuple(capfd.readouterr()) == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("infomap")
def test_a_shared_label_makes_one_community_of_two_and_different_ones_do_not():
    """Two groups of 8 images with cosine 0.2: each image has its 7 likes and 3 of the others as neighbours."""
    group_nd = torch.tensor([[1.0, 0.0]] * 8 + [[0.2, 0.96**0.5]] * 8)
    noise_nd = torch.randn(16, 38, generator=torch_generator(0, "x")) * 0.03
    features_nd = torch.cat([group_nd, noise_nd], 1)

    def number(*labels):
        return communities(features_nd, torch.tensor(labels), n_neighbours=10, min_similarity=0.05).max() + 1

    assert number(*[-1] * 16) == 2
    assert number(*[0] * 16) == 1
    assert number(*[0] * 8, *[1] * 8) == 2


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"infomap.*pip install 'nngcd\[dccl\]'"):
        communities(torch.ones(3, 2), torch.tensor([-1, -1, -1]))
