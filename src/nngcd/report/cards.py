"""The facts on a category's card: size, cohesion, what it resembles, its typical and its doubtful images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nngcd.report.findings import Findings
from nngcd.results.map import unit

ROWS_PER_BLOCK = 8192
MOST_CARDS = 1000
"""More categories are not shown one by one; the page says how many were left out."""
MOST_OF_EACH = 6
"""Typical images on a card, and doubtful ones, unless the limit of thumbnails is lower."""
N_NEIGHBOURS = 2

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Sums over the images of K categories, from one pass."""

    size_k: Ids
    sum_kd: Floats
    """Sum of the features at unit length."""
    square_k: Floats
    """Sum of their squared lengths: the size, less the features that are zero."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another category, and the cosine similarity of the two centres."""

    category: int
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One category; `category` is its row in the table of categories."""

    category: int
    size: int
    n_labelled: int
    n_unsure: int
    n_label_errors: int
    median_confidence: float | None
    """Over the unlabelled images; None when there are none."""
    cohesion: float | None
    """Mean cosine similarity of two different images; None with fewer than two images."""
    nearest_known: tuple[Neighbour, ...]
    nearest_new: tuple[Neighbour, ...]
    typical: tuple[int, ...]
    """Rows of images nearest to the centre."""
    doubtful: tuple[int, ...]
    """Rows of other images: possible label errors first, then by rising confidence."""


def group(features_nd: NDArray[np.float32], category_n: Ids, n_categories: int) -> Groups:
    """Return sizes and sums of the categories, without a second copy of the features."""
    sum_kd, square_k = np.zeros((n_categories, features_nd.shape[1])), np.zeros(n_categories)
    for start in range(0, len(features_nd), ROWS_PER_BLOCK):
        category_b = category_n[start : start + ROWS_PER_BLOCK]
        unit_bd = unit(features_nd[start : start + ROWS_PER_BLOCK]).astype(np.float64)
        places = np.arange(len(category_b) + 1)
        is_in_bk = csr_array((np.ones(len(category_b)), category_b, places), shape=(len(category_b), n_categories))
        sum_kd += np.asarray(is_in_bk.T @ unit_bd)
        square_k += np.bincount(category_b, np.square(unit_bd).sum(axis=1), minlength=n_categories)
    return Groups(np.bincount(category_n, minlength=n_categories), sum_kd, square_k)


def cohesions(groups: Groups) -> Floats:
    """Return the mean cosine similarity of two different images of each category; nan with fewer than two images."""
    n_pairs_k = groups.size_k * (groups.size_k - 1.0)
    total_k = np.square(groups.sum_kd).sum(axis=1) - groups.square_k
    cohesion_k: Floats = np.divide(total_k, n_pairs_k, out=np.full(len(n_pairs_k), np.nan), where=n_pairs_k > 0)
    return cohesion_k


def similarity_to_centre(features_nd: NDArray[np.float32], category_n: Ids, groups: Groups) -> Floats:
    """Return (n,) the cosine similarity of each image to the centre of its own category."""
    centre_kd = unit(groups.sum_kd)
    parts = [
        np.einsum("bd,bd->b", unit(features_nd[start : start + ROWS_PER_BLOCK]),
                  centre_kd[category_n[start : start + ROWS_PER_BLOCK]])
        for start in range(0, len(features_nd), ROWS_PER_BLOCK)
    ]  # fmt: skip
    return np.concatenate(parts) if parts else np.zeros(0)


def nearest(similarity_kk: Floats, category: int, is_allowed_k: NDArray[np.bool_]) -> tuple[Neighbour, ...]:
    """Return the most similar of the allowed other categories, most similar first."""
    others = np.flatnonzero(is_allowed_k)
    others = others[others != category]
    order = others[np.argsort(-similarity_kk[category, others], kind="stable")][:N_NEIGHBOURS]
    return tuple(Neighbour(int(other), float(similarity_kk[category, other])) for other in order)


def typical_rows(rows: Ids, similarity_n: Floats, is_unsure_n: NDArray[np.bool_], n: int) -> Ids:
    """Return the `n` rows of a category nearest to its centre; those that are unsure come last."""
    order: Ids = rows[np.lexsort((-similarity_n[rows], is_unsure_n[rows]))][:n]
    return order


def doubtful_rows(rows: Ids, confidence_n: Floats, is_error_n: NDArray[np.bool_], n: int) -> Ids:
    """Return the `n` rows that most deserve a look: possible label errors first, then by rising confidence."""
    order: Ids = rows[np.lexsort((confidence_n[rows], ~is_error_n[rows]))][:n]
    return order


def images_per_card(n_cards: int, max_images: int) -> tuple[int, int]:
    """Return how many typical and how many doubtful images each card may show, the typical ones first."""
    n_each = min(2 * MOST_OF_EACH, max_images // max(n_cards, 1))
    return (n_each + 1) // 2, n_each // 2


def card_order(findings: Findings, size_k: Ids) -> Ids:
    """Return the categories that get a card: new ones first, then by falling size; empty new ones get none."""
    is_new_k = (findings.categories["kind"] == "new").to_numpy(dtype=bool)
    shown = np.flatnonzero((size_k > 0) | ~is_new_k)
    order: Ids = shown[np.lexsort((-size_k[shown], ~is_new_k[shown]))]
    return order


def make_cards(findings: Findings, *, max_images: int) -> list[Card]:
    """Return the cards, new categories first, each part by falling size.

    Args:
        findings: the run.
        max_images: how many thumbnails there may be on all cards together.
    """
    category_n, n_categories = findings.category_n, len(findings.categories)
    groups = group(findings.features_nd, category_n, n_categories)
    order = card_order(findings, groups.size_k)[:MOST_CARDS]
    n_typical, n_doubtful = images_per_card(len(order), max_images)
    is_unsure_n = (findings.results["status"] == "unsure").to_numpy(dtype=bool)
    is_error_n = findings.results["possible_label_error"].to_numpy(dtype=bool)
    is_labelled_n, confidence_n = findings.is_labelled_n, findings.results["confidence"].to_numpy(dtype=np.float64)
    similarity_n = similarity_to_centre(findings.features_nd, category_n, groups)
    cohesion_k, centre_kd = cohesions(groups), unit(groups.sum_kd)
    similarity_kk = centre_kd @ centre_kd.T
    is_known_k, is_used_k = (findings.categories["kind"] == "known").to_numpy(dtype=bool), groups.size_k > 0
    by_category = np.split(np.argsort(category_n, kind="stable"), np.cumsum(groups.size_k)[:-1])
    cards = []
    for category in order:
        rows = by_category[category]
        typical = typical_rows(rows, similarity_n, is_unsure_n, n_typical)
        # A label that was given is not doubtful, unless it looks like a mistake.
        others = rows[(~is_labelled_n[rows] | is_error_n[rows]) & ~np.isin(rows, typical)]
        doubtful = doubtful_rows(others, confidence_n, is_error_n, n_doubtful)
        free = confidence_n[rows[~is_labelled_n[rows]]]
        cards.append(
            Card(
                category=int(category),
                size=len(rows),
                n_labelled=int(is_labelled_n[rows].sum()),
                n_unsure=int(is_unsure_n[rows].sum()),
                n_label_errors=int(is_error_n[rows].sum()),
                median_confidence=float(np.median(free)) if len(free) else None,
                cohesion=None if np.isnan(cohesion_k[category]) else float(cohesion_k[category]),
                nearest_known=nearest(similarity_kk, category, is_known_k & is_used_k) if len(rows) else (),
                nearest_new=nearest(similarity_kk, category, ~is_known_k & is_used_k) if len(rows) else (),
                typical=tuple(typical.tolist()),
                doubtful=tuple(doubtful.tolist()),
            )
        )
    return cards
