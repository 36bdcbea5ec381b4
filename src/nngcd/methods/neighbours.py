"""Shared code for methods that learn from nearest neighbours: the neighbours and their features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nngcd.clustering.neighbours import has_index, indexed_neighbours, nearest_neighbours
from nngcd.core.errors import DataError

MAX_CANDIDATES = 50_000
"""Beyond so many images comparing all with all would take hours. Neighbours are then looked up in an index of all where
faiss is installed (extra `index`); otherwise only a random sample of so many can be neighbours, drawn anew for every
search, and time grows in proportion to the images. benchmarks/neighbour_index.py compares both."""


class Neighbours(nn.Module):
    """Every image's feature before this epoch, and its nearest neighbours from the last search."""

    index_nm: Tensor
    seen_nd: Tensor

    def __init__(self, n_neighbours: int) -> None:
        super().__init__()
        self.n_neighbours = n_neighbours
        # Part of a checkpoint: a run that resumes between two searches cannot recover the neighbours otherwise.
        self.register_buffer("index_nm", torch.zeros(0, n_neighbours, dtype=torch.int64))
        self.register_buffer("seen_nd", torch.zeros(0, 0), persistent=False)

    def see(self, features_nd: Tensor, *, find: bool, n_clusters: int, generator: torch.Generator) -> None:
        """Remember all features; `find` the neighbours anew, among at most `MAX_CANDIDATES` images without an index.

        Args:
            features_nd: the features of all images.
            find: whether to search for the neighbours again.
            n_clusters: K; an image has no more neighbours than half the images of a cluster of average size.
            generator: of the sample of the images, where there are more.
        """
        if not find and len(self.index_nm) != len(features_nd):
            counts = f"{len(self.index_nm):,} images, but the data have {len(features_nd):,}"
            raise DataError(f"R03: the checkpoint has neighbours of {counts}. Delete it to restart training.")
        self.seen_nd = features_nd.detach()
        if find:
            # With more, a small cluster's images would learn from those of others: 15 images of three clear categories
            # all fell into one.
            n_neighbours = min(self.n_neighbours, len(features_nd) // (2 * n_clusters))
            if len(features_nd) > MAX_CANDIDATES and has_index():
                self.index_nm = indexed_neighbours(self.seen_nd, n_neighbours)
                return
            candidate_c = _candidates(len(features_nd), generator)
            self.index_nm = nearest_neighbours(self.seen_nd, n_neighbours, candidate_c=candidate_c)

    def forget(self) -> None:
        """Forget the images after training: they are not part of a model."""
        # As wide as when a module is made, also where there were fewer images than neighbours asked for.
        self.seen_nd, self.index_nm = self.seen_nd[:0], self.index_nm.new_zeros(0, self.n_neighbours)

    def features(self, image_b: Tensor) -> Tensor:
        """Return features_bmd of the neighbours of some images."""
        return self.seen_nd[self.index_nm[image_b]]

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:  # noqa: ANN401 (torch's)
        # As many images as were saved: a new module does not know the number.
        if (saved := state.get(f"{prefix}index_nm")) is not None:
            self.index_nm = self.index_nm.new_empty(saved.shape)
        super()._load_from_state_dict(state, prefix, *others)


def _candidates(n_images: int, generator: torch.Generator) -> Tensor | None:
    """Return the images that may be neighbours, in rising order; None for all."""
    if n_images <= MAX_CANDIDATES:
        return None
    return torch.randperm(n_images, generator=generator)[:MAX_CANDIDATES].sort().values
