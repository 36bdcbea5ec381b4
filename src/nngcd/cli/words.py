"""A run's result in plain words."""

from __future__ import annotations

from typing import Any

Summary = dict[str, Any]


def found_words(summary: Summary) -> list[str]:
    """Return what was found, one sentence a line."""
    n, known, new = summary["n_unlabelled"], summary["n_unlabelled_known"], summary["n_unlabelled_new"]
    lines = k_words(summary["k"], summary["k_estimate"]) if summary.get("k_estimate") else []
    lines += [f"{n} unlabelled images were sorted into {summary['n_categories_used']} of {summary['k']} categories:"]
    lines.append(f"  {known:>6}  look like one of the {summary['n_known_categories']} known categories")
    if summary["n_new_categories"]:
        largest = f"largest: {summary['largest_new']}, {summary['largest_new_size']} images"
        lines.append(f"  {new:>6}  fall into {summary['n_new_categories']} new categories ({largest})")
    else:
        lines.append(f"  {new:>6}  are new")
    if summary["n_unreadable"]:
        lines.append(f"  {summary['n_unreadable']} files were not used; problems.csv says why")
    if summary["largest_share"] > COLLAPSE_SHARE and summary["k"] > 1:
        spreads = summary["method"] in ("nngcd", "simgcd", "mugcd")
        advice = "Try --set loss.entropy_weight=2." if spreads else "Try another --k."
        lines.append(f"Careful: {summary['largest_share']:.0%} of them fell into one category. {advice}")
    return lines


COLLAPSE_SHARE = 0.6


def k_words(k: int, estimate: dict[str, Any]) -> list[str]:
    """Return how many categories there seem to be, and how far to trust it."""
    low, high, confidence = estimate["low"], estimate["high"], estimate["confidence"]
    trust = {
        "good": "good",
        "fair": "fair, treat it as a guide",
        "low": "low, look at the groups and set --k yourself",
    }
    return [
        f"There seem to be about {k} categories (between {low} and {high}), known and new together.",
        f"Confidence: {trust[confidence]} ({estimate['reason']}).",
        *(["The interval reaches the end of the range; a wider one may give another number."] * estimate["is_at_edge"]),
    ]


def score_words(scores: dict[str, Any]) -> list[str]:
    """Return the accuracy and the protocol it belongs to."""
    return [
        f"Accuracy  All {_number(scores['accuracy']['all'])}   Old {_number(scores['accuracy']['old'])}   "
        f"New {_number(scores['accuracy']['new'])}   NMI {scores['nmi']:.1f}   ARI {scores['ari']:.1f}",
        f"({scores['protocol']}; {scores['n_scored']} images)",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
