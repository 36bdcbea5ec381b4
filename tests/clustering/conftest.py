from __future__ import annotations

import threading

import numpy as np
import pytest

from nngcd.clustering.points import Shards


@pytest.fixture
def in_threads():
    """Return a function that runs `fit(*rows, shards)` on every shard at once, as processes would."""

    def run_all(fit, n_shards, *arrays):
        parts = list(zip(*(np.array_split(array, n_shards) for array in arrays), strict=True))
        slots, results = [None] * n_shards, [None] * n_shards
        barrier = threading.Barrier(n_shards, timeout=600)

        def run(rank):
            def all_reduce(own):
                slots[rank] = own
                barrier.wait()
                total = sum(slots)
                barrier.wait()
                return total

            results[rank] = fit(*parts[rank], Shards(rank, n_shards, all_reduce))

        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(n_shards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    return run_all
