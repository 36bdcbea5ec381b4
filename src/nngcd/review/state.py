"""The sorting of a run at one moment of its review: where every image is, and what every category is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from nngcd.core.errors import UserError, did_you_mean
from nngcd.core.words import quoted

Kind = Literal["known", "new"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an image is: its category (None for one in no category), and what a person did to this image, and when."""

    category: str | None
    action: str | None = None
    """move, reject, merge (its category was merged into this one), split, or None: as the run left it."""
    at: str | None = None

    @property
    def is_rejected(self) -> bool:
        """Whether a person said that it belongs to no category."""
        return self.action == "reject"

    @property
    def is_decided(self) -> bool:
        """Whether a person decided about this image itself, not only about its category."""
        return self.action in ("move", "reject")


@dataclass(frozen=True, slots=True)
class Category:
    """A category: the id never changes meaning; the name is what is shown."""

    name: str
    kind: Kind
    is_approved: bool = False
    action: str | None = None
    """Last edit of it: rename, merge, split, approve, unapprove, or None."""
    at: str | None = None
    into: tuple[str, ...] = ()
    """Where its images went when it was merged or split; such a category is retired for good."""
    parts: tuple[str, ...] = ()
    """Categories that were split off it; it keeps the rest of its images."""
    apart_from: tuple[str, ...] = ()
    """Categories that a person said are not the same as this one, so that nobody asks again."""

    @property
    def is_retired(self) -> bool:
        """Whether it was merged into another category, or split."""
        return bool(self.into)


@dataclass(frozen=True, slots=True)
class State:
    """The sorting of a run at one moment: every image by its id, every category there ever was by its id."""

    images: Mapping[str, Placed]
    categories: Mapping[str, Category]

    def members(self, category: str) -> list[str]:
        """Return the ids of a category's images, in the order of the run."""
        return [image for image, placed in self.images.items() if placed.category == category]

    @property
    def live(self) -> dict[str, Category]:
        """The categories that are not retired."""
        return {id_: category for id_, category in self.categories.items() if not category.is_retired}

    def became(self, category: str) -> list[str]:
        """Return the ids of what a category is now: itself, what it was merged into, and what it was split into."""
        found: dict[str, bool] = {}
        waiting = [category]
        while waiting:
            # A part may have been merged into the category it was split off: nothing is followed twice.
            if (id_ := waiting.pop(0)) not in found:
                now = self.categories[id_]
                found[id_] = not now.is_retired
                waiting = [*now.into, *now.parts, *waiting]
        return [id_ for id_, is_live in found.items() if is_live]

    def merged(self, category: str) -> Category:
        """Return the category itself, or what it was merged into; splits are not followed."""
        while len(into := self.categories[category].into) == 1:
            (category,) = into
        return self.categories[category]

    @property
    def rejected(self) -> list[str]:
        """The images that belong to no category because a person said so."""
        return [image for image, placed in self.images.items() if placed.is_rejected]


def first_state(results: pd.DataFrame, categories: Sequence[str], n_known: int) -> State:
    """Return the sorting as a run left it; the first `n_known` of its categories are known."""
    names = results["category"].astype(object).where(results["category"].notna(), None).tolist()
    # One value for all images of a category: a run can have millions.
    place_of = {name: Placed(None if name is None else str(name)) for name in {*names}}
    ids = map(str, results["image_id"].tolist())
    placed = {image: place_of[name] for image, name in zip(ids, names, strict=True)}
    kinds = {id_: Category(id_, "known" if i < n_known else "new") for i, id_ in enumerate(categories)}
    return State(placed, kinds)


def check_state(state: State, first: State) -> None:
    """Raise `UserError` for what no edits can make of a first state: only a damaged or foreign log leads there."""
    if state.images.keys() != first.images.keys():
        raise UserError("it names images that the run does not have")
    if not all(isinstance(id_, str) and isinstance(found.name, str) for id_, found in state.categories.items()):
        raise UserError("it has a category whose name is not text")
    live = state.live
    if lost := {placed.category for placed in state.images.values()} - {None, *live}:
        raise UserError(f"it puts images into '{min(map(str, lost))}', which is not a category")
    for category in state.categories.values():
        if others := {*category.into, *category.parts} - state.categories.keys():
            raise UserError(f"it created '{min(others)}', which is not a category")
    _check_merges(state)


def _check_merges(state: State) -> None:
    for id_ in state.categories:
        seen: set[str] = set()
        while len(into := state.categories[id_].into) == 1:
            if id_ in seen:
                raise UserError(f"it merged '{id_}' into itself")
            seen.add(id_)
            (id_,) = into


def live_category(state: State, id_: str) -> Category:
    """Return a category that can be edited.

    Raises:
        UserError: there is none of this id, or it was merged or split.
    """
    if id_ not in state.categories:
        raise UserError(f"no category '{id_}'.{did_you_mean(id_, state.live)}")
    category = state.categories[id_]
    if category.is_retired:
        what = "merged into" if len(category.into) == 1 else "split into"
        raise UserError(f"category '{id_}' was {what} {quoted(category.into)}. Use {quoted(state.became(id_))}.")
    return category


def category_id(state: State, id_or_name: str) -> str:
    """Return the id of a category that is given by its id or by its name; what is neither is returned as it is."""
    if id_or_name in state.categories:
        return id_or_name
    return next((id_ for id_, category in state.live.items() if category.name == id_or_name), id_or_name)
