"""The effect of an edit on the sorting of a run: pure values and functions, no files.

Every edit is a patch: it gives some images and some categories a new value. What they had before is kept with the edit,
so the inverse of any edit is a patch too, and undo is exact by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from nngcd.core.errors import UserError, did_you_mean
from nngcd.review.state import Category, Placed, State, live_category

Op = Literal[
    "rename", "merge", "split", "move", "reject", "approve", "unapprove", "apart", "batch", "undo", "redo"
]  # fmt: skip
OPS: tuple[str, ...] = get_args(Op)
NOT_IN_BATCH = ("batch", "undo", "redo")


@dataclass(frozen=True, slots=True)
class Patch:
    """New values of some images and categories; None for a category that does not exist (before a split made it)."""

    images: Mapping[str, Placed]
    categories: Mapping[str, Category | None]


@dataclass(frozen=True, slots=True)
class Edit:
    """One line of the log: when, who, what, and the values that it changed as they were before."""

    t: str
    user: str
    op: Op
    args: Mapping[str, Any]
    before: Patch


def make_edit(state: State, op: Op, args: Mapping[str, Any], *, t: str, user: str) -> Edit:
    """Return the edit that does `op` to a state, with the values it will change.

    Raises:
        UserError: the edit is impossible: no such image or category, a taken name, or nothing to change.
    """
    patch = _PATCHES[op](state, args, t)
    if patch == (before := _values_before(state, patch)):
        raise UserError(f"{op}: nothing would change.")
    return Edit(t, user, op, args, before)


def apply(state: State, edit: Edit) -> State:
    """Return the state after an edit; the state given is not changed."""
    return replay(state, [edit])


def replay(state: State, edits: Iterable[Edit]) -> State:
    """Return the state after many edits, with one copy of the state for all of them."""
    after = State(state.images, categories := dict(state.categories))
    images: dict[str, Placed] | None = None
    for edit in edits:
        patch = _PATCHES[edit.op](after, edit.args, edit.t)
        if patch.images:
            if images is None:  # most edits change no image, and copying a million takes a while
                after = State(images := dict(state.images), categories)
            images.update(patch.images)
        _update(categories, patch.categories)
    return after


def names_given(args: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that the arguments of an edit gave to categories, including those inside a batch."""
    if "name" in args:
        yield str(args["name"])
    for one in args.get("edits", ()):
        yield from names_given(one["args"])


def inverse(edit: Edit, number: int) -> dict[str, Any]:
    """Return the arguments of the undo (or redo) that takes back edit `number` of the log."""
    return {"edit": number, "restore": patch_to_json(edit.before)}


def patch_to_json(patch: Patch) -> dict[str, Any]:
    """Return a patch as plain values; images with the same value are listed together."""
    groups: dict[Placed, list[str]] = {}
    for image, placed in patch.images.items():
        groups.setdefault(placed, []).append(image)
    return {
        "images": [{**asdict(placed), "ids": ids} for placed, ids in groups.items()],
        "categories": {id_: category and asdict(category) for id_, category in patch.categories.items()},
    }


_PLACED, _CATEGORY = TypeAdapter(Placed), TypeAdapter(Category)


def patch_from_json(values: Mapping[str, Any]) -> Patch:
    """Return the patch that `patch_to_json` described; raise `ValueError` where it describes none."""
    images = {
        image: placed
        for group in values["images"]
        for placed in [_PLACED.validate_python(group)]
        for image in group["ids"]
    }
    categories = {
        id_: None if facts is None else _CATEGORY.validate_python(facts) for id_, facts in values["categories"].items()
    }
    return Patch(images, categories)


def _update(categories: dict[str, Category], changed: Mapping[str, Category | None]) -> None:
    for id_, category in changed.items():
        if category is None:
            categories.pop(id_, None)
        else:
            categories[id_] = category


def _values_before(state: State, patch: Patch) -> Patch:
    images = {image: state.images[image] for image in patch.images}
    return Patch(images, {id_: state.categories.get(id_) for id_ in patch.categories})


def _rename(state: State, args: Mapping[str, Any], t: str) -> Patch:
    id_, name = args["category"], str(args["name"]).strip()
    category = live_category(state, id_)
    if not name:
        raise UserError(f"rename: the name for '{id_}' is empty. Give a name.")
    if category.name == name:
        raise UserError(f"rename: '{id_}' already has the name '{name}'.")
    for other, live in state.live.items():
        if other != id_ and name in (other, live.name):
            whose = f"the name of {other}" if name == live.name else f"the id of '{live.name}'"
            way_out = f'If they are the same category: merge(["{id_}", "{other}"]). If not, choose another name'
            raise UserError(f"rename: '{name}' is {whose}. {way_out}.")
    return Patch({}, {id_: replace(category, name=name, action="rename", at=t)})


