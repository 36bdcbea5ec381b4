"""How sure a run is, in sentences that the command line and the report share; facts are as in summary.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_GROUPS = 5
"""Known categories that may hide another one and get a sentence of their own."""
RIGHT = {"known": "right", "new": "of the main class of their category"}
"""What being right means for a row that is called known or new."""


def expected_words(summary: Mapping[str, Any], kind: str) -> str | None:
    """Return which share of the rows called known, or new, is expected to be right; None where nobody can say."""
    found = (summary.get("expected_right") or {}).get(kind)
    if found is None or not summary.get("held_back"):
        return None
    return f"about {found['share']:.0%} of them {RIGHT[kind]} (likely {found['low']:.0%} to {found['high']:.0%})"


def held_back_words(facts: Mapping[str, Any]) -> str:
    """Return how often an image of a known category is put into the right one."""
    return (
        f"Of images that do belong to a known category, {facts['accuracy']:.1f} % are put into the right one "
        f"({facts['n_right']} of {facts['n']} labels held back; 95 % interval {facts['low']:.1f} to "
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
        lines.append(f"{n_more} more may hide another category: see the column may_hide in categories.csv.")
    return lines
