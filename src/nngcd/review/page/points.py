"""The answers of the page about its map, as binary columns: all points once, then only those that an edit changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from nngcd.core.errors import UserError
from nngcd.review.page.answering import number
from nngcd.review.page.desk import Desk
from nngcd.review.page.places import Places, PlaceStore
from nngcd.review.page.unit_features import Ids

STATUSES = ("none", "known", "new", "unsure")
ALIGNMENT = 4
MOST_EDITS = 10**9


class MapAnswers:
    """All points of a run, and those that edits changed."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.places = PlaceStore(desk.run, desk.index.features, may_write=not desk.why_read_only)

    def points(self, request: Request) -> Response:
        """Return every image as a point (see `encoded`)."""
        places_n2 = self.places.get()  # seconds the first time, so nobody else waits for it
        with self.desk.lock:
            self.desk.refresh()
            made_of = f"{self.desk.version}/{list(self.desk.index.numbers)}/".encode() + places_n2[:64].tobytes()
            headers = {"ETag": f'"{hashlib.sha256(made_of).hexdigest()[:20]}"', "Cache-Control": "private, no-cache"}
            if request.headers.get("if-none-match") == headers["ETag"]:
                return Response(status_code=304, headers=headers)
            content = points(self.desk, places_n2)
        return Response(content, media_type="application/octet-stream", headers=headers)

    def changed(self, request: Request) -> Response:
        """Return the points that may have changed since a version of the review."""
        since = number(request, "version", 0, most=MOST_EDITS)
        with self.desk.lock:
            self.desk.refresh()
            content = changed_points(self.desk, since)
        return Response(content, media_type="application/octet-stream")


def points(desk: Desk, places_n2: Places) -> bytes:
    """Return every image as a point: place, category, confidence, status, whether it is reviewed, and its id.

    Called while nobody edits; see `encoded` for the form.
    """
    rows = np.arange(len(desk.index.ids))
    ids = np.array([image.encode() for image in desk.index.ids])
    columns = {
        "x": places_n2[:, 0].astype("<f4"), "y": places_n2[:, 1].astype("<f4"), **_of_rows(desk, rows),
        "confidence": desk.confidence_n.astype("<f4"), "id": ids,
    }  # fmt: skip
    order = ("x", "y", "category", "confidence", "status", "reviewed", "id")
    return encoded({name: columns[name] for name in order}, _facts(desk))


def changed_points(desk: Desk, since: int) -> bytes:
    """Return the row, category, status and review mark of each point that may have changed since a version."""
    if not 0 <= since <= desk.version:
        raise UserError(f"version {since}: must be from 0 to {desk.version}. Load the map again.")
    rows = np.zeros(len(desk.index.ids), dtype=bool)
    for edit in desk.review.log.edits[since:]:
        rows[[desk.index.row_of[image] for image in edit.before.images]] = True
        for id_ in edit.before.categories:
            rows[desk.index.rows(id_)] = True
    changed = np.flatnonzero(rows)
    return encoded({"row": changed.astype("<i4"), **_of_rows(desk, changed)}, _facts(desk))


def encoded(columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> bytes:
    """Return columns of one length as bytes, little-endian.

    The length of the header (uint32), the header (JSON with `n`, `columns` as pairs of name and type, and the facts,
    filled with spaces to a multiple of 4 bytes), then one column after the other, each filled with zeros to a multiple
    of 4 bytes. A type is float32, int32, uint8, or char16 for texts of 16 bytes that end at the first zero.
    """
    n = len(next(iter(columns.values())))
    names = [[name, _type_name(column)] for name, column in columns.items()]
    header = json.dumps({"n": n, "columns": names, **facts}, ensure_ascii=True).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    parts = [len(header).to_bytes(4, "little"), header]
    for column in columns.values():
        content = column.tobytes()
        parts += [content, b"\0" * (-len(content) % ALIGNMENT)]
    return b"".join(parts)


def _facts(desk: Desk) -> dict[str, Any]:
    return {"version": desk.version, "categories": list(desk.index.numbers), "statuses": STATUSES}


def _of_rows(desk: Desk, rows: Ids) -> dict[str, NDArray[Any]]:
    category_n, reviewed_n = desk.index.category_n[rows], desk.is_reviewed()[rows]
    kinds = [_kind(desk, id_) for id_ in desk.index.numbers]
    status_n = np.array([*kinds, STATUSES.index("none")], dtype=np.uint8)[category_n]  # -1: the last, in no category
    status_n[desk.is_unsure_n[rows] & ~reviewed_n & (category_n >= 0)] = STATUSES.index("unsure")
    return {"category": category_n.astype("<i4"), "status": status_n, "reviewed": reviewed_n.astype(np.uint8)}


def _kind(desk: Desk, id_: str) -> int:
    category = desk.review.state.categories.get(id_)  # None: a category whose making was undone
    return STATUSES.index("none" if category is None else category.kind)


def _type_name(column: NDArray[Any]) -> str:
    if column.dtype.kind == "S":
        return f"char{column.dtype.itemsize}"
    return {"<f4": "float32", "<i4": "int32", "|u1": "uint8"}[column.dtype.str]
