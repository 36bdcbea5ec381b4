"""The web application: which address gives what. Every answer is JSON, a picture, or one of our own files."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nngcd.core.errors import DataError, ResourceError, UserError
from nngcd.review.edit_log import ChangedElsewhereError
from nngcd.review.page import listing, suggesting
from nngcd.review.page.desk import Desk, GoneError, ReadOnlyError, StaleError
from nngcd.review.page.editing import Edits, Undo, do, parse
from nngcd.review.page.index import Ids
from nngcd.review.page.listing import JsonValues
from nngcd.review.page.log_words import log_lines
from nngcd.review.page.pictures import SIZES, NoPictureError, PictureStore
from nngcd.review.page.safety import Door, Guard

ASSET_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds until a window learns that another one, or another program, has changed something."""
STATUS = (
    (StaleError, 409), (ChangedElsewhereError, 409), (ReadOnlyError, 403), (GoneError, 410), (NoPictureError, 404),
    (ResourceError, 507), (DataError, 500), (UserError, 422),
)  # fmt: skip


class ReviewPage:
    """The answers, for one run.

    Args:
        desk: the run.
        pictures: its images.
        door: who may ask.
    """

    def __init__(self, desk: Desk, pictures: PictureStore, door: Door) -> None:
        self.desk, self.pictures, self.door = desk, pictures, door
        self.is_closing = False

    def app(self) -> Starlette:
        """Return the web application."""
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/", self.home, methods=get),
            Route("/assets/{name}", self.asset, methods=get),
            Route("/img/{image}", self.picture, methods=get),
            Route("/api/run", self._locked(self.run), methods=get),
            Route("/api/categories", self._locked(self.categories), methods=get),
            Route("/api/categories/{id}", self._locked(self.category), methods=get),
            Route("/api/categories/{id}/images", self._locked(self.images), methods=get),
            Route("/api/categories/{id}/nearest", self._locked(self.nearest), methods=get),
            Route("/api/categories/{id}/parts", self._locked(self.parts), methods=get),
            Route("/api/suggestions", self._locked(self.suggestions), methods=get),
            Route("/api/unsure", self._locked(self.unsure), methods=get),
            Route("/api/similar/{image}", self._locked(self.similar), methods=get),
            Route("/api/log", self._locked(self.log), methods=get),
            Route("/api/events", self.events, methods=get),
            Route("/api/edits", self._changing(self.edit), methods=post),
            Route("/api/undo", self._changing(self.undo), methods=post),
            Route("/api/redo", self._changing(self.redo), methods=post),
        ]
        handlers: Any = {UserError: _say_error, HTTPException: _say_status}
        return Starlette(routes=routes, middleware=[Middleware(Guard, door=self.door)], exception_handlers=handlers)

    def home(self, request: Request) -> Response:
        """Return the page; whoever opens it with the token gets the cookie."""
        response = Response(_asset("index.html"), media_type="text/html")
        response.set_cookie(self.door.cookie, self.door.token, httponly=True, samesite="strict")
        return response

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
        if row is None or size not in SIZES:
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
        offset, n = _part(request, 50)
        n_typical = _number(request, "typical", 4, most=listing.N_TYPICAL)
        items = [listing.with_typical(self.desk, facts, n_typical) for facts in found[offset : offset + n]]
        return {"total": len(found), "offset": offset, "items": items}

    def category(self, request: Request) -> JsonValues:
        """Return one category."""
        return listing.one_category(self.desk, request.path_params["id"])

    def images(self, request: Request) -> JsonValues:
        """Return a part of a category's images."""
        rows = listing.images_of(self.desk, request.path_params["id"], request.query_params.get("order", "doubtful"))
        return self._image_part(rows, *_part(request, 120))

    def nearest(self, request: Request) -> JsonValues:
        """Return the most similar categories."""
        return listing.nearest(self.desk, request.path_params["id"])

    def parts(self, request: Request) -> JsonValues:
        """Return a proposal for a split."""
        n = _number(request, "n", 0, most=suggesting.MOST_PARTS)
        return {"parts": suggesting.parts(self.desk, request.path_params["id"], n or None)}

    def suggestions(self, request: Request) -> JsonValues:
        """Return the merges or splits that are worth a look."""
        kind = request.query_params.get("kind", "merge")
        if kind not in ("merge", "split"):
            raise UserError(f"kind '{kind}': must be merge or split.")
        suggest = suggesting.merges if kind == "merge" else suggesting.splits
        return suggest(self.desk, *_part(request, 10))

    def unsure(self, request: Request) -> JsonValues:
        """Return a part of the unsure images, each with its best categories."""
        rows, (offset, n) = listing.unsure_rows(self.desk), _part(request, 10)
        items = [
            {**listing.image_facts(self.desk, row), "choices": listing.choices(self.desk, row)}
            for row in rows[offset : offset + n].tolist()
        ]
        return {"total": len(rows), "offset": offset, "items": items}

    def similar(self, request: Request) -> JsonValues:
        """Return the images most similar to one."""
        offset, n = _part(request, 60)
        return self._image_part(listing.similar_rows(self.desk, request.path_params["image"], offset + n), offset, n)

    def log(self, request: Request) -> JsonValues:
        """Return a part of the log, newest first."""
        lines, (offset, n) = log_lines(self.desk.review.log.edits, self.desk.review.state), _part(request, 100)
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
        """Do again what was taken back."""
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

    def _locked(self, answer: Callable[[Request], JsonValues]) -> Callable[[Request], Response]:
        """Return an endpoint that reads; Starlette runs it in a thread, so requests wait for each other here."""

        def endpoint(request: Request) -> Response:
            with self.desk.lock:
                self.desk.refresh()
                return JSONResponse({**answer(request), "version": self.desk.version})

        return endpoint

    def _changing(self, change: Callable[[object], None]) -> Callable[[Request], Any]:
        """Return an endpoint that edits: when it answers, the edit is on the disk."""

        def locked(values: object) -> Response:
            with self.desk.lock:
                try:
                    change(values)
                except (StaleError, ChangedElsewhereError) as error:
                    self.desk.refresh()
                    return JSONResponse({"error": str(error), "version": self.desk.version}, 409)
                facts = listing.run_facts(self.desk)
                lines = log_lines(self.desk.review.log.edits[-1:], self.desk.review.state)
                return JSONResponse({**facts, "words": lines[0]["words"] if lines else ""})

        async def endpoint(request: Request) -> Response:
            try:
                values = json.loads(await request.body())
            except (ValueError, RecursionError, ClientDisconnect):
                return JSONResponse({"error": "The request is not valid JSON."}, 400)
            return await run_in_threadpool(locked, values)

        return endpoint


def _asset(name: str) -> bytes:
    return files(__package__).joinpath("assets", name).read_bytes()


def _say_error(request: Request, error: Exception) -> Response:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return JSONResponse({"error": str(error)}, status)


def _say_status(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return JSONResponse({"error": str(getattr(error, "detail", "")) or "The request failed."}, status)


def _number(request: Request, name: str, default: int, *, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise UserError(f"{name} '{text[:20]}': must be a whole number.")
    return min(int(text), most)


def _part(request: Request, n: int) -> tuple[int, int]:
    return _number(request, "offset", 0, most=10**9), _number(request, "n", n, most=listing.MOST_AT_ONCE)
