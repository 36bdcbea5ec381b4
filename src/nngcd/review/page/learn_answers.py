"""The answers of the page about learning from the review."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nngcd.core.errors import UserError
from nngcd.review.changes import changes_between
from nngcd.review.page.desk import Desk, ReadOnlyError, StaleError
from nngcd.review.page.editing import Learn, parse
from nngcd.review.page.learning import Learning
from nngcd.review.reviewed import count_labels
from nngcd.review.state import State


class LearnAnswers:
    """Start, watch and stop the training of a new run."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.learning = desk, Learning(desk.run)
        self._changes: tuple[object, dict[str, Any]] = (None, {})
        self._labels = (-1, 0)

    def look(self, request: Request) -> Response:
        """Return how far the training is, and what it changed."""
        return self._answer()

    def start(self, values: object) -> Response:
        """Begin a new run, or go on with the one that was stopped."""
        asked: Learn = parse(Learn, values or {})
        with self.desk.lock:
            if self.desk.why_read_only:
                raise ReadOnlyError(self.desk.why_read_only)
            self.desk.refresh()
            version = self.desk.version
            if asked.version not in (None, version):
                raise StaleError("The review was changed in another window. Look again, then start.")
            if not self.desk.review.n_edits:
                raise UserError("There is nothing to learn yet. Correct something first.")
            self.learning.start(version)
        return self._answer()

    def stop(self, values: object) -> Response:
        """End the training; it can be resumed."""
        if self.desk.why_read_only:
            raise ReadOnlyError(self.desk.why_read_only)
        self.learning.stop()
        return self._answer()

    def _answer(self) -> Response:
        with self.desk.lock:
            self.desk.refresh()
            version, state, results = self.desk.version, self.desk.review.state, self.desk.review.results
        facts = self.learning.facts(version)
        if self._labels[0] != version:
            self._labels = (version, count_labels(results, state))
        changes = self._changes_of(version, state) if facts["state"] == "done" else None
        return JSONResponse({**facts, "labels": self._labels[1], "changes": changes, "version": version})

    def _changes_of(self, version: int, state: State) -> dict[str, Any]:
        out = self.learning.out
        if out is not None and self._changes[0] != (out, version):
            self._changes = ((out, version), changes_between(state, out).to_json())
        return self._changes[1]
