"""From what the page sends to an edit of the review."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from nngcd.core.errors import UserError
from nngcd.review.session import Review

LONGEST_NAME = 200
MOST_UNDONE = 10_000
Text = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME)]


class _Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Change(_Wanted):
    """One thing to do; which fields count depends on `op`."""

    op: Literal["rename", "merge", "split", "move", "reject", "approve", "unapprove", "apart"]
    category: Text | None = None
    categories: list[Text] = Field(default_factory=list)
    images: list[Text] = Field(default_factory=list)
    parts: list[list[Text]] = Field(default_factory=list)
    to: Text | None = None
    """Of a move: the category; None for a new one. Of a merge: the one that stays."""
    name: Name | None = None
    """Of a rename; of a move to a new category: its name."""


class Edits(_Wanted):
    """Changes made on one version of the review; several are one edit, undone together."""

    version: int
    changes: list[Change] = Field(min_length=1)


class Undo(_Wanted):
    """Number of edits to undo (or to redo)."""

    version: int
    n: int = Field(default=1, ge=1, le=MOST_UNDONE)


class Learn(_Wanted):
    """A request to train a new run; if it names a version, only if the review still has that one."""

    version: int | None = None


def parse(schema: type[BaseModel], values: Any) -> Any:  # noqa: ANN401 (JSON in, a value of `schema` out)
    """Return what was sent as a value of a schema."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {first['msg']}") from None


def do(review: Review, edits: Edits) -> None:
    """Do what was sent: one line of the log."""
    if len(edits.changes) == 1 and not _is_two_steps(edits.changes[0]):
        _DO[edits.changes[0].op](review, edits.changes[0])
        return
    with review.batch():
        for change in edits.changes:
            _DO[change.op](review, change)


def _is_two_steps(change: Change) -> bool:
    return change.op == "move" and change.to is None and change.name is not None


def _category(change: Change) -> str:
    if change.category is None:
        raise UserError(f"{change.op}: give a category.")
    return change.category


def _rename(review: Review, change: Change) -> None:
    if change.name is None:
        raise UserError("rename: give a name.")
    review.rename(_category(change), change.name)


def _move(review: Review, change: Change) -> None:
    made = review.move(change.images, to=change.to)
    if _is_two_steps(change):
        review.rename(made, str(change.name))


def _reject(review: Review, change: Change) -> None:
    review.reject(review.state.members(change.category) if change.category else change.images)


_DO: dict[str, Callable[[Review, Change], Any]] = {
    "rename": _rename,
    "merge": lambda review, change: review.merge(change.categories, into=change.to),
    "split": lambda review, change: review.split(_category(change), change.parts),
    "move": _move,
    "reject": _reject,
    "approve": lambda review, change: review.approve(_category(change)),
    "unapprove": lambda review, change: review.unapprove(_category(change)),
    "apart": lambda review, change: review.tell_apart(change.categories),
}
