"""Neighbours of every image by the sampled search and by an index (faiss): time, and share of true neighbours found.

Beyond 50,000 images, methods look for neighbours among 50,000 of them. An index looks among all.

python benchmarks/neighbour_index.py            # 200,000 images
python benchmarks/neighbour_index.py --short    # 20,000 images, 5,000 candidates
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from measuring import begin, end, parser_with_targets
from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.methods.neighbours import MAX_CANDIDATES

N_FEATURES, N_KINDS, N_NEIGHBOURS, N_CHECKED, NOISE = 384, 200, 10, 1000, 2.5


def main() -> None:
    """Print one line for each way."""
    arguments = parser_with_targets(__doc__).parse_args()
    begin(arguments, n_rounds=1)
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(arguments.threads)
    n, n_candidates = (20_000, 5_000) if arguments.short else (200_000, MAX_CANDIDATES)
    generator = torch.Generator().manual_seed(0)
    centre_kd = torch.randn(N_KINDS, N_FEATURES, generator=generator)
    kind_n = torch.randint(N_KINDS, (n,), generator=generator)
    unit_nd = F.normalize(centre_kd[kind_n] + NOISE * torch.randn(n, N_FEATURES, generator=generator), dim=-1)
    checked = torch.randperm(n, generator=generator)[:N_CHECKED]
    true_cm = exact(unit_nd, checked)
    candidate_c = torch.randperm(n, generator=generator)[:n_candidates].sort().values
    rows: NDArray[np.float32] = unit_nd.numpy()

    def index(kind: str, **settings: int) -> Callable[[], torch.Tensor]:
        def find() -> torch.Tensor:
            found = faiss.index_factory(N_FEATURES, kind, faiss.METRIC_INNER_PRODUCT)
            space = faiss.ParameterSpace()
            found.train(rows)
            found.add(rows)
            for name, value in settings.items():
                space.set_index_parameter(found, name, value)
            return torch.from_numpy(found.search(rows, N_NEIGHBOURS + 1)[1])

        return find

    n_cells = 1024 if not arguments.short else 128
    ways = {
        f"among {n_candidates:,} images": lambda: nearest_neighbours(unit_nd, N_NEIGHBOURS, candidate_c=candidate_c),
        f"faiss IVF{n_cells}, 8 cells": index(f"IVF{n_cells},Flat", nprobe=8),
        f"faiss IVF{n_cells}, 16 cells": index(f"IVF{n_cells},Flat", nprobe=16),
        "faiss HNSW32": index("HNSW32", efSearch=64),
    }
    print(f"{n:,} images, {N_NEIGHBOURS} neighbours{'':<6}{'processor s':>12}{'found':>9}{'same kind':>11}")
    for name, find in ways.items():
        started = time.process_time()
        found_nm = find()
        spent = time.process_time() - started
        share, same = shares(found_nm[checked], true_cm, kind_n, checked)
        print(f"{name:<34}{spent:>11.1f}{share:>9.1%}{same:>11.1%}", flush=True)
    end(arguments, [])


def exact(unit_nd: torch.Tensor, checked: torch.Tensor) -> torch.Tensor:
    """Return the true neighbours of some images, these left out."""
    cosine_cn = unit_nd[checked] @ unit_nd.T
    cosine_cn[torch.arange(len(checked)), checked] = -torch.inf
    return cosine_cn.topk(N_NEIGHBOURS).indices


def shares(
    found_cm: torch.Tensor, true_cm: torch.Tensor, kind_n: torch.Tensor, checked: torch.Tensor
) -> tuple[float, float]:
    """Return which share of the true neighbours was found, and how many that were found are of the image's kind."""
    others = [row[(row != own) & (row >= 0)][:N_NEIGHBOURS] for row, own in zip(found_cm, checked, strict=True)]
    n_found = sum(len(np.intersect1d(row, true)) for row, true in zip(others, true_cm, strict=True))
    is_same = torch.cat([kind_n[row] == kind_n[own] for row, own in zip(others, checked, strict=True)])
    return n_found / true_cm.numel(), float(is_same.float().mean())


if __name__ == "__main__":
    main()
