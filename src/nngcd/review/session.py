"""Editing a run: each edit is checked, written to the log, then applied. Python and the review page share it."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch

from nngcd.core.environment import now
from nngcd.core.errors import DataError, UserError
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_categories, read_config, read_features, read_results
from nngcd.core.verified_files import damaged_file
from nngcd.results.result_tables import new_prefix
from nngcd.results.suspicions import alike_pairs, hidden_groups
from nngcd.review.edit_log import EditLog
from nngcd.review.edits import NOT_IN_BATCH, Edit, Op, inverse, make_edit, names_given, replay
from nngcd.review.image_names import ImageNames
from nngcd.review.splitting import propose_parts
from nngcd.review.state import category_id, check_state, first_state, live_category


def round_of(run: RunFolder) -> int:
    """Return the round of a run: 1, or one more than that of the run whose review it learned from."""
    found = read_config(run)["reading"].get("round")
    if type(found) is not int or found < 1:
        raise damaged_file(run.config, f"reading.round is {found!r}")
    return found


class Review:
    """The edits of a finished run, and its results after them.

    Args:
        run: the run folder.
        user: who edits, for the log; the name of the account by default.

    Raises:
        DataError: the run is not finished, or its log is damaged.
    """

    def __init__(self, run: RunFolder, *, user: str | None = None) -> None:
        run.check_complete()
        self.run = run
        self.user = user or _account()
        self.results = read_results(run)
        categories, n_known = read_categories(run.model)
        named = {*self.results["category"], *self.results["label_given"].dropna()}
        if others := named - set(categories):
            raise damaged_file(run.results, f"the model has no category '{min(others)}'")
        self.first = first_state(self.results, categories, n_known)
        self.log = EditLog(run.edits)
        self._batch: list[Edit] | None = None
        self._undoable: list[int] = []
        self._redoable: list[int] = []
        try:
            for number, edit in enumerate(self.log.edits):
                self._count(number, edit)
            self.state = replay(self.first, self.log.edits)
            check_state(self.state, self.first)
        except (UserError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise DataError(
                f"R03: {run.edits} does not match the results of its run ({error}). Restore the file from a backup."
            ) from error

    def rename(self, category: str, name: str) -> None:
        """Rename a category, given by its id or its present name. Its id stays the same."""
        if not isinstance(name, str):
            raise UserError(f"rename: the name for '{category}' must be text, not {name!r}.")
        self._do("rename", {"category": self._category(category), "name": name})

    def merge(self, categories: Sequence[str], into: str | None = None) -> str:
        """Merge categories and return the one that stays: a known one, else a named one, else the first."""
        given = self._categories(categories)
        ids = list(dict.fromkeys(given if into is None else [self._category(into), *given]))
        found = {id_: live_category(self.state, id_) for id_ in ids}
        if not ids:
            raise UserError("merge: give at least two categories.")
        target = ids[0] if into else min(ids, key=lambda id_: (found[id_].kind != "known", found[id_].name == id_))
        self._do("merge", {"categories": ids, "into": target})
        return target

    def split(self, category: str, parts: int | Sequence[Sequence[str]] = 2) -> list[str]:
        """Split a category into parts and return their ids.

        If the category is known, the part with the most labelled images keeps its id and name, and the others get new
        ids. A new category is retired, and all its parts get new ids.

        Args:
            category: its id or name.
            parts: the number of parts (found by k-means of the learned features), or the images of each.
        """
        category = self._category(category)
        is_known = live_category(self.state, category).kind == "known"
        images = self.propose_split(category, parts) if isinstance(parts, int) else [self._ids(part) for part in parts]
        ids = self._fresh_ids(len(images))
        if is_known and images:
            kept = max(range(len(images)), key=lambda part: (len(self._labelled & {*images[part]}), len(images[part])))
            ids = [*ids[:kept], category, *ids[kept:-1]]
        self._do("split", {"category": category, "parts": dict(zip(ids, images, strict=True))})
        return ids

    def propose_split(self, category: str, n_parts: int = 2) -> list[list[str]]:
        """Return the images of each part that `split` would make; nothing is changed."""
        members = set(self.state.members(self._live(category)))
        is_member = self.results["image_id"].isin(members).to_numpy()
        features_nd = read_features(self.run, len(self.results))[torch.from_numpy(is_member.copy())]
        ids = self.results.loc[is_member, "image_id"].to_list()
        return [[ids[row] for row in part] for part in propose_parts(features_nd, n_parts)]

    def propose_hidden(self, category: str) -> list[list[str]]:
        """Return the two parts of a known category that may hide another one, for `split`; otherwise an empty list.

        Images that the review has moved elsewhere are in neither part.
        """
        id_ = self._live(category)
        found = hidden_groups(self.results, [id_] if self.state.categories[id_].kind == "known" else [])
        members = self.state.members(id_)
        group = {*found[0].image_ids} & {*members} if found else set()
        return [[i for i in members if i not in group], [i for i in members if i in group]] if group else []

    def propose_merges(self) -> list[list[str]]:
        """Return pairs of new categories that may be one, for `merge`: most similar first, retired ones left out."""
        known = [id_ for id_, category in self.first.categories.items() if category.kind == "known"]
        pairs = alike_pairs(self.results, known, read_features(self.run, len(self.results)))
        live = self.state.live
        still_there = [pair for pair in pairs if {pair.first, pair.second} <= live.keys()]
        return [[pair.first, pair.second] for pair in still_there if pair.second not in live[pair.first].apart_from]

    def move(self, images: Iterable[str], to: str | None = None) -> str:
        """Move images to a category, or to a fresh one if `to` is None, and return its id.

        Args:
            images: each by its id, its file name as in the results, or the last part of that if no other image has it.
            to: id or name of the category.
        """
        ids = self._ids(images)
        if to is not None:
            to = self._category(to)
            self._do("move", {"images": ids, "to": to})
            return to
        (fresh,) = self._fresh_ids(1)
        self._do("move", {"images": ids, "to": fresh, "is_fresh": True})
        return fresh

    def reject(self, images: Iterable[str]) -> None:
        """Take images (given as for `move`) out of all categories: they are junk, or impossible to tell."""
        self._do("reject", {"images": self._ids(images)})

    def approve(self, category: str) -> None:
        """Say that a category is right as it is."""
        self._do("approve", {"category": self._category(category)})

    def unapprove(self, category: str) -> None:
        """Take back an approval."""
        self._do("unapprove", {"category": self._category(category)})

    def undo(self) -> Edit:
        """Undo the last edit in force and return it."""
        return self._take_back("undo", self._undoable)

    def redo(self) -> Edit:
        """Redo the edit that was last undone and return it."""
        return self._take_back("redo", self._redoable)

    @property
    def n_edits(self) -> int:
        """Number of edits in force, without those that were undone."""
        return len(self._undoable)

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._undoable)

    @property
    def can_redo(self) -> bool:
        """Whether there is an undo to take back."""
        return bool(self._redoable)

    def tell_apart(self, categories: Sequence[str]) -> None:
        """Say that two categories are not the same; `propose_merges` does not propose them again."""
        self._do("apart", {"categories": self._categories(categories)})

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Combine all edits in a `with` block into one: one line of the log, taken back by one undo.

        If one of them fails, none is made.
        """
        before, self._batch = self.state, []
        try:
            yield
            edits = [{"op": edit.op, "args": dict(edit.args)} for edit in self._batch]
        finally:
            self.state, self._batch = before, None
        if edits:
            self._do("batch", {"edits": edits})

    def _take_back(self, op: Op, numbers: list[int]) -> Edit:
        if not numbers:
            raise UserError(f"There is nothing to {op}.")
        edit = self.log.edits[numbers[-1]]
        self._do(op, inverse(edit, numbers[-1]))
        return edit

    def _do(self, op: Op, args: dict[str, Any]) -> None:
        edit = make_edit(self.state, op, args, t=now(), user=self.user)
        if self._batch is not None:
            if op in NOT_IN_BATCH:
                raise UserError(f"{op}: not possible inside a batch; end the batch first.")
            self._batch.append(edit)
            self.state = replay(self.state, [edit])
            return
        self.log.append(edit)
        self._count(len(self.log.edits) - 1, edit)
        self.state = replay(self.state, [edit])

    def _count(self, number: int, edit: Edit) -> None:
        """Keep track of what can be taken back: undo and redo hand the numbers of lines to each other."""
        if edit.op == "undo":
            self._undoable.pop()
            self._redoable.append(number)
        elif edit.op == "redo":
            self._redoable.pop()
            self._undoable.append(number)
        else:
            self._undoable.append(number)
            self._redoable.clear()

    def _ids(self, images: Iterable[str]) -> list[str]:
        if isinstance(images, str) or not isinstance(images, Iterable):
            raise UserError(f"give a list of images, not {images!r}.")
        return [image if image in self.state.images else self._image_names.id_of(str(image)) for image in images]

    @cached_property
    def _image_names(self) -> ImageNames:
        return ImageNames(self.results)

    @cached_property
    def _labelled(self) -> set[str]:
        """The ids of the images that were given with a label."""
        return {*self.results.loc[self.results["label_given"].notna(), "image_id"]}

    def _live(self, id_or_name: str) -> str:
        """Return the id of a category that is there."""
        id_ = self._category(id_or_name)
        live_category(self.state, id_)
        return id_

    def _categories(self, ids_or_names: Sequence[str]) -> list[str]:
        if isinstance(ids_or_names, str) or not isinstance(ids_or_names, Iterable):
            raise UserError(f"give a list of categories, not {ids_or_names!r}.")
        return [self._category(one) for one in ids_or_names]

    def _category(self, id_or_name: str) -> str:
        if not isinstance(id_or_name, str):
            raise UserError(f"give a category by its id or name, not {id_or_name!r}.")
        return category_id(self.state, id_or_name)

    def _fresh_ids(self, n: int) -> list[str]:
        """Return ids that were never used: not by the run, not in the log, not even by an edit that was undone."""
        used = set(self.first.categories)
        for edit in [*self.log.edits, *(self._batch or [])]:
            # What an edit made stands in `before` as not yet there; names count, so that nothing has two meanings.
            used |= set(edit.before.categories) | {*names_given(edit.args)}
        prefix = new_prefix(round_of(self.run))
        numbers = (id_.removeprefix(prefix) for id_ in used if id_.startswith(prefix))
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        return [f"{prefix}{last + 1 + i:03d}" for i in range(n)]


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such account, as in some containers
        return "unknown"
