"""The edit log in words, for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nngcd.core.words import count
from nngcd.review.edits import Edit
from nngcd.review.state import State


def log_lines(edits: Sequence[Edit], state: State) -> list[dict[str, Any]]:
    """Return the lines of the log, newest first: when, who, what, and whether it is undone."""
    undone = _undone(edits)
    return [
        {
            "number": number,
            "t": edit.t,
            "user": edit.user,
            "op": edit.op,
            "words": edit_words(edit.op, edit.args, state),
            "is_undone": number in undone,
        }
        for number, edit in reversed(list(enumerate(edits)))
        if edit.op not in ("undo", "redo")
    ]


def edit_words(op: str, args: Mapping[str, Any], state: State) -> str:
    """Return what an edit did, with the names that categories have now."""
    name, images = _named(state, args.get("category")), count(len(args.get("images", ())), "image")
    if op == "batch":
        edits = args["edits"]
        said = "; ".join(edit_words(one["op"], one["args"], state) for one in edits[:3])
        return said if len(edits) <= 3 else f"{said}; and {len(edits) - 3:,} more"
    if op == "merge":
        others = [_named(state, id_) for id_ in args["categories"] if id_ != args["into"]]
        return f"Merged {', '.join(others)} into {_named(state, args['into'])}"
    if op == "apart":
        return f"Kept {' and '.join(_named(state, id_) for id_ in args['categories'])} apart"
    words = {
        "rename": f"Named {args.get('category')} “{args.get('name')}”",
        "split": f"Split {name} into {len(args.get('parts', ()))} parts",
        "move": f"Moved {images} to {_named(state, args.get('to'))}",
        "reject": f"Rejected {images}",
        "approve": f"Approved {name}",
        "unapprove": f"Took back the approval of {name}",
    }
    return words[op]


def _undone(edits: Sequence[Edit]) -> set[int]:
    """Return the numbers of edits that are not in force."""
    undone: set[int] = set()
    meant: dict[int, int] = {}
    """The edit that a line of undo or redo is about in the end."""
    for number, edit in enumerate(edits):
        if edit.op in ("undo", "redo"):
            target = int(edit.args["edit"])
            meant[number] = meant.get(target, target)
            (undone.add if edit.op == "undo" else undone.discard)(meant[number])
    return undone


def _named(state: State, id_: str | None) -> str:
    if id_ is None:
        return "?"
    category = state.categories.get(id_)
    return id_ if category is None or category.name == id_ else f"“{category.name}”"
