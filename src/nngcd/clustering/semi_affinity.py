"""PromptCAL's affinity graph (SemiAG): which images belong together, by shared neighbourhoods and by labels."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.clustering.neighbours import nearest_neighbours


@torch.no_grad()
def affinities(features_nd: Tensor, *, n_neighbours: int, n_steps: int = 1, share: float = 0.8) -> Tensor:
    """Return is_near_nn: the pairs that a random walk over shared neighbourhoods connects most strongly.

    SemiAG of PromptCAL (Zhang et al., CVPR 2023), as in its authors' code: `consensus` with rows of sum 1 is P, and
    Q <- P Q P^T + I from Q = P. Of the entries above the mean of the non-zero ones, the diagonal among them, a pair is
    near when its entry exceeds the quantile.

    Args:
        features_nd: features; only their directions count.
        n_neighbours: size of a neighbourhood; 5 for fine-grained data and 10 for CIFAR in the paper.
        n_steps: steps of the walk.
        share: the quantile, in [0, 1); 0.8 for fine-grained data and 0.5 for CIFAR in the paper.
    """
    walk_nn = diffused(consensus(nearest_neighbours(features_nd, n_neighbours)), n_steps)
    connected = walk_nn[walk_nn > 0]
    strong = connected[connected > connected.mean()]
    if not len(strong):
        return torch.zeros_like(walk_nn, dtype=torch.bool)
    # The order statistic below the quantile. What exceeds it also exceeds the interpolated quantile of the authors.
    threshold = strong.kthvalue(1 + int(share * (len(strong) - 1))).values
    return walk_nn > threshold


def diffused(consensus_nn: Tensor, n_steps: int) -> Tensor:
    """Return Q after some steps."""
    walk_nn = consensus_nn / consensus_nn.sum(1, keepdim=True).clamp_min(1)
    # Few pairs share a neighbourhood, so that products with a sparse P cost a hundredth of dense ones.
    sparse_nn, identity_nn = walk_nn.to_sparse(), torch.eye(len(walk_nn), device=walk_nn.device)
    for _ in range(n_steps):
        half_nn = torch.sparse.mm(sparse_nn, walk_nn)
        walk_nn = torch.sparse.mm(sparse_nn, half_nn.T).T + identity_nn
    return walk_nn


def consensus(neighbour_nm: Tensor) -> Tensor:
    """Return consensus_nn: of how many neighbourhoods, each an image with its neighbours, both of two images are part.

    The authors add up the pairs image by image. With a one in row i for each of the neighbourhood of i, that is
    R^T R without its diagonal.
    """
    n = len(neighbour_nm)
    row_n = torch.arange(n, device=neighbour_nm.device)
    column_nm = torch.cat([row_n[:, None], neighbour_nm], dim=1)
    index = torch.stack([row_n[:, None].expand_as(column_nm).flatten(), column_nm.flatten()])
    one = torch.ones(index.shape[1], device=row_n.device)
    member_nn = torch.sparse_coo_tensor(index, one, (n, n), check_invariants=False)
    consensus_nn: Tensor = torch.sparse.mm(member_nn.T, member_nn.to_dense())
    return consensus_nn.fill_diagonal_(0)


@torch.no_grad()
def labelled_first(is_near_bm: Tensor, labels_b: Tensor, labels_m: Tensor) -> Tensor:
    """Return the pairs that belong together, with what labels say put right: one class is near, two are not.

    Args:
        is_near_bm: what the graph says of images b and m.
        labels_b: class of each image, -1 for unlabelled ones, of which nothing is known.
        labels_m: the same of the others.
    """
    is_known_bm = (labels_b[:, None] >= 0) & (labels_m >= 0)
    return torch.where(is_known_bm, labels_b[:, None] == labels_m, is_near_bm)


@torch.no_grad()
def drawn(is_candidate_bm: Tensor, count_b: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random choice of `count_b` candidates in each row; all where there are no more than that."""
    # On the CPU, whose generator draws the same numbers on every machine.
    random_bm = torch.rand(is_candidate_bm.shape, generator=generator).to(is_candidate_bm.device)
    rank_bm = random_bm.masked_fill(~is_candidate_bm, torch.inf).argsort(1).argsort(1)
    return is_candidate_bm & (rank_bm < count_b[:, None])
