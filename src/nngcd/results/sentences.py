"""Sentences about a run's confidence, shared by the command line and the report; facts are as in summary.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nngcd.core.words import count

MOST_GROUPS = 5
"""Known categories that may hide another one and get a sentence of their own."""
RIGHT = {"known": "are right", "new": "belong to the main class of their category"}
"""Meaning of "right" for a row that is called known or new."""


def expected_words(summary: Mapping[str, Any], kind: str) -> str | None:
    """Return which share of the rows called known, or new, is expected to be right; None where nobody can say."""
    found = (summary.get("expected_right") or {}).get(kind)
    if found is None or not summary.get("held_back"):
        return None
    return f"about {found['share']:.0%} of them {RIGHT[kind]} (likely {found['low']:.0%} to {found['high']:.0%})"


def held_back_words(facts: Mapping[str, Any]) -> str:
    """Return how often an image of a known category is put into the right one."""
    return (
        f"Accuracy on images of known categories: {facts['accuracy']:.1f} % "
        f"({facts['n_right']} of {facts['n']} held-back labels; 95 % interval {facts['low']:.1f} to "
        f"{facts['high']:.1f})."
    )


def hidden_words(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each of the first groups, and how many more there are."""
    lines = []
    for found in groups[:MOST_GROUPS]:
        n = found["n_labelled"]
        own = "your only labelled one" if n == 1 else f"your {n:,} labelled ones"
        lines.append(
            f"'{found['category']}' may hide another category: {found['n_group']:,} of its {found['n_images']:,} "
            f"unlabelled images have few of {own} around them."
        )
    if len(groups) > MOST_GROUPS:
        n_more = len(groups) - MOST_GROUPS
        lines.append(f"{n_more:,} more may hide another category; see the column may_hide in categories.csv.")
    return lines


def mixed_words(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each new category that may be several things; nothing where nobody can say."""
    found = summary.get("mixed_categories") or []
    if not found or not summary.get("held_back"):
        return []
    lines = [
        f"'{one['category']}' may mix several categories: about {one['expected']:.0%} of its "
        f"{count(one['n_images'], 'image')} are expected to share one class."
        for one in found[:MOST_GROUPS]
    ]
    if len(found) > MOST_GROUPS:
        lines.append(f"{len(found) - MOST_GROUPS:,} more may mix several; see the column may_mix in categories.csv.")
    return lines


def alike_words(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for the pairs of new categories that may be one."""
    found = summary.get("alike_pairs") or []
    if not found:
        return []
    pairs = [f"'{pair['first']}' and '{pair['second']}'" for pair in found]
    more = f"; and {count(len(pairs) - MOST_GROUPS, 'more pair')}" if len(pairs) > MOST_GROUPS else ""
    return [f"May be one category: {'; '.join(pairs[:MOST_GROUPS])}{more}."]


def suspicion_words(summary: Mapping[str, Any]) -> list[str]:
    """Return which categories to look at first, and why."""
    return [*hidden_words(summary.get("hidden_groups") or []), *mixed_words(summary), *alike_words(summary)]


def split_words(summary: Mapping[str, Any], *, most: int | None = None) -> list[str]:
    """Return a sentence for each known category that was split, at most `most`, and how many more there are."""
    splits: dict[str, list[dict[str, Any]]] = {}
    for found in summary.get("known_splits", []):
        splits.setdefault(found["category"], []).append(found)
    lines = []
    for category, found in list(splits.items())[:most]:
        last, when = found[-1], _when([one["epoch"] for one in found])
        n_within = last["n_labelled_in_part"] or "none"
        lines.append(
            f"'{category}' was split {when}: {last['n_part']} of its {last['n_images']} images formed a "
            f"group that holds {n_within} of the {last['n_labelled']} labelled images used in training."
        )
    if len(splits) > len(lines):
        more = count(len(splits) - len(lines), "more known category was", "more known categories were")
        lines.append(f"{more} split; summary.json lists them.")
    return lines


def label_words(summary: Mapping[str, Any]) -> list[str]:
    """Return a warning where the labelled images do not look like a random sample of their categories."""
    check = summary.get("label_check")
    if not check or not check["is_doubtful"]:
        return []
    return [
        f"Careful: in {check['n_apart']} of {check['n_tested']} known categories that could be tested, the labelled "
        "images differ from the others. If they were not picked at random, other forms of these categories may be "
        f"called new. Label a random sample, or keep known categories whole: --set {check['way_out']}"
    ]


def number_words(summary: Mapping[str, Any]) -> list[str]:
    """Return how splits and merges changed an estimated number of categories; nothing where there were none."""
    estimate, n_merges = summary.get("k_estimate"), len(summary.get("merges", []))
    n_splits = len(summary.get("known_splits", [])) + len(summary.get("new_splits", []))
    if not estimate or estimate.get("k") is None or not n_splits + n_merges:
        return []
    moves = " and ".join(count(n, thing) for n, thing in ((n_splits, "split"), (n_merges, "merge")) if n)
    became = "left it at" if summary["k"] == estimate["k"] else "made it"
    interval = f"{estimate['low']} to {estimate['high']}"
    return [f"The estimate was {estimate['k']} ({interval}); {moves} {became} {summary['k']}."]


def new_split_words(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each new cluster that was split."""
    return [
        f"A new cluster of {found['n_images']} images was split {_when([found['epoch']])}: {found['n_part']} of "
        "them were further from the rest than parts of one category usually are."
        for found in summary.get("new_splits", [])
    ]


def merge_words(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each merge of two new clusters."""
    lines = []
    for found in summary.get("merges", []):
        when, n_kept, n_freed = _when([found["epoch"]]), found["n_kept"], found["n_freed"]
        if not n_freed:
            lines.append(f"A new cluster without images was dropped {when}.")
            continue
        why = "they were the two most alike, and a split needed a cluster"
        if found["cost"] <= found["limit"]:
            why = "they were no further apart than parts of one category usually are"
        lines.append(f"Two new clusters of {n_kept} and {n_freed} images became one {when}: {why}.")
    return lines


def sample_words(assigned: Mapping[str, int]) -> str:
    """Return a sentence on all images of which a run saw a sample."""
    counts = {status: assigned.get(status, 0) for status in ("known", "new", "unsure", "unreadable")}
    parts = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    return f"The run was trained on a sample; all {sum(counts.values()):,} images are sorted in assigned/ ({parts})."


def _when(epochs: Sequence[int]) -> str:
    """Return after which epochs something was moved; methods without training move it after epoch 0."""
    if epochs == [0]:
        return "after clustering"
    return f"after {'epoch' if len(epochs) == 1 else 'epochs'} {' and '.join(map(str, epochs))}"
