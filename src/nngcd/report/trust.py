"""Trust in a run, as HTML: what is expected to be right, what may be hidden, and what was split."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from nngcd.report.findings import Findings
from nngcd.results.sentences import (
    expected_words,
    held_back_words,
    label_words,
    merge_words,
    new_split_words,
    split_words,
    suspicion_words,
)


def expected(findings: Findings) -> str:
    """Return how right the rows are expected to be, what held-back labels say, and which categories to look at."""
    summary, facts, parts = findings.summary, findings.summary.get("held_back"), []
    for kind in ("known", "new"):
        if words := expected_words(summary, kind):
            n = summary["expected_right"][kind]["n"]
            parts.append(f"<p>{n:,} {'image looks' if n == 1 else 'images look'} {kind}; {words}.</p>")
    if facts:
        parts.append(f"<p>{held_back_words(facts)}</p>")
    parts += [f"<p>{escape(line)}</p>" for line in label_words(summary)]
    if doubts := "".join(f"<li>{escape(line)}</li>" for line in suspicion_words(summary)):
        parts.append(f"<p>Look at these categories first:</p><ul>{doubts}</ul>")
    return "".join(parts)


def move_list(summary: Mapping[str, Any]) -> str:
    """Return the splits and merges of training as lists that can be opened; nothing where there were none."""
    lists = {
        "Known categories that were split": split_words(summary),
        "New clusters that were split": new_split_words(summary),
        "New clusters that became one": merge_words(summary),
    }
    parts = []
    for title, lines in lists.items():
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<details><summary>{title}</summary><ul>{items}</ul></details>" if items else "")
    return "".join(parts)
