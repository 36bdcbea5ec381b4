import math

import torch

from nngcd.clustering import neighbours
from nngcd.clustering.neighbours import nearest_neighbours


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
