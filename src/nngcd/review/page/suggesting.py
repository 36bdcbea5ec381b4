"""Questions worth a person's time: which categories may be the same, and which may be several things."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nngcd.results.suspicions import hidden_groups, mixed_categories
from nngcd.review.page.alike import alike_categories
from nngcd.review.page.desk import Desk
from nngcd.review.page.listing import image_facts, one_category
from nngcd.review.splitting import propose_parts
from nngcd.review.state import live_category

N_PICTURES = 12
MOST_PARTS = 4


def merges(desk: Desk, usual: float, offset: int, n: int) -> dict[str, Any]:
    """Return some of the pairs that may be one category, most alike first; those told apart are left out.

    Args:
        desk: the run.
        usual: what `Desk.usual_gain` returned before the lock was taken.
        offset: how many pairs to leave out.
        n: how many to return.
    """
    pairs = _remembered(desk, "merges", lambda desk: _pairs(desk, usual))
    items = [
        {
            "first": one_category(desk, first, N_PICTURES),
            "second": one_category(desk, second, N_PICTURES),
            "similarity": round(float(desk.index.centre(first) @ desk.index.centre(second)), 3),
        }
        for first, second in pairs[offset : offset + n]
    ]
    return {"total": len(pairs), "offset": offset, "items": items}


def splits(desk: Desk, offset: int, n: int) -> dict[str, Any]:
    """Return some of the categories that may be several things, and why; approved ones are left out."""
    found = _remembered(desk, "splits", _mixed)
    items = [{**one_category(desk, id_), "why": why} for id_, why in found[offset : offset + n]]
    return {"total": len(found), "offset": offset, "items": items}


def parts(desk: Desk, id_: str, n_parts: int | None) -> list[list[dict[str, Any]]]:
    """Return a proposal for a split: the images of each part.

    Args:
        desk: the run.
        id_: the category.
        n_parts: how many; None for the doubtful images of a known category against the rest, or two parts.
    """
    live_category(desk.review.state, id_)
    hidden = desk.review.propose_hidden(id_) if n_parts is None else []
    if hidden and all(hidden):
        found = [[desk.index.row_of[image] for image in part] for part in hidden]
    else:
        rows = desk.index.rows(id_)
        unit_md = torch.from_numpy(desk.index.features.of(rows))
        found = [rows[part].tolist() for part in propose_parts(unit_md, n_parts or 2)]
    return [[image_facts(desk, row) for row in part] for part in found]


def _remembered(desk: Desk, name: str, compute: Any) -> Any:  # noqa: ANN401 (what `compute` returns)
    """Return a list that is computed once for each version of the review."""
    version, found = desk.remembered.get(name, (-1, None))
    if version != desk.version:
        found = compute(desk)
        desk.remembered[name] = (desk.version, found)
    return found


def _pairs(desk: Desk, usual: float) -> list[tuple[str, str]]:
    """Return the pairs hardly further apart than halves of a known category, then those nearest to each other."""
    live = desk.review.state.live
    alike = [(pair.first, pair.second) for pair in alike_categories(desk.index, live, usual)]
    found = dict.fromkeys([*alike, *_mutual_nearest(desk)])
    return [(a, b) for a, b in found if b not in live[a].apart_from]


def _mutual_nearest(desk: Desk) -> list[tuple[str, str]]:
    """Return pairs of which each is the other's nearest, one of them new; the first id stands in front."""
    live = desk.review.state.live
    ids = [id_ for id_ in live if desk.index.size(id_)]
    if len(ids) < 2:
        return []
    centre_kd = desk.index.centres(ids)
    similarity_kk = centre_kd @ centre_kd.T
    np.fill_diagonal(similarity_kk, -np.inf)
    nearest_k = similarity_kk.argmax(axis=1)
    pairs = [(i, int(j)) for i, j in enumerate(nearest_k) if i < j and nearest_k[j] == i]
    pairs.sort(key=lambda pair: -similarity_kk[pair])
    named = [tuple(sorted((ids[i], ids[j]))) for i, j in pairs]
    return [(a, b) for a, b in named if "new" in (live[a].kind, live[b].kind)]


def _mixed(desk: Desk) -> list[tuple[str, str]]:
    live, table = desk.review.state.live, desk.undecided()
    known = [id_ for id_, category in live.items() if category.kind == "known"]
    open_ = {id_ for id_, category in live.items() if not category.is_approved}
    found = {group.category: "may hide another category" for group in hidden_groups(table, known)}
    found |= {mixed.category: "may mix several categories" for mixed in mixed_categories(table, known)}
    return [(id_, why) for id_, why in found.items() if id_ in open_ and desk.index.size(id_) > 1]
