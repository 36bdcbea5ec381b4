"""The results of a run with a person's edits applied, for exports and for runs from a review."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_problems
from nngcd.data.decisions import REJECTED
from nngcd.data.split import EMPTY_FOLDER
from nngcd.review.session import Review
from nngcd.review.state import Category, Placed, State

_BEHIND = ("possible_label_error", "split", "group")
"""Columns after those of the review."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A run's results as a person left them."""

    table: pd.DataFrame
    """One row per image in the order of the run, then the files that could not be used."""
    categories: pd.DataFrame
    """One row per category that holds images: id, name, kind, size, reviewed; known ones first."""
    state: State
    n_edits: int


def reviewed_results(run: RunFolder) -> Reviewed:
    """Return the results of a run with the edits of its log applied; without a log, as the run left them.

    `category`, `label` and `status` follow the edits; `reviewed` says whether a person approved the category or decided
    about the image itself, `review_action` and `reviewed_at` the last thing done to image or category. Rejected images
    have the status `excluded` and neither category nor label. All other columns are passed through.
    """
    review = Review(run)
    table = _with_edits(review.results, review.state)
    unused = _unused_files(run, set(table["file_name"]))
    if len(unused):
        table = pd.concat([table, unused], ignore_index=True)
    return Reviewed(table, _category_table(table, review.state), review.state, len(review.log.edits))


def decisions(reviewed: Reviewed) -> pd.DataFrame:
    """Return what a new run may learn from a review: image_id, file_name, label, source; no label where none is known.

    Source is where the label comes from: `moved` (to a category, by hand), `approved` (its category was), `named` (its
    new category was given a name), `merged` (its category was merged into a known one), `given` (with the data). An
    image whose source is `rejected` is not used. A split alone changes no label that was given, nor does approving a
    part that has no name: its id is not what a person called it.
    """
    table = reviewed.table[reviewed.table["image_id"].notna()]
    found = _decided(reviewed.state, table)
    labels, sources = zip(*found, strict=True)
    columns = {"image_id": table["image_id"], "file_name": table["file_name"]}
    return pd.DataFrame(columns | {"label": list(labels), "source": list(sources)}, dtype="object")


def count_labels(results: pd.DataFrame, state: State) -> int:
    """Return how many images of a run would have a label in a run that learns from its review."""
    return sum(label is not None for label, _ in _decided(state, results))


def undecided(reviewed: Reviewed) -> dict[str, int]:
    """Return the new categories that a person merged or split and left without name or approval: id and image count.

    Counted are their images that get no label by this; a new run learns nothing from such a merge or split.
    """
    state, table = reviewed.state, decisions(reviewed)
    made = {id_ for category in state.categories.values() for id_ in (*category.into, *category.parts)}
    without = table.loc[table["source"].isna(), "image_id"].map(lambda image: state.images[image].category)
    counts = without[without.isin(made)].value_counts()
    return {id_: int(counts[id_]) for id_ in sorted(counts.index) if state.categories[id_].kind == "new"}


def _decided(state: State, table: pd.DataFrame) -> list[tuple[str | None, str | None]]:
    """Return the label and its source for each row of a table with `image_id` and `label_given`."""
    given = table["label_given"].astype("object").where(table["label_given"].notna(), None)
    descent = {label: set(state.became(label)) for label in given.dropna().unique()}
    known: dict[tuple[str | None, str | None, str | None], tuple[str | None, str | None]] = {}
    found = []
    for image, label in zip(table["image_id"], given, strict=True):
        placed = state.images[image]
        # Of an image that was moved elsewhere the given label is no longer true.
        still = label if label and placed.category in descent[label] else None
        alike = (placed.category, placed.action, still)
        if alike not in known:
            known[alike] = _decision(state, placed, still)
        found.append(known[alike])
    return found


def _decision(state: State, placed: Placed, given: str | None) -> tuple[str | None, str | None]:
    if placed.category is None:
        return None, REJECTED if placed.is_rejected else None
    category = state.categories[placed.category]
    is_named = category.kind == "new" and category.name != placed.category
    reasons = {
        "moved": placed.action == "move",
        "approved": category.is_approved and (given is None or is_named or category.kind == "known"),
        "named": is_named,
        "merged": category.kind == "known" and placed.action == "merge",
    }
    source = next((source for source, is_so in reasons.items() if is_so), None)
    if source:
        return category.name, source
    return (state.merged(given).name, "given") if given else (None, None)


