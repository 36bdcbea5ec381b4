"""Communities of images: parts of the neighbour graph that a random walk stays in for long (Infomap), as in DCCL."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.clustering.points import Ids
from nngcd.core.errors import ResourceError

N_NEIGHBOURS = 15
"""DCCL's k1. In the authors' code one of the 15 is the image itself; here they are other images."""
MIN_SIMILARITY = 0.6
"""DCCL's epsilon."""
MIN_SIZE = 5
"""DCCL drops communities of at most k2 = 4 images."""


class NearestNeighbours(NamedTuple):
    """The nearest neighbours of every image, the nearest first."""

    neighbour_nm: Tensor
    cosine_nm: Tensor

    def first(self, n_neighbours: int) -> NearestNeighbours:
        """Return fewer neighbours of every image, the nearest of them."""
        return NearestNeighbours(self.neighbour_nm[:, :n_neighbours], self.cosine_nm[:, :n_neighbours])


class Links(NamedTuple):
    """The links of a directed graph of images."""

    source_l: Ids
    target_l: Ids
    weight_l: NDArray[np.float64]


def check_infomap() -> None:
    """Raise `ResourceError` unless Infomap is installed; its licence is the GPL, so nngcd does not include it."""
    if importlib.util.find_spec("infomap") is None:
        raise ResourceError(
            "communities need infomap, which is not installed. Install it: pip install 'nngcd[dccl]' (Python 3.11 or "
            "later)"
        )


def communities(
    features_nd: Tensor,
    labels_n: Tensor,
    *,
    n_neighbours: int = N_NEIGHBOURS,
    min_similarity: float = MIN_SIMILARITY,
    min_size: int = MIN_SIZE,
    seed: int = 0,
) -> Ids:
    """Return the community of each image: `link_communities` of its `neighbour_links`, as DCCL finds its conceptions.

    Takes time in proportion to the square of the number of images, for their neighbours.

    Args:
        features_nd: features of all images; only their directions count.
        labels_n: class of each image, -1 for unlabelled.
        n_neighbours: links that leave an image, at most.
        min_similarity: least cosine of two linked images.
        min_size: fewest images of a community.
        seed: of Infomap's search.
    """
    nearest = nearest_with_cosines(features_nd, n_neighbours)
    links = neighbour_links(nearest, labels_n, min_similarity=min_similarity)
    return link_communities(links, len(features_nd), min_size=min_size, seed=seed)


@torch.no_grad()
def nearest_with_cosines(features_nd: Tensor, n_neighbours: int) -> NearestNeighbours:
    """Return the nearest neighbours of every image with their cosines."""
    unit_nd, neighbour_nm = F.normalize(features_nd, dim=-1), nearest_neighbours(features_nd, n_neighbours)
    cosine_nm = unit_nd.new_zeros(neighbour_nm.shape)
    # One neighbour of all images at a time: all at once would need as many times the memory of the features.
    for rank, neighbour_n in enumerate(neighbour_nm.T):
        cosine_nm[:, rank] = (unit_nd * unit_nd[neighbour_n]).sum(-1)
    return NearestNeighbours(neighbour_nm, cosine_nm)


def neighbour_links(nearest: NearestNeighbours, labels_n: Tensor, *, min_similarity: float = MIN_SIMILARITY) -> Links:
    """Return a link from each image to those of its neighbours that are similar enough, weighted by their cosine.

    A link between two labelled images of one class weighs as much as the heaviest link of the image that it leaves.
    Links between labelled images of different classes stay as they are, as in DCCL. In the authors' code the class of
    an image's j-th neighbour is read from the j-th of all images, so that what is raised is left to chance; here it is
    the neighbour's own.
    """
    neighbour_nm, cosine_nm = nearest
    is_linked_nm = (cosine_nm >= min_similarity) & (cosine_nm > 0)
    class_n = labels_n.to(neighbour_nm.device)
    is_one_class_nm = (class_n[:, None] == class_n[neighbour_nm]) & (class_n[:, None] >= 0)
    weight_nm = torch.where(is_one_class_nm, cosine_nm[:, :1], cosine_nm)
    linked = is_linked_nm.nonzero()[:, 0], neighbour_nm[is_linked_nm], weight_nm[is_linked_nm].double()
    source_l, target_l, weight_l = (part.cpu().numpy() for part in linked)
    return Links(source_l, target_l, weight_l)


def link_communities(links: Links, n_images: int, *, min_size: int = MIN_SIZE, seed: int = 0) -> Ids:
    """Return the community of each image, 0, 1, 2, ... without gaps; -1 for images in none or in one that is too small.

    They are the modules of the two-level map equation on the directed graph (Rosvall and Bergstrom, PNAS 2008), found
    by one search of Infomap; the authors' code runs the same.
    """
    check_infomap()
    import infomap

    module_n = np.full(n_images, -1)
    if len(links.source_l):
        # Its seeds begin at 1 and have 32 bits.
        link = list(zip(*(part.tolist() for part in links), strict=True))
        found = infomap.run(link, two_level=True, directed=True, seed=1 + seed % (2**31 - 1)).modules()
        module_n[list(found.keys())] = list(found.values())
    size_m = np.bincount(module_n[module_n >= 0], minlength=1)
    is_kept_m = size_m >= max(min_size, 1)
    number_m = np.where(is_kept_m, np.cumsum(is_kept_m) - 1, -1)
    return np.where(module_n >= 0, number_m[module_n], -1)
