"""A run's result in plain words."""

from __future__ import annotations

from typing import Any

from nngcd.core.words import count
from nngcd.results.sentences import RIGHT, expected_words, label_words, number_words, split_words, suspicion_words
from nngcd.results.sentences import held_back_words as held_back_sentence

Summary = dict[str, Any]
SHOWN_SPLITS = 5
"""Known categories whose splits are printed at the end of a run."""


def found_words(summary: Summary) -> list[str]:
    """Return what was found, one sentence a line."""
    n, known, new = summary["n_unlabelled"], summary["n_unlabelled_known"], summary["n_unlabelled_new"]
    lines = k_words(summary["k"], summary["k_estimate"]) if summary.get("k_estimate") else []
    lines += number_words(summary)
    were = "was" if n == 1 else "were"
    lines += [
        f"{count(n, 'unlabelled image')} {were} sorted into {summary['n_categories_used']} of "
        f"{count(summary['k'], 'category', 'categories')}:"
    ]
    n_known = summary["n_known_categories"]
    of_known = "look like your known category" if n_known == 1 else f"look like one of your {n_known} known categories"
    expected = {kind: f"; {words}" if (words := expected_words(summary, kind)) else "" for kind in ("known", "new")}
    if n_known:
        lines.append(f"  {known:>6}  {of_known}{expected['known']}")
    if summary["n_new_categories"]:
        sizes = f"largest: {summary['largest_new']}, {count(summary['largest_new_size'], 'image')}"
        if summary["n_new_categories"] > 1:
            sizes += f"; smallest: {summary['smallest_new']}, {summary['smallest_new_size']}"
        categories = count(summary["n_new_categories"], "new category", "new categories")
        included = ", unsure ones included" if summary.get("n_unsure") else ""
        lines.append(f"  {new:>6}  fall into {categories} ({sizes}{included}){expected['new']}")
    else:
        lines.append(f"  {new:>6}  are new")
        if (summary.get("k_estimate") or {}).get("confidence") == "low":
            lines.append(
                "Careful: no new category was found, but the number of categories is uncertain. Set --k if you know it."
            )
    if summary.get("n_unsure"):
        lines.append(f"  {summary['n_unsure']:>6}  unsure ({summary['n_unsure'] / n:.0%}; change with --unsure)")
    lines += [*label_words(summary), *split_words(summary, most=SHOWN_SPLITS), *suspicion_words(summary)]
    if has_collapsed(summary):
        # Imported here: both bring much with them, and `nngcd --help` should not wait for it.
        from nngcd.core.components import find_component
        from nngcd.core.config import field_docs

        config = find_component("nngcd.methods", summary["method"], "Method").Config
        spreads = "entropy_weight" in field_docs(config)
        advice = "Try a larger --k, or --set loss.entropy_weight=4." if spreads else "Try another --k."
        share = f"{summary['largest_share']:.0%} of them, unsure ones included,"
        lines.append(f"Careful (T04): {share} fell into one category. {advice}")
    return lines


def has_collapsed(summary: Summary) -> bool:
    """Return whether nearly all unlabelled images fell into one category, where there are enough of them to tell."""
    if summary["k"] == 1 or summary["n_unlabelled"] < COLLAPSE_IMAGES:
        return False
    return bool(summary["largest_share"] > COLLAPSE_SHARE)


COLLAPSE_SHARE = 0.6
COLLAPSE_IMAGES = 10
"""With fewer images, most may well belong to one category."""


def held_back_words(summary: Summary) -> list[str]:
    """Return how right the model is on labels it did not know, and what that does not cover."""
    facts, n_unchecked = summary["held_back"], summary["n_unchecked_categories"]
    if facts is None:
        accuracy = "" if "scores" in summary else " and the accuracy is not known"
        return [f"The confidence is not calibrated{accuracy}: {summary['not_calibrated']}."]
    lines = [held_back_sentence(facts)]
    if n_unchecked:
        lines.append(
            f"{n_unchecked} of the {summary['n_known_categories']} known categories have too few labelled images to "
            f"check (D10); all of them were used for training."
        )
    if summary["n_new_categories"]:
        lines.append("The accuracy on new categories is an estimate: there are no labels to confirm it.")
    return lines


