"""The map: every image as a point, similar images near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nngcd.core.seeds import derive, numpy_generator

MOST_LAID_OUT = 2000
"""Images that t-SNE lays out: its time grows faster than their number. The others are placed next to their nearest."""
MOST_POINTS = 20_000
"""Points on the map; of more images, a seeded sample of every category."""
FEWEST_IMAGES = 5
"""Images that t-SNE needs."""
PERPLEXITY = 30.0
N_STEPS = 500
N_NEAREST = 3
SEED = 0


@dataclass(frozen=True, slots=True)
class Map:
    """Places of some images, each axis from 0 to 1."""

    rows: NDArray[np.int64]
    places_n2: NDArray[np.float64]
    n_laid_out: int
    """Of how many images t-SNE made the layout."""


def make_map(features_nd: NDArray[np.float32], category_n: NDArray[np.int64], first: NDArray[np.int64]) -> Map | None:
    """Return the map of a run, or None when there are too few different images for one.

    Args:
        features_nd: the features of all images.
        category_n: (n,) their categories, each of which gets its share of the points.
        first: rows that are wanted on the map before any other, for example those that have a thumbnail.
    """
    rows = sample(category_n, first, MOST_POINTS)
    if len(rows) < FEWEST_IMAGES:
        return None
    laid_out = np.sort(sample(category_n[rows], np.zeros(0, np.int64), MOST_LAID_OUT))
    unit_nd = unit(features_nd[rows])
    if float(np.abs(unit_nd - unit_nd[0]).max()) == 0:
        return None
    places_m2 = embed(unit_nd[laid_out], n_steps=N_STEPS)
    places_n2 = np.empty((len(rows), 2))
    others = np.setdiff1d(np.arange(len(rows)), laid_out)
    places_n2[laid_out] = places_m2
    places_n2[others] = beside_nearest(unit_nd[others], unit_nd[laid_out], places_m2)
    return Map(rows, within_unit_square(places_n2), len(laid_out))


def embed(features_nd: NDArray[Any], *, n_steps: int = 1000) -> NDArray[np.float32]:
    """Return the t-SNE of the features at unit length, from their principal components, with a fixed seed."""
    from sklearn.manifold import TSNE

    unit_nd = unit(features_nd)
    perplexity = min(PERPLEXITY, (len(unit_nd) - 1) / 3)
    seed = derive(SEED, "t-SNE") % 2**32
    tsne = TSNE(init="pca", perplexity=perplexity, max_iter=n_steps, random_state=seed)
    map_n2: NDArray[np.float32] = tsne.fit_transform(unit_nd.astype(np.float64)).astype(np.float32)
    return map_n2


def unit(values_nd: NDArray[Any]) -> NDArray[Any]:
    """Return the rows at unit length; a row of zeros stays as it is."""
    norm_n1 = np.linalg.norm(values_nd, axis=1, keepdims=True)
    unit_nd: NDArray[Any] = values_nd / np.where(norm_n1 > 0, norm_n1, 1)
    return unit_nd


def sample(category_n: NDArray[np.int64], first: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most `most` rows: the wanted ones, then one of each category, a second one of each, and so on."""
    order = numpy_generator(SEED, "map").permutation(len(category_n))
    # The place of each image in the queue of its own category.
    by_category = order[np.argsort(category_n[order], kind="stable")]
    sizes = np.bincount(category_n)
    turn_n = np.empty(len(order), dtype=np.int64)
    turn_n[by_category] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn_n[first] = -1
    chosen: NDArray[np.int64] = np.sort(order[np.argsort(turn_n[order], kind="stable")][:most])
    return chosen


def beside_nearest(
    unit_bd: NDArray[np.float32], laid_out_md: NDArray[np.float32], places_m2: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return places for further images: the mean place of the most similar images that have one, by similarity."""
    n_nearest = min(N_NEAREST, len(laid_out_md))
    places_b2 = np.empty((len(unit_bd), 2))
    for start in range(0, len(unit_bd), MOST_LAID_OUT):
        similarity_bm = unit_bd[start : start + MOST_LAID_OUT] @ laid_out_md.T
        nearest_bj = np.argpartition(-similarity_bm, n_nearest - 1, axis=1)[:, :n_nearest]
        weight_bj = np.clip(np.take_along_axis(similarity_bm, nearest_bj, axis=1), 1e-6, None).astype(np.float64)
        weight_bj /= weight_bj.sum(axis=1, keepdims=True)
        places_b2[start : start + MOST_LAID_OUT] = np.einsum("bj,bjx->bx", weight_bj, places_m2[nearest_bj])
    return places_b2


def within_unit_square(places_n2: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the places moved and scaled, both axes alike, so that they fill the unit square from side to side."""
    low_2, high_2 = places_n2.min(axis=0), places_n2.max(axis=0)
    side = float((high_2 - low_2).max()) or 1.0
    centred: NDArray[np.float64] = (places_n2 - (low_2 + high_2) / 2) / side + 0.5
    return centred
