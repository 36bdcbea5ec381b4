"""The answers of the page about its map."""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

from nngcd.review.page.answering import number
from nngcd.review.page.desk import Desk
from nngcd.review.page.places import PlaceStore
from nngcd.review.page.points import changed_points, points

MOST_EDITS = 10**9


class MapAnswers:
    """All points of a run, and those that edits changed.

    Args:
        desk: the run.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.places = PlaceStore(desk.run, desk.index.features, may_write=not desk.why_read_only)

    def points(self, request: Request) -> Response:
        """Return every image as a point (see `points.encoded`)."""
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