def label_error_words(summary: Summary) -> list[str]:
    """Return how many given labels look wrong."""
    n = summary["n_possible_label_errors"]
    what = "1 of your labelled images looks" if n == 1 else f"{n} of your labelled images look"
    return [f"{what} like another category (column possible_label_error). Your labels are kept."] if n else []


def trust_words(confidence: Summary) -> list[str]:
    """Return how far confidence and novelty can be trusted, where the truth is known."""
    lines = []
    for kind, right in RIGHT.items():
        if (found := confidence[kind]) is not None:
            lines.append(
                f"Rows called {kind} ({found['n']:,}): the mean confidence is {found['stated']:.2f}, and "
                f"{found['right']:.0%} {right}."
            )
    for name, words in (("novelty_auroc", "all rows"), ("novelty_auroc_known", "rows called known")):
        if confidence[name] is not None:
            lines.append(f"Novelty, {words}: AUROC {confidence[name]:.3f} for not belonging to a known category.")
    return lines


def k_words(k: int, estimate: dict[str, Any]) -> list[str]:
    """Return how many categories there seem to be, and how far to trust it."""
    low, high, confidence = estimate["low"], estimate["high"], estimate["confidence"]
    trust = {
        "good": "good",
        "fair": "fair; treat it as a guide",
        "low": "low; look at the groups and set --k yourself",
    }
    at_edge = "T03: the interval reaches the end of the range. Try a wider one."
    seem = "There seems" if k == 1 else "There seem"
    interval = f" (between {low} and {high})" if low < high else ""
    return [
        f"{seem} to be about {count(k, 'category', 'categories')}{interval}, known and new together.",
        f"Confidence: {trust[confidence]} ({estimate['reason']}).",
        *([at_edge] * estimate["is_at_edge"]),
    ]


def score_words(scores: dict[str, Any]) -> list[str]:
    """Return the accuracy and the protocol it belongs to."""
    return [
        f"Accuracy  All {_number(scores['accuracy']['all'])}   Old {_number(scores['accuracy']['old'])}   "
        f"New {_number(scores['accuracy']['new'])}   NMI {scores['nmi']:.1f}   ARI {scores['ari']:.1f}",
        f"({scores['protocol']}; {scores['n_scored']} images)",
        *by_name_words(scores)[:1],
    ]


def by_name_words(scores: dict[str, Any]) -> list[str]:
    """Return how right the names are, and how well known and new are told apart."""
    parts = scores["by_name"]
    shown = [
        f"{words} {parts[name]:.1f} %"
        for name, words in (("old", "known categories"), ("new", "new ones"))
        if parts[name] is not None
    ]
    lines = [
        f"By name: {_number(parts['all'])} % of the images are right ({', '.join(shown)}). "
        "A known category is right only if it is the true class of that name."
    ]
    return [*lines, *(_called_words(kind, scores[f"called_{kind}"]) for kind in ("known", "new"))]


def _called_words(kind: str, called: dict[str, float | None]) -> str:
    share, true_share = _number(called["share"]), _number(called["true_share"])
    words = f"Called {kind}: {share} % of the images; {true_share} % truly are {kind}."
    if called["precision"] is not None:
        words += f" Precision {called['precision']:.1f} %."
    if called["recall"] is not None:
        words += f" Recall {called['recall']:.1f} %."
    return words


def review_words(scores: dict[str, Any], n_edits: int) -> list[str]:
    """Return whether the edits of a run's review are in its scores; nothing for a run without edits."""
    if not n_edits:
        return []
    edits = f"the {count(n_edits, 'edit')} in the review of this run"
    if not scores.get("is_reviewed"):
        return [f"All scores are for the model alone: {edits} {'is' if n_edits == 1 else 'are'} not counted."]
    n = scores["n_rejected"]
    rejected = f" {count(n, 'rejected image')} {'is' if n == 1 else 'are'} not scored." if n else ""
    whose = "Confidence and novelty are the model's. To score the model alone: --ignore-review"
    return [f"The accuracy includes {edits}.{rejected} {whose}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
