"""Groups of near-identical images: bursts, or one photograph saved again, resized or slightly cropped.

A fixed limit cannot tell copies from things that only look alike: two shots of one bird differ more than two scanned
digits. So a group must also stand apart: it is a set of images linked at some distance that is still the same set at
three times that distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from nngcd.data.looks import look_vectors
from nngcd.data.split import Split

NONE = -1
LOOK_LIMITS = tuple(0.1 / 3**step for step in range(4))
"""Distances at which looks are linked. On CUB, 0.1 finds nine in ten crops of 4 % and no false pair."""
FEATURE_LIMITS = (0.001,)
"""Features of one category may be very close, so only nearly equal ones are copies: a cosine of 0.999."""
APART = 3.0
LARGEST = 30
"""Larger groups are a kind of image, such as products on white, rather than copies of one."""
FEWEST_FEATURES = 16
"""With fewer numbers per image, different ones are close by chance."""
EXACT_UP_TO = 4000
N_CELLS_EACH, N_LINKS_EACH = 3, 64


def near_copies(split: Split) -> NDArray[np.int64]:
    """Return (n,) the number of the group of near-identical images that each belongs to, or `NONE`."""
    if split.images is not None:
        images = split.images
        return copies_of_looks([images.look(index) for index in range(len(images))])
    assert split.features_nvd is not None
    feature_nd = split.features_nvd[:, 0].astype(np.float32)
    if feature_nd.shape[1] < FEWEST_FEATURES:
        return np.full(len(split), NONE, dtype=np.int64)
    centred_nd = feature_nd - feature_nd.mean(0)
    length_n = np.linalg.norm(centred_nd, axis=1)
    is_seen = length_n > 0
    return _grouped(centred_nd / np.where(is_seen, length_n, 1)[:, None], is_seen, FEATURE_LIMITS)


def copies_of_looks(looks: Sequence[bytes]) -> NDArray[np.int64]:
    """Return (n,) the group of each image by its look, or `NONE`."""
    return _grouped(*look_vectors(looks), LOOK_LIMITS)


def _grouped(vector_nd: NDArray[np.float32], is_seen: NDArray[np.bool_], limits: Sequence[float]) -> NDArray[np.int64]:
    """Return (n,) groups numbered in the order of the images."""
    group_n = np.full(len(vector_nd), NONE, dtype=np.int64)
    if np.count_nonzero(is_seen) < 2:
        return group_n
    # Equal ones count once: any number of exact copies makes no crowd. Sorted, so the order of files does not matter.
    vector_ud, which = np.unique(vector_nd[is_seen], axis=0, return_inverse=True)
    group_u = _apart(vector_ud, limits)
    alone = np.flatnonzero((group_u == NONE) & (np.bincount(which.ravel(), minlength=len(group_u)) > 1))
    group_u[alone] = group_u.max() + 1 + np.arange(len(alone))
    group_n[is_seen] = group_u[which.ravel()]
    found, first = np.unique(group_n[group_n != NONE], return_index=True)
    number = dict(zip(found[np.argsort(first)].tolist(), range(len(found)), strict=True))
    return np.array([number.get(group, NONE) for group in group_n.tolist()], dtype=np.int64)


def _apart(vector_ud: NDArray[np.float32], limits: Sequence[float]) -> NDArray[np.int64]:
    """Return (u,) the largest groups that stand apart, or `NONE`; the limits fall."""
    n = len(vector_ud)
    links = [_links(vector_ud, members, APART * limits[0]) for members in _cells(vector_ud)]
    a, b, distance = (np.concatenate(part) for part in zip(*links, strict=True))
    group_u = np.full(n, NONE, dtype=np.int64)

    def linked(limit: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        is_near = distance <= limit
        graph = coo_matrix((np.ones(np.count_nonzero(is_near)), (a[is_near], b[is_near])), shape=(n, n))
        part_u = connected_components(graph, directed=False)[1].astype(np.int64)
        return part_u, np.bincount(part_u)[part_u]

    for step, limit in enumerate(limits):
        (part_u, size_u), (_, size_apart_u) = linked(limit), linked(APART * limit)
        is_group = (size_u == size_apart_u) & (size_u > 1) & (size_u <= LARGEST) & (group_u == NONE)
        group_u[is_group] = step * n + part_u[is_group]
    return group_u


def _cells(vector_ud: NDArray[np.float32]) -> Iterator[NDArray[np.int64]]:
    """Yield sets of images to compare with each other: all, or of many images those that share a near pivot.

    There are about as many pivots as images in a cell, so the work grows with n to the power of 1.5.
    """
    n = len(vector_ud)
    if n <= EXACT_UP_TO:
        yield np.arange(n)
        return
    pivot_pd = vector_ud[:: round(n**0.5)]
    half_p = (pivot_pd**2).sum(1) / 2
    nearest = [
        np.argpartition(half_p - part_md @ pivot_pd.T, N_CELLS_EACH, axis=1)[:, :N_CELLS_EACH]
        for part_md in np.array_split(vector_ud, n // 1000)
    ]
    pivot = np.concatenate(nearest).ravel()
    order = np.argsort(pivot, kind="stable")
    yield from np.split(order // N_CELLS_EACH, np.flatnonzero(np.diff(pivot[order])) + 1)


def _links(
    vector_ud: NDArray[np.float32], members: NDArray[np.int64], limit: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the pairs within the limit and their distances, of each image its nearest."""
    vector_md = vector_ud[members]
    half_m = (vector_md**2).sum(1) / 2
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
    for rows in np.array_split(np.arange(len(members)), 1 + len(members) // 1000):
        distance_rm = half_m[rows, None] + half_m - vector_md[rows] @ vector_md.T
        is_near = distance_rm <= limit
        is_near[np.arange(len(rows)), rows] = False
        for crowded in np.flatnonzero(is_near.sum(1) > N_LINKS_EACH):
            is_near[crowded, np.argpartition(distance_rm[crowded], N_LINKS_EACH)[N_LINKS_EACH:]] = False
        a, b = np.nonzero(is_near)
        found.append((members[rows[a]], members[b], distance_rm[a, b]))
    a, b, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    return a, b, distance
