import math
import sys

import numpy as np
import pytest
import torch

from nngcd.clustering import communities, faiss_search, neighbours
from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.core.errors import ResourceError


def on_circle(*degrees):
    return torch.tensor([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


def test_the_nearest_come_first_and_nobody_is_his_own_neighbour():
    features = on_circle(0, 10, 25, 180)
    assert nearest_neighbours(features, 2).tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]


def test_only_directions_count():
    features = on_circle(0, 10, 25, 180)
    longer = features * torch.tensor([[3.0], [0.1], [7.0], [1.0]])
    assert torch.equal(nearest_neighbours(longer, 2), nearest_neighbours(features, 2))


def test_there_are_no_more_neighbours_than_other_images():
    assert nearest_neighbours(on_circle(0, 10), 5).tolist() == [[1], [0]]
    assert nearest_neighbours(on_circle(0), 5).shape == (1, 0)


def test_blocks_change_nothing(monkeypatch):
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    whole = nearest_neighbours(features, 4)
    monkeypatch.setattr(neighbours, "MAX_CELLS", 120)
    assert torch.equal(nearest_neighbours(features, 4), whole)
    slow = [sorted(set(range(50)) - {i}, key=lambda j: -torch.cosine_similarity(features[i], features[j], dim=0))[:4]
            for i in range(50)]  # fmt: skip
    assert whole.tolist() == slow


def test_neighbours_are_looked_for_among_the_candidates_only(monkeypatch):
    features = on_circle(0, 10, 25, 180, 40)
    # Images 1 and 3 are candidates and not their own neighbours, 4 lies behind the last candidate.
    assert nearest_neighbours(features, 1, candidate_c=torch.tensor([1, 3])).tolist() == [[1], [3], [1], [1], [1]]
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    candidates = range(1, 49, 3)
    monkeypatch.setattr(neighbours, "MAX_CELLS", 120)
    slow = [sorted(set(candidates) - {i}, key=lambda j: -torch.cosine_similarity(features[i], features[j], dim=0))[:4]
            for i in range(50)]  # fmt: skip
    assert nearest_neighbours(features, 4, candidate_c=torch.tensor(candidates)).tolist() == slow
    assert torch.equal(nearest_neighbours(features, 4, candidate_c=torch.arange(50)), nearest_neighbours(features, 4))


@pytest.mark.needs("faiss")
def test_an_index_finds_most_neighbours_of_all_images():
    generator = torch.Generator().manual_seed(0)
    kind_n = torch.arange(4000) % 20
    features = torch.randn(20, 32, generator=generator)[kind_n] + torch.randn(4000, 32, generator=generator)
    true, found = nearest_neighbours(features, 8), neighbours.indexed_neighbours(3 * features, 8)
    assert found.shape == true.shape and found.dtype == true.dtype
    assert not (found == torch.arange(4000)[:, None]).any()
    shared = [len(set(a) & set(b)) for a, b in zip(found.tolist(), true.tolist(), strict=True)]
    assert sum(shared) / true.numel() > 0.8
    # A quarter of the images as candidates gives a quarter of the neighbours.
    some = nearest_neighbours(features, 8, candidate_c=torch.arange(0, 4000, 4))
    assert sum(len(set(a) & set(b)) for a, b in zip(some.tolist(), true.tolist(), strict=True)) / true.numel() < 0.4
    assert torch.equal(neighbours.indexed_neighbours(features, 8), neighbours.indexed_neighbours(features, 8))


@pytest.mark.needs("faiss")
def test_an_index_of_few_images_repeats_the_nearest():
    found = neighbours.indexed_neighbours(on_circle(0, 10, 20), 5)
    assert found.shape == (3, 5)
    assert found[0].tolist()[:2] == [1, 2] and set(found[0].tolist()) == {1, 2}


@pytest.mark.needs("faiss")
@pytest.mark.needs("infomap")
def test_after_an_index_was_searched_infomap_works():
    generator = torch.Generator().manual_seed(0)
    neighbours.indexed_neighbours(torch.randn(60, 8, generator=generator), 3)
    assert "faiss" not in sys.modules
    links = communities.Links(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2]), np.ones(4))
    assert communities.link_communities(links, 4, min_size=2).tolist() == [0, 0, 1, 1]


@pytest.mark.needs("faiss")
def test_a_search_that_fails_is_an_error_with_its_reason():
    with pytest.raises(ResourceError, match=r"search for neighbours by faiss failed \(.+\)\. Free memory"):
        faiss_search.search(np.zeros((3, 4), dtype=np.float32), slice(0, 3), 0)
