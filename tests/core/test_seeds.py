from __future__ import annotations

import numpy as np
import torch

from nngcd.core.seeds import derive, numpy_generator, torch_generator


def test_the_same_purpose_gives_the_same_numbers():
    assert torch.equal(
        torch.rand(5, generator=torch_generator(3, "views", 7)), torch.rand(5, generator=torch_generator(3, "views", 7))
    )
    assert np.array_equal(numpy_generator(3, "x").random(5), numpy_generator(3, "x").random(5))


def test_purposes_seeds_and_epochs_are_independent():
    seeds = {derive(seed, purpose, epoch) for seed in range(5) for purpose in ("a", "b") for epoch in range(20)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
