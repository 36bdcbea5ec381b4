"""From a request to its answer: reading under the lock, editing the right version, errors as JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from nngcd.core.errors import DataError, ResourceError, UserError
from nngcd.review.edit_log import ChangedElsewhereError
from nngcd.review.page import listing
from nngcd.review.page.desk import Desk, GoneError, ReadOnlyError, StaleError
from nngcd.review.page.learning import AlreadyLearningError
from nngcd.review.page.listing import JsonValues
from nngcd.review.page.log_words import log_lines
from nngcd.review.page.pictures import NoPictureError

STATUS = (
    (StaleError, 409), (ChangedElsewhereError, 409), (AlreadyLearningError, 409), (ReadOnlyError, 403),
    (GoneError, 410), (NoPictureError, 404),
    (ResourceError, 507), (DataError, 500), (UserError, 422),
)  # fmt: skip
Endpoint = Callable[[Request], Response]
AsyncEndpoint = Callable[[Request], Awaitable[Response]]


def reading(desk: Desk, answer: Callable[[Request], JsonValues]) -> Endpoint:
    """Return an endpoint that reads; Starlette runs it in a thread, so requests wait for each other here."""

    def endpoint(request: Request) -> Response:
        with desk.lock:
            desk.refresh()
            return JSONResponse({**answer(request), "version": desk.version})

    return endpoint


def editing(desk: Desk, change: Callable[[object], None]) -> AsyncEndpoint:
    """Return an endpoint that edits: when it answers, the edit is on the disk."""

    def locked(values: object) -> Response:
        with desk.lock:
            try:
                change(values)
            except (StaleError, ChangedElsewhereError) as error:
                desk.refresh()
                return JSONResponse({"error": str(error), "version": desk.version}, 409)
            facts = listing.run_facts(desk)
            lines = log_lines(desk.review.log.edits[-1:], desk.review.state)
            return JSONResponse({**facts, "words": lines[0]["words"] if lines else ""})

    return taking_json(locked)


def taking_json(answer: Callable[[object], Response]) -> AsyncEndpoint:
    """Return an endpoint that passes on what was sent as JSON, in a thread; an empty body is None."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body()
            values = json.loads(body) if body.strip() else None
        except (ValueError, RecursionError, ClientDisconnect):
            return JSONResponse({"error": "The request is not valid JSON."}, 400)
        return await run_in_threadpool(answer, values)

    return endpoint


def say_error(request: Request, error: Exception) -> Response:
    """Return a user error as JSON with the status of its kind."""
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return JSONResponse({"error": str(error)}, status)


def say_status(request: Request, error: Exception) -> Response:
    """Return an HTTP error as JSON."""
    status = getattr(error, "status_code", 500)
    return JSONResponse({"error": str(getattr(error, "detail", "")) or "The request failed."}, status)


def number(request: Request, name: str, default: int, *, most: int) -> int:
    """Return a number of the query, at most `most`."""
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise UserError(f"{name} '{text[:20]}': must be a whole number.")
    return min(int(text), most)


def part(request: Request, n: int) -> tuple[int, int]:
    """Return which part of a list is asked for: its offset and length."""
    return number(request, "offset", 0, most=10**9), number(request, "n", n, most=listing.MOST_AT_ONCE)
