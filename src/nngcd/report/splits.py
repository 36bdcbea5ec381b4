"""Which known categories were split in training, and why: one sentence each."""

from __future__ import annotations

from html import escape
from typing import Any

SUSPICIOUS_SHARE = 0.5
"""Of the known categories: more that were split say something about the labels."""


def split_words(summary: dict[str, Any], *, most: int | None = None) -> list[str]:
    """Return the sentences, at most so many of them, and what follows from them all."""
    splits: dict[str, list[dict[str, Any]]] = {}
    for found in summary.get("known_splits", []):
        splits.setdefault(found["category"], []).append(found)
    lines = []
    for category, found in list(splits.items())[:most]:
        last, epochs = found[-1], " and ".join(str(one["epoch"]) for one in found)
        n_within = last["n_labelled_in_part"] or "none"
        lines.append(
            f"'{category}' was split after epoch {epochs}: {last['n_part']} of its {last['n_images']} images formed a "
            f"group with {n_within} of the {last['n_labelled']} labelled images used in training."
        )
    if len(splits) > len(lines):
        lines.append(f"{len(splits) - len(lines)} more known categories were split; summary.json lists them.")
    if len(splits) > SUSPICIOUS_SHARE * summary.get("n_known_categories", 2 * len(splits)):
        lines.append(
            "Careful: most known categories were split, so labelled and unlabelled images may differ in kind. If the "
            "labelled ones were not chosen at random, switch this off: --set loss.split_epochs=0."
        )
    return lines


def split_list(summary: dict[str, Any]) -> str:
    """Return the same as HTML, to be opened by whoever wants to know; nothing where nothing was split."""
    items = "".join(f"<li>{escape(line)}</li>" for line in split_words(summary))
    return f"<details><summary>Known categories that were split</summary><ul>{items}</ul></details>" if items else ""