def _merge(state: State, args: Mapping[str, Any], t: str) -> Patch:
    target, sources = args["into"], [id_ for id_ in args["categories"] if id_ != args["into"]]
    merged = {id_: live_category(state, id_) for id_ in [target, *sources]}
    if not sources:
        raise UserError(f"merge: '{target}' is only one category; give at least two.")
    is_approved = all(category.is_approved for category in merged.values())
    changed: dict[str, Category | None] = {id_: replace(merged[id_], into=(target,)) for id_ in sources}
    changed[target] = replace(merged[target], is_approved=is_approved, action="merge", at=t)
    moved = [(image, placed) for image, placed in state.images.items() if placed.category in sources]
    # A person who moved an image has decided about that image; merging its category changes only where it is.
    return Patch(
        {
            image: replace(placed, category=target) if placed.action == "move" else Placed(target, "merge", t)
            for image, placed in moved
        },
        changed,
    )


def _split(state: State, args: Mapping[str, Any], t: str) -> Patch:
    id_, parts = args["category"], args["parts"]
    category, members = live_category(state, id_), state.members(id_)
    listed = [image for images in parts.values() for image in images]
    if sorted(listed) != sorted(members) or len(parts) < 2 or not all(parts.values()):
        raise UserError(f"split: every image of '{id_}' must be in one of at least two parts.")
    fresh = tuple(part for part in parts if part != id_)
    _check_fresh(state, fresh)
    if id_ in parts:
        parted = replace(category, parts=(*category.parts, *fresh), is_approved=False, action="split", at=t)
    else:
        parted = replace(category, into=fresh)
    made = {part: Category(part, "new", action="split", at=t) for part in fresh}
    # Images that stay are untouched: what a person decided about them holds.
    images = {image: Placed(part, "split", t) for part in fresh for image in parts[part]}
    return Patch(images, {**made, id_: parted})


def _move(state: State, args: Mapping[str, Any], t: str) -> Patch:
    to, images = args["to"], _known_images(state, args["images"])
    categories: dict[str, Category | None] = {}
    if args.get("is_fresh"):
        _check_fresh(state, [to])
        categories = {to: Category(to, "new")}
    else:
        live_category(state, to)
    return Patch({image: Placed(to, "move", t) for image in images}, categories)


def _reject(state: State, args: Mapping[str, Any], t: str) -> Patch:
    images = _known_images(state, args["images"])
    return Patch({image: Placed(None, "reject", t) for image in images}, {})


def _set_approved(state: State, args: Mapping[str, Any], t: str, *, is_approved: bool) -> Patch:
    id_ = args["category"]
    category = live_category(state, id_)
    if category.is_approved == is_approved:
        raise UserError(f"'{id_}' is {'already approved' if is_approved else 'not approved'}.")
    action = "approve" if is_approved else "unapprove"
    return Patch({}, {id_: replace(category, is_approved=is_approved, action=action, at=t)})


def _apart(state: State, args: Mapping[str, Any], t: str) -> Patch:
    ids = list(dict.fromkeys(args["categories"]))
    found = {id_: live_category(state, id_) for id_ in ids}
    if len(ids) != 2:
        raise UserError("apart: give two different categories.")
    first, second = ids
    told = {first: second, second: first}
    return Patch(
        {},
        {
            id_: replace(category, apart_from=tuple(dict.fromkeys((*category.apart_from, told[id_]))))
            for id_, category in found.items()
        },
    )


def _batch(state: State, args: Mapping[str, Any], t: str) -> Patch:
    """Apply several edits in order as one patch, so one undo takes them all back."""
    after = State(images := dict(state.images), categories := dict(state.categories))
    changed_images: dict[str, Placed] = {}
    changed_categories: dict[str, Category | None] = {}
    for one in args["edits"]:
        if one["op"] in NOT_IN_BATCH or one["op"] not in _PATCHES:
            raise UserError(f"batch: '{one['op']}' cannot be part of a batch.")
        patch = _PATCHES[one["op"]](after, one["args"], t)
        images.update(patch.images)
        _update(categories, patch.categories)
        changed_images |= patch.images
        changed_categories |= patch.categories
    return Patch(changed_images, changed_categories)


def _restore(state: State, args: Mapping[str, Any], t: str) -> Patch:
    return patch_from_json(args["restore"])


def _known_images(state: State, images: Iterable[str]) -> Iterator[str]:
    for image in (listed := list(images)):
        if image not in state.images:
            raise UserError(f"no image '{image}' in this run.{did_you_mean(image, state.images)}")
    if not listed:
        raise UserError("give at least one image.")
    return iter(dict.fromkeys(listed))


def _check_fresh(state: State, ids: Iterable[str]) -> None:
    names = {category.name for category in state.categories.values()}
    for id_ in ids:
        if id_ in state.categories or id_ in names:
            raise UserError(f"'{id_}' is or was a category; give the new one an unused id.")


_PATCHES: dict[str, Callable[[State, Mapping[str, Any], str], Patch]] = {
    "rename": _rename, "merge": _merge, "split": _split, "move": _move, "reject": _reject,
    "approve": partial(_set_approved, is_approved=True), "unapprove": partial(_set_approved, is_approved=False),
    "apart": _apart, "batch": _batch, "undo": _restore, "redo": _restore,
}  # fmt: skip