def _with_edits(results: pd.DataFrame, state: State) -> pd.DataFrame:
    placed = [state.images[image] for image in results["image_id"]]
    category = [state.categories[p.category] if p.category is not None else None for p in placed]
    pairs = list(zip(placed, category, strict=True))
    is_reviewed = np.array([p.is_decided or bool(c and c.is_approved) for p, c in pairs], dtype=bool)
    # A model's doubt ends where a person has decided.
    is_unsure = (results["status"] == "unsure").to_numpy() & ~is_reviewed
    kinds = [c.kind if c else "excluded" if p.is_rejected else "unsure" for p, c in pairs]
    status = np.where(is_unsure, "unsure", kinds)
    last = [_last_action(p, c) for p, c in pairs]
    table = _reordered(results, placed).assign(
        category=pd.Series([p.category for p in placed], dtype="object"),
        label=pd.Series([c.name if c else None for c in category], dtype="object"),
        status=status,
        reviewed=is_reviewed,
        review_action=pd.Series([action for action, _ in last], dtype="object"),
        reviewed_at=pd.Series([at for _, at in last], dtype="object"),
    )
    return table[[*(name for name in table.columns if name not in _BEHIND), *_BEHIND]]


def _last_action(placed: Placed, category: Category | None) -> tuple[str | None, str | None]:
    if placed.is_decided or category is None or category.action is None:
        return placed.action, placed.at
    return category.action, category.at


def _reordered(results: pd.DataFrame, placed: list[Placed]) -> pd.DataFrame:
    """Return the results with the model's confidence in the category an image was moved to, where the model has one.

    An alternative that an image was moved to changes places with the category it was moved from.
    """
    table = results.copy()
    table["confidence"] = table["confidence"].astype("float64")
    category = table["category"].astype("object")
    to = pd.Series([p.category for p in placed], index=table.index, dtype="object")
    is_moved = pd.Series([p.is_decided for p in placed], index=table.index, dtype=bool) & (category != to)
    before = table.loc[is_moved, "confidence"].copy()
    table.loc[is_moved, "confidence"] = np.nan
    for name in [name for name in table.columns if name.startswith("alt_") and not name.endswith("_p")]:
        # A column without a single value has another type.
        table[name], table[f"{name}_p"] = table[name].astype("object"), table[f"{name}_p"].astype("float64")
        is_here = is_moved & (table[name] == to)
        table.loc[is_here, "confidence"] = table.loc[is_here, f"{name}_p"]
        table.loc[is_here, name] = category[is_here]
        table.loc[is_here, f"{name}_p"] = before[is_here[is_moved]]
    return table


def _unused_files(run: RunFolder, used: set[str]) -> pd.DataFrame:
    """Return a row with the status `unreadable` (or `excluded`) for each file that the run could not use."""
    problems = read_problems(run)
    if "code" not in problems.columns:
        return pd.DataFrame()
    problems = problems[~problems["file_name"].isin(used) & (problems["code"] != EMPTY_FOLDER)]
    problems = problems.drop_duplicates("file_name")
    status = np.where(problems["code"] == REJECTED, "excluded", "unreadable")
    return pd.DataFrame({"file_name": problems["file_name"], "status": status, "reviewed": False})


def _category_table(table: pd.DataFrame, state: State) -> pd.DataFrame:
    sizes = table["category"].value_counts()
    live = {id_: category for id_, category in state.live.items() if id_ in sizes.index}
    known = [id_ for id_, category in live.items() if category.kind == "known"]
    used = [*known, *sorted(set(live) - set(known))]
    found = [(id_, live[id_]) for id_ in used]
    return pd.DataFrame(
        {
            "id": pd.Series(used, dtype="object"),
            "name": pd.Series([category.name for _, category in found], dtype="object"),
            "kind": pd.Series([category.kind for _, category in found], dtype="object"),
            "size": [int(sizes[id_]) for id_ in used],
            "reviewed": pd.Series([category.is_approved for _, category in found], dtype=bool),
        }
    )
