"""Lists of the page: categories, their images, their neighbours, unsure images and similar ones, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import UserError
from nngcd.review.page.desk import Desk
from nngcd.review.page.unit_features import Floats, Ids
from nngcd.review.state import Category, live_category

N_TYPICAL = 9
N_NEAREST = 3
N_CHOICES = 3
MOST_AT_ONCE = 400
"""Images or categories in one answer."""

JsonValues = dict[str, Any]
SORTS: dict[str, Callable[[JsonValues], Any]] = {
    "queue": lambda facts: (facts["is_approved"], facts["kind"] != "new", -facts["gain"]),
    "size": lambda facts: -facts["size"],
    "name": lambda facts: str(facts["name"]).casefold(),
    "confidence": lambda facts: facts["confidence"] if facts["confidence"] is not None else 2.0,
}


def run_facts(desk: Desk) -> JsonValues:
    """Return what the top of the page says: progress, what can be undone, whether edits are possible."""
    live = _filled(desk)
    is_open_n = ~desk.is_labelled_n
    return {
        "title": desk.run.path.resolve().name,
        "version": desk.version,
        "why_read_only": desk.why_read_only,
        "n_images": int(is_open_n.sum()),
        "n_images_reviewed": int((is_open_n & desk.is_reviewed()).sum()),
        "n_categories": len(live),
        "n_categories_reviewed": sum(category.is_approved for category in live.values()),
        "n_unsure": len(unsure_rows(desk)),
        "can_undo": desk.review.can_undo,
        "can_redo": desk.review.can_redo,
    }


def categories(desk: Desk, *, sort: str, kind: str, status: str, text: str) -> list[JsonValues]:
    """Return the categories that hold images, filtered and sorted.

    Args:
        desk: the run.
        sort: one of `SORTS`.
        kind: `known`, `new` or `all`.
        status: `open` (not approved), `approved` or `all`.
        text: what id or name must contain.
    """
    if sort not in SORTS:
        raise UserError(f"sort '{sort}': must be one of {', '.join(SORTS)}.")
    wanted, is_approved = text.strip().casefold(), {"open": False, "approved": True}.get(status)
    found = [
        category_facts(desk, id_, category)
        for id_, category in _filled(desk).items()
        if kind in ("all", category.kind)
        and is_approved in (None, category.is_approved)
        and (wanted in category.name.casefold() or wanted in id_.casefold())
    ]
    return sorted(found, key=lambda facts: (SORTS[sort](facts), facts["id"]))


def category_facts(desk: Desk, id_: str, category: Category) -> JsonValues:
    """Return the numbers of a category."""
    rows = desk.index.rows(id_)
    open_rows = rows[~desk.is_labelled_n[rows]]
    confidence = desk.confidence_n[open_rows]
    known = confidence[~np.isnan(confidence)]
    return {
        "id": id_,
        "name": category.name,
        "kind": category.kind,
        "is_approved": category.is_approved,
        "size": len(rows),
        "n_labelled": len(rows) - len(open_rows),
        "n_unsure": int((desk.is_unsure_n[rows] & ~desk.index.is_decided_n[rows]).sum()),
        "confidence": round(float(known.mean()), 4) if len(known) else None,
        # How many images one approval is expected to settle rightly.
        "gain": round(float(known.sum()), 2),
    }


def with_typical(desk: Desk, facts: JsonValues, n: int = N_TYPICAL) -> JsonValues:
    """Return the facts with the ids of the images nearest to the centre."""
    if not n:
        return {**facts, "typical": []}
    rows, similarity_n = desk.index.to_centre(facts["id"])
    return {**facts, "typical": [desk.index.ids[row] for row in rows[np.argsort(-similarity_n, kind="stable")[:n]]]}


def one_category(desk: Desk, id_: str, n_typical: int = N_TYPICAL) -> JsonValues:
    """Return the facts of one category, typical images included."""
    return with_typical(desk, category_facts(desk, id_, live_category(desk.review.state, id_)), n_typical)


def images_of(desk: Desk, id_: str, order: str) -> Ids:
    """Return a category's rows: the doubtful first, the typical first, or in the order of the run."""
    live_category(desk.review.state, id_)
    if order == "run":
        return desk.index.rows(id_)
    rows, similarity_n = desk.index.to_centre(id_)
    if order == "typical":
        return rows[np.argsort(-similarity_n, kind="stable")]
    if order != "doubtful":
        raise UserError(f"order '{order}': must be doubtful, typical or run.")
    # A label that was given, or a person's own decision, is not in doubt.
    is_settled = desk.is_labelled_n[rows] | desk.index.is_decided_n[rows]
    return rows[np.lexsort((similarity_n, np.nan_to_num(desk.confidence_n[rows], nan=1.0), is_settled))]


