"""The parts of the page that are words and numbers, as HTML; every name is data and is escaped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from html import escape
from pathlib import PurePath
from typing import Any

import yaml

from nngcd.core.config import flatten
from nngcd.report.charts import k_chart, legend, loss_chart, loss_lines
from nngcd.report.findings import Findings
from nngcd.report.matrix import Matrix
from nngcd.report.trust import expected, move_list
from nngcd.results.sentences import number_words, sample_words

MOST_PROBLEMS = 200
"""Problems listed on the page; problems.csv lists all."""
TRUST = {
    "good": "The true number is most likely inside this interval.",
    "fair": "Treat this number as a guide.",
    "low": "Do not rely on this number: look at the groups below, and set it yourself with <code>--k</code>.",
}


def subtitle(findings: Findings) -> str:
    """Return data, method and date in one line."""
    summary, settings = findings.summary, findings.settings
    data = settings.get("dataset") or PurePath(str(settings.get("data") or "arrays")).name
    parts = [f"data {data}", f"method {summary['method']}", f"effort {summary['effort']}"]
    if finished := str(summary.get("finished", ""))[:10]:
        parts.append(finished)
    return escape(" · ".join(parts))


def found(findings: Findings) -> str:
    """Return what was found: two sentences, a bar and a row of numbers."""
    free = findings.results[~findings.is_labelled_n]
    counts = {status: int((free["status"] == status).sum()) for status in ("known", "new", "unsure")}
    is_known = findings.categories["kind"] == "known"
    # As in summary.json: a category that holds only unsure images counts as well.
    n_new = free.loc[~free["category"].isin(findings.categories["id"][is_known]), "category"].nunique()
    n_known = int(is_known.sum())
    lead = [sample_words(findings.assigned)] if findings.assigned else []
    lead.append(f"{_images(len(free))} without a label {'was' if len(free) == 1 else 'were'} sorted.")
    if n_known:
        which = "the known category" if n_known == 1 else f"one of the {n_known:,} known categories"
        lead.append(f"{counts['known']:,} look like {which};")
    if n_new:
        groups = "one new category" if n_new == 1 else f"{n_new:,} new categories"
        included = ", unsure images included" if counts["unsure"] else ""
        lead.append(f"{counts['new']:,} fall into {groups}{included}.")
    else:
        lead.append("no new category was found.")
    if counts["unsure"]:
        lead.append(f"{counts['unsure']:,} are unsure: they could belong to several categories.")
    if _is_edited(findings):
        lead.append("Categories and names are as you corrected them in the review.")
    tiles = [
        ("labelled by you", findings.is_labelled_n.sum(), ""),
        ("look known", counts["known"], "known"),
        ("look new", counts["new"], "new"),
        *([("unsure", counts["unsure"], "unsure")] if counts["unsure"] else []),
        (f"categories, {n_known:,} known + {n_new:,} new", n_known + n_new, ""),
        *([("files not used", n_bad, "")] if (n_bad := findings.summary.get("n_unreadable", 0)) else []),
    ]
    boxes = "".join(
        f'<div class="tile {kind}"><dd>{int(value):,}</dd><dt>{name}</dt></div>' for name, value, kind in tiles
    )
    numbers = f'{_bar(counts)}<dl class="tiles">{boxes}</dl>'
    right = f"{expected(findings)}{_accuracy(findings)}{move_list(findings.summary)}"
    return f'<p class="lead">{" ".join(lead)}</p>{numbers}{right}'


def _bar(counts: Mapping[str, int]) -> str:
    """Return the shares of known, new and unsure images as one bar."""
    total, at, parts = sum(counts.values()), 0.0, []
    for name, count in counts.items():
        width = 100 * count / total if total else 0.0
        parts.append(f'<rect class="{name}" x="{at:.2f}" width="{width:.2f}" height="3"/>')
        at += width
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    head = '<svg class="bar" viewBox="0 0 100 3" preserveAspectRatio="none" role="img"'
    return f'{head} aria-label="Unlabelled images: {words}">{"".join(parts)}</svg>' if total else ""


def _accuracy(findings: Findings) -> str:
    scores = findings.summary.get("scores")
    if not scores:
        return (
            '<p class="quiet">Whether new categories are right cannot be measured without true labels; look at them '
            "below. With true labels: <code>nngcd evaluate RUN --truth TRUE_LABELS.csv</code></p>"
        )
    parts = {"all": "all", "old": "known", "new": "new"}
    shares = [
        f"{value:.1f} % of {words} images" if name == "all" else f"{value:.1f} % of those of {words} categories"
        for name, words in parts.items()
        if (value := scores["accuracy"].get(name)) is not None
    ]
    protocol = escape(str(scores["protocol"]))
    before = "; for the model alone, without the edits of the review" if _is_edited(findings) else ""
    words = f"Compared with the true labels, {', '.join(shares)} are right."
    return f'<p>{words} <span class="quiet">({protocol}{before})</span></p>{_by_name(scores)}'


def _is_edited(findings: Findings) -> bool:
    """Return whether a person has edited the run."""
    return "review_action" in findings.results and bool(findings.results["review_action"].notna().any())


def _by_name(scores: dict[str, Any]) -> str:
    """Return how right the names are, and how many images are called known; nothing for runs that do not say it."""
    if "by_name" not in scores:
        return ""
    called = scores["called_known"]
    return (
        f"<p>By name, {_number(scores['by_name']['all'])} % are right: a known category is right only if it is the "
        f"true class of that name. {_number(called['share'])} % are called known; {_number(called['true_share'])} % "
        "truly are.</p>"
    )


def how_many(findings: Findings) -> str:
    """Return K, its interval and the curve it was read from."""
    estimate, final = findings.k_estimate, findings.summary.get("k", len(findings.categories))
    if estimate is None:
        return f'<p class="lead">{final:,} categories, known and new together. The number was given, not estimated.</p>'
    edge = (
        "<p>The interval reaches the end of the range. Try a wider one with <code>--k</code>.</p>"
        if estimate.is_at_edge
        else ""
    )
    chart = (
        f"<figure>{k_chart(estimate)}<figcaption>How well each number of categories fits (method "
        f"{escape(estimate.method)}). Shaded: the interval.</figcaption></figure>"
        if len(estimate.curve) > 1
        else ""
    )
    moves = "".join(f"<p>{escape(line)}</p>" for line in number_words(findings.summary))
    return (
        f'<div class="columns"><div><p class="lead">About <strong class="number">{final:,}</strong> categories, '
        f"known and new together; likely {estimate.low:,} to {estimate.high:,}.</p>{moves}"
        f'<p>Confidence: <strong>{estimate.confidence}</strong> <span class="quiet">({escape(estimate.reason)})</span>.'
        f" {TRUST[estimate.confidence]}</p>{edge}</div>{chart}</div>"
    )


def similarity(matrix: Matrix) -> str:
    """Return the co-occurrence picture and what its numbers mean."""
    found, known = matrix.statistics, 100 * matrix.known_share
    rows = [
        ("two images of one known category", found.old_within),
        ("two images of one new category", found.new_within),
        ("two different known categories", found.old_between),
        ("two different new categories", found.new_between),
        ("a known and a new category", found.old_new),
    ]
    table = "".join(
        f"<tr><th scope=row>{name}</th><td>{round(mean, 2) + 0.0:.2f}</td></tr>" for name, mean in rows if mean == mean
    )
    line = f'<path d="M{known:.2f} 0V100M0 {known:.2f}H100"/>' if 0 < known < 100 else ""
    return (
        '<div class="columns"><figure class="matrix"><div class="frame">'
        f'<img src="{matrix.uri}" alt="Similarity of all images, ordered by category: dark blocks on the diagonal are '
        'categories whose images resemble each other">'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{line}</svg></div>'
        f"<figcaption>Every image against every other: known categories first, then new ones, each by size. The lines "
        f"separate known from new. Light: {matrix.lowest:.2f}, dark: {matrix.highest:.2f}. Dark squares on the "
        "diagonal are compact categories; dark patches off it are categories that resemble each other."
        "</figcaption></figure><div><table><caption>Mean similarity, from -1 to 1</caption>"
        f"<tbody>{table}</tbody></table><p>Within a category the similarity should be high, between categories low. "
        "Two categories that resemble each other may be one.</p></div></div>"
    )


def training(findings: Findings) -> str:
    """Return the terms of the loss by epoch."""
    lines = [line for line in loss_lines(findings.epochs) if line.points]
    if not lines:
        return f"<p>The method {escape(str(findings.summary['method']))} groups images without training.</p>"
    n_epochs = len(findings.epochs)
    return (
        f'<div class="columns"><figure>{loss_chart(lines)}<figcaption>Mean over each of {n_epochs} epochs, with the '
        f'weights in the loss.</figcaption></figure><div><ul class="legend">{legend(lines)}</ul><p class="quiet">'
        "The number after each name is the last value. If a curve still falls steeply at the end, more epochs "
        "(<code>--effort</code>, <code>--set training.epochs=N</code>) may help.</p></div></div>"
    )


def problems(findings: Findings, without_picture: Mapping[int, str]) -> str:
    """Return the files that were not used, and the images that could not be shown."""
    table = findings.problems
    parts = []
    if len(table):
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in table.head(MOST_PROBLEMS).itertuples(index=False)
        )
        heads = "".join(f"<th scope=col>{escape(str(name)).replace('_', ' ')}</th>" for name in table.columns)
        more = len(table) - MOST_PROBLEMS
        rest = f"<p>problems.csv lists {more:,} more.</p>" if more > 0 else ""
        count = f"{len(table):,} {'file' if len(table) == 1 else 'files'} could not be used as they are"
        parts.append(
            f'<p>{count}:</p><div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}'
            f"</tbody></table></div>{rest}"
        )
    if without_picture:
        row, reason = next(iter(without_picture.items()))
        name = escape(str(findings.results["file_name"].iloc[row]))
        parts.append(
            f"<p>{_images(len(without_picture))} could not be shown, for example {name}: {escape(reason)} Their "
            "results above are from the run.</p>"
        )
    return "".join(parts) or "<p>None: all files could be read and were used.</p>"


def making(findings: Findings) -> str:
    """Return how the run was made: facts, scores with their protocol, command, settings and versions."""
    summary, environment = findings.summary, findings.environment
    seconds, peak = summary.get("seconds"), summary.get("peak_gb") or {}
    facts = {
        "Method": f"{summary['method']}, preset {summary['preset']}, effort {summary['effort']}",
        "Backbone": summary["backbone"],
        "Data": findings.settings.get("data") or "arrays",
        "Seed": summary["seed"],
        "Images": f"{len(findings.results):,}, {int(findings.is_labelled_n.sum()):,} of them labelled",
        "Time": f"{seconds:,.0f} s" if seconds else None,
        "Peak memory": ", ".join(f"{gb} GB {kind.upper()}" for kind, gb in peak.items() if gb) or None,
        "When": " to ".join(_time(t) for t in (environment.get("started"), summary.get("finished")) if t),
        "Split hash": summary.get("split_hash"),
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    command = environment.get("command")
    typed = f"<h3>Command</h3><pre>{escape(_typed(command))}</pre>" if command else ""
    versions = "".join(
        f"<tr><th scope=row>{escape(str(name))}</th><td>{escape(str(version))}</td></tr>"
        for name, version in environment.get("versions", {}).items()
    )
    all_settings = yaml.safe_dump(findings.settings, sort_keys=False, allow_unicode=True)
    return (
        f'<dl class="facts">{rows}</dl>{_score_table(summary.get("scores"))}{typed}'
        f"<details><summary>All {len(flatten(findings.settings))} settings</summary><pre>{escape(all_settings)}</pre>"
        f"</details><details><summary>Versions</summary><table><tbody>{versions}</tbody></table></details>"
    )


def _time(text: str) -> str:
    """Return a time as people write it: 2026-11-16 09:44 UTC."""
    return text[:16].replace("T", " ") + (" UTC" if text.endswith("+00:00") else "")


def _typed(command: list[str]) -> str:
    """Return a command line as somebody types it, whatever file the program was started from."""
    return shlex.join(["nngcd", *(str(word) for word in command[1:])])


def _score_table(scores: dict[str, Any] | None) -> str:
    if not scores:
        return ""
    titles = {
        "accuracy": "accuracy (one match over all, v2)",
        "accuracy_v1": "accuracy (two matches, v1)",
        "balanced_accuracy": "accuracy, mean over classes",
        "by_name": "accuracy, by name",
    }
    rows = "".join(
        f"<tr><th scope=row>{title}</th>"
        + "".join(f"<td>{_number(scores[name].get(p))}</td>" for p in ("all", "old", "new"))
        + "</tr>"
        for name, title in titles.items()
        if name in scores
    )
    return (
        "<h3>Scores against the true labels</h3><table><thead><tr><th scope=col>per cent</th><th scope=col>All</th>"
        f"<th scope=col>Known</th><th scope=col>New</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<p>NMI {scores['nmi']:.1f}, ARI {scores['ari']:.1f}, {scores['n_scored']:,} images. "
        f"Protocol: {escape(str(scores['protocol']))}.</p>"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _images(count: int) -> str:
    return "One image" if count == 1 else f"{count:,} images"
