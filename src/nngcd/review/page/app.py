"""The web application: which address gives what. Every answer is JSON, a picture, or one of our own files."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from importlib.resources import files
from threading import Timer
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nngcd.core.errors import UserError
from nngcd.review.page import listing, suggesting
from nngcd.review.page.answering import editing, number, part, reading, say_error, say_status, taking_json
from nngcd.review.page.desk import Desk
from nngcd.review.page.editing import Edits, Undo, do, parse
from nngcd.review.page.learn_answers import LearnAnswers
from nngcd.review.page.listing import JsonValues
from nngcd.review.page.log_words import log_lines
from nngcd.review.page.pictures import SIZES, PictureStore
from nngcd.review.page.points import MapAnswers
from nngcd.review.page.safety import Door, Guard
from nngcd.review.page.unit_features import Ids

ASSET_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LARGE, SECONDS_BEFORE_PREPARING = 10_000, 2.0
"""Images from which the map is made before it is asked for, and seconds from the opening of the page until then."""
SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds until a window learns that another one, or another program, has changed something."""


class ReviewPage:
    """The answers, for one run."""

    def __init__(self, desk: Desk, pictures: PictureStore, door: Door) -> None:
        self.desk, self.pictures, self.door = desk, pictures, door
        self.map, self.lessons = MapAnswers(desk), LearnAnswers(desk)
        self.is_closing = False
        self._preparing: Timer | None = None

    def app(self) -> Starlette:
        """Return the web application."""
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/", self.home, methods=get),
            Route("/assets/{name}", self.asset, methods=get),
            Route("/img/{image}", self.picture, methods=get),
            Route("/api/run", reading(self.desk, self.run), methods=get),
            Route("/api/categories", reading(self.desk, self.categories), methods=get),
            Route("/api/categories/{id}", reading(self.desk, self.category), methods=get),
            Route("/api/categories/{id}/images", reading(self.desk, self.images), methods=get),
            Route("/api/categories/{id}/screen", reading(self.desk, self.screen), methods=get),
            Route("/api/categories/{id}/nearest", reading(self.desk, self.nearest), methods=get),
            Route("/api/categories/{id}/parts", reading(self.desk, self.parts), methods=get),
            Route("/api/suggestions", self.suggestions, methods=get),
            Route("/api/unsure", reading(self.desk, self.unsure), methods=get),
            Route("/api/similar/{image}", reading(self.desk, self.similar), methods=get),
            Route("/api/images", reading(self.desk, self.chosen_images), methods=get),
            Route("/api/points.bin", self.map.points, methods=get),
            Route("/api/points/categories.bin", self.map.changed, methods=get),
            Route("/api/learn", self.lessons.look, methods=get),
            Route("/api/learn", taking_json(self.lessons.start), methods=post),
            Route("/api/learn", taking_json(self.lessons.stop), methods=["DELETE"]),
            Route("/api/log", reading(self.desk, self.log), methods=get),
            Route("/api/events", self.events, methods=get),
            Route("/api/edits", editing(self.desk, self.edit), methods=post),
            Route("/api/undo", editing(self.desk, self.undo), methods=post),
            Route("/api/redo", editing(self.desk, self.redo), methods=post),
        ]
        handlers: Any = {UserError: say_error, HTTPException: say_status}
        return Starlette(routes=routes, middleware=[Middleware(Guard, door=self.door)], exception_handlers=handlers)

    def home(self, request: Request) -> Response:
        """Return the page; whoever opens it with the token gets the cookie."""
        self._prepare_later()
        response = Response(_asset("index.html"), media_type="text/html")
        response.set_cookie(self.door.cookie, self.door.token, httponly=True, samesite="strict")
        return response

    def _prepare_later(self) -> None:
        """Begin with the map of a large run, once and after the first screen, before anybody asks for it."""
        if self._preparing is None and len(self.desk.index.ids) >= LARGE:
            self._preparing = Timer(SECONDS_BEFORE_PREPARING, self.map.places.begin)
            self._preparing.daemon = True
            self._preparing.start()

    def close(self) -> None:
        """End the processes that the page has started."""
        if self._preparing is not None:
            self._preparing.cancel()
        self.map.places.close()
        self.lessons.learning.stop()

    def asset(self, request: Request) -> Response:
        """Return a script or style sheet, by its name in the folder of assets."""
        name = request.path_params["name"]
        media_type = ASSET_TYPES.get("." + name.rpartition(".")[2])
        if media_type is None or name not in {path.name for path in files(__package__).joinpath("assets").iterdir()}:
            raise HTTPException(404, f"File '{name}' not found.")
        return Response(_asset(name), media_type=media_type)

    def picture(self, request: Request) -> Response:
        """Return a picture of an image, by the image's id."""
        image, size = request.path_params["image"], request.query_params.get("s", "128")
        row = self.desk.index.row_of.get(image)
        if row is None:
            raise HTTPException(404, "This run has no such image.")
        if size not in SIZES:
            raise HTTPException(404, f"Unknown picture size. Choose from {', '.join(SIZES)}.")
        # The id is a hash of the content, so a picture never changes.
        etag = f'"{hashlib.sha256(f"{image}/{size}".encode()).hexdigest()[:20]}"'
        headers = {"ETag": etag, "Cache-Control": "private, max-age=86400"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(self.pictures.jpeg(row, size), media_type="image/jpeg", headers=headers)

    def run(self, request: Request) -> JsonValues:
        """Return progress and what is possible."""
        return {**listing.run_facts(self.desk), "why_no_pictures": self.pictures.why_none}

    def categories(self, request: Request) -> JsonValues:
        """Return a part of the categories, sorted and filtered."""
        asked = request.query_params
        found = listing.categories(
            self.desk, sort=asked.get("sort", "queue"), kind=asked.get("kind", "all"),
            status=asked.get("status", "all"), text=asked.get("q", ""),
        )  # fmt: skip
        if "id" in asked:  # perhaps retired by now, which is no error here
            found = [facts for facts in found if facts["id"] == asked["id"]]
        offset, n = part(request, 50)
        n_typical = number(request, "typical", 4, most=listing.N_TYPICAL)
        items = [listing.with_typical(self.desk, facts, n_typical) for facts in found[offset : offset + n]]
        return {"total": len(found), "offset": offset, "items": items}

    def category(self, request: Request) -> JsonValues:
        """Return one category."""
        return listing.one_category(self.desk, request.path_params["id"])

    def images(self, request: Request) -> JsonValues:
        """Return a part of a category's images."""
        rows = listing.images_of(self.desk, request.path_params["id"], request.query_params.get("order", "doubtful"))
        return self._image_part(rows, *part(request, 120))

    def screen(self, request: Request) -> JsonValues:
        """Return all that the queue shows of a category, which is null where it is retired or holds no images."""
        id_ = request.path_params["id"]
        category = self.desk.review.state.live.get(id_)
        if category is None or not self.desk.index.size(id_):
            return {"category": None}
        rows = listing.images_of(self.desk, id_, "doubtful")
        return {
            "category": listing.one_category(self.desk, id_),
            "images": self._image_part(rows, *part(request, 120)),
            "nearest": listing.nearest(self.desk, id_),
        }

    def nearest(self, request: Request) -> JsonValues:
        """Return the most similar categories."""
        return listing.nearest(self.desk, request.path_params["id"])

    def parts(self, request: Request) -> JsonValues:
        """Return a proposal for a split."""
        n = number(request, "n", 0, most=suggesting.MOST_PARTS)
        return {"parts": suggesting.parts(self.desk, request.path_params["id"], n or None)}

    def suggestions(self, request: Request) -> Response:
        """Return the merges or splits that are worth a look."""
        kind = request.query_params.get("kind", "merge")
        if kind == "split":
            return reading(self.desk, lambda asked: suggesting.splits(self.desk, *part(asked, 10)))(request)
        if kind != "merge":
            raise UserError(f"kind '{kind}': must be merge or split.")
        usual = self.desk.usual_gain()  # a moment the first time, so nobody else waits for it
        return reading(self.desk, lambda asked: suggesting.merges(self.desk, usual, *part(asked, 10)))(request)

    def unsure(self, request: Request) -> JsonValues:
        """Return a part of the images worth a question, each with its best categories; the unsure ones come first."""
        rows, (offset, n) = listing.next_rows(self.desk), part(request, 10)
        items = [
            {**listing.image_facts(self.desk, row), "choices": listing.choices(self.desk, row)}
            for row in rows[offset : offset + n].tolist()
        ]
        return {"total": len(rows), "offset": offset, "items": items}

    def similar(self, request: Request) -> JsonValues:
        """Return the images most similar to one."""
        offset, n = part(request, 60)
        return self._image_part(listing.similar_rows(self.desk, request.path_params["image"], offset + n), offset, n)

    def chosen_images(self, request: Request) -> JsonValues:
        """Return the images of some ids (`?id=a&id=b`), for example those chosen on the map."""
        asked = request.query_params.getlist("id")[: listing.MOST_AT_ONCE]
        rows = [self.desk.index.row_of[image] for image in asked if image in self.desk.index.row_of]
        return self._image_part(np.array(rows, dtype=np.int64), 0, len(rows))

    def log(self, request: Request) -> JsonValues:
        """Return a part of the log, newest first."""
        lines, (offset, n) = log_lines(self.desk.review.log.edits, self.desk.review.state), part(request, 100)
        return {"total": len(lines), "offset": offset, "items": lines[offset : offset + n]}

    def edit(self, values: object) -> None:
        """Do one edit."""
        edits: Edits = parse(Edits, values)
        with self.desk.editing(edits.version) as review:
            do(review, edits)

    def undo(self, values: object) -> None:
        """Take back the last edits."""
        undo: Undo = parse(Undo, values)
        with self.desk.editing(undo.version) as review:
            for _ in range(undo.n):
                review.undo()

    def redo(self, values: object) -> None:
        """Redo what was undone."""
        redo: Undo = parse(Undo, values)
        with self.desk.editing(redo.version) as review:
            for _ in range(redo.n):
                review.redo()

    async def events(self, request: Request) -> Response:
        """Return a stream that tells of every new version."""
        return StreamingResponse(self._versions(), media_type="text/event-stream")

    async def _versions(self) -> AsyncIterator[str]:
        told = -1
        while not self.is_closing:
            version = await run_in_threadpool(self._version_now)
            if version != told:
                told = version
                yield f"data: {json.dumps({'version': version})}\n\n"
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def _version_now(self) -> int:
        with self.desk.lock:
            try:
                self.desk.refresh()
            except UserError:  # the next request says what is wrong
                return self.desk.version
            return self.desk.version

    def _image_part(self, rows: Ids, offset: int, n: int) -> JsonValues:
        items = [listing.image_facts(self.desk, row) for row in rows[offset : offset + n].tolist()]
        return {"total": len(rows), "offset": offset, "items": items}


def _asset(name: str) -> bytes:
    return files(__package__).joinpath("assets", name).read_bytes()