def image_facts(desk: Desk, row: int) -> JsonValues:
    """Return what is said of one image."""
    confidence = desk.confidence_n[row]
    category = desk.review.state.images[desk.index.ids[row]].category
    return {
        "id": desk.index.ids[row],
        "file_name": desk.file_names[row],
        "confidence": None if np.isnan(confidence) else round(float(confidence), 4),
        "is_unsure": bool(desk.is_unsure_n[row]),
        "is_decided": bool(desk.index.is_decided_n[row]),
        "label_given": desk.labels_given[row],
        "category": category,
        "name": None if category is None else desk.review.state.categories[category].name,
    }


def nearest(desk: Desk, id_: str) -> dict[str, list[JsonValues]]:
    """Return the most similar known and new categories, each with pictures and the similarity of the centres."""
    live_category(desk.review.state, id_)
    found: dict[str, list[JsonValues]] = {}
    for kind in ("known", "new"):
        others = [other for other, category in _filled(desk).items() if category.kind == kind and other != id_]
        found[kind] = _most_similar(desk, desk.index.centre(id_), others, N_NEAREST)
    return found


def unsure_rows(desk: Desk) -> Ids:
    """Return the rows a model was unsure of and no person has decided about."""
    return np.flatnonzero(desk.is_unsure_n & ~desk.is_reviewed() & (desk.index.category_n >= 0))


def next_rows(desk: Desk) -> Ids:
    """Return the rows worth a question: those the model was unsure of, then the others; the most doubtful first.

    An image is in doubt if the model has little confidence in its category, and if it is far from the centre of that
    category as it has been corrected so far. Both count alike, by their ranks (docs/results/review.md).
    """
    is_open_n = ~desk.is_labelled_n & ~desk.is_reviewed() & (desk.index.category_n >= 0)
    rows = np.flatnonzero(is_open_n)
    sureness_m = _rank(np.nan_to_num(desk.confidence_n[rows], nan=1.0)) + _rank(desk.index.to_own_centre()[rows])
    return rows[np.lexsort((sureness_m, ~desk.is_unsure_n[rows]))]


def choices(desk: Desk, row: int) -> list[JsonValues]:
    """Return the best categories of an image: where it is, the model's alternatives, then the most similar ones."""
    state, results = desk.review.state, desk.review.results
    alternatives = [str(results[name].iat[row]) for name in ("alt_1", "alt_2", "alt_3") if name in results.columns]
    here = state.images[desk.index.ids[row]].category
    named = [here] if here else []
    named += [now for id_ in alternatives if id_ in state.categories for now in state.became(id_)]
    filled = _filled(desk)
    best = [id_ for id_ in dict.fromkeys(named) if id_ in filled][:N_CHOICES]
    if len(best) < N_CHOICES:
        others = [id_ for id_ in filled if id_ not in best]
        (feature,) = desk.index.features.of(np.array([row]))
        best += [facts["id"] for facts in _most_similar(desk, feature, others, N_CHOICES - len(best))]
    return [one_category(desk, id_, 4) for id_ in best]


def similar_rows(desk: Desk, image: str, n: int) -> Ids:
    """Return the rows of the images most similar to one, which comes first itself."""
    if image not in desk.index.row_of:
        raise UserError(f"no image '{image}' in this run.")
    row = desk.index.row_of[image]
    (feature,) = desk.index.features.of(np.array([row]))
    similarity_n = desk.index.features.similarity_of_all(feature)
    similarity_n[row] = np.inf
    n = min(n, len(similarity_n))
    best = np.argpartition(-similarity_n, n - 1)[:n]
    return best[np.lexsort((best, -similarity_n[best]))]


def _filled(desk: Desk) -> dict[str, Category]:
    """Return the categories that hold images."""
    return {id_: category for id_, category in desk.review.state.live.items() if desk.index.size(id_)}


def _most_similar(desk: Desk, to: Floats, others: Sequence[str], n: int) -> list[JsonValues]:
    if not others:
        return []
    similarity_k = desk.index.centres(list(others)) @ to
    best = np.argsort(-similarity_k, kind="stable")[:n]
    return [
        {**one_category(desk, others[at], 4), "similarity": round(float(similarity_k[at]), 3)} for at in best.tolist()
    ]


def _rank(values_m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the place of each value among all; equal values share the mean of their places."""
    _, inverse_m, n_k = np.unique(values_m, return_inverse=True, return_counts=True)
    last_k = np.cumsum(n_k)
    rank_m: NDArray[np.float64] = (last_k - (n_k - 1) / 2)[inverse_m]
    return rank_m
