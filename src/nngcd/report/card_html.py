"""Cards as HTML; every name is data and is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import median

import pandas as pd

from nngcd.report.cards import Card, Neighbour
from nngcd.report.findings import Findings
from nngcd.report.thumbnails import Thumbnails

FEWEST_KNOWN = 3
"""Known categories with a cohesion that others are compared with."""


def card_html(
    card: Card, findings: Findings, thumbnails: Thumbnails, entries: Mapping[int, int], tightness: str
) -> str:
    """Return the card of a category."""
    category = findings.categories.iloc[card.category]
    name, kind = str(category["name"]), str(category["kind"])
    values = {
        "name": name, "id": category["id"], "kind": kind, "size": card.size, "unsure": card.n_unsure,
        "errors": card.n_label_errors, "cohesion": _plain(card.cohesion), "confidence": _plain(card.median_confidence),
    }  # fmt: skip
    attributes = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in values.items())
    was = "" if name == category["id"] else f' <span class="quiet">{escape(str(category["id"]))}</span>'
    pictures = _strip("typical", card.typical, findings, thumbnails, entries) + _strip(
        "doubtful", card.doubtful, findings, thumbnails, entries
    )
    return (
        f'<article class="card {kind}" id="c{card.category}" {attributes}>'
        f'<header><h3>{escape(name)}{was}</h3><span class="badge {kind}">{kind}</span></header>'
        f'<p class="size">{_size(card)}</p>{pictures}<dl>{_facts(card, findings, tightness)}</dl>'
        f'<p class="tools"><button type="button" class="link on-map" data-category="{card.category}">Show on the map'
        "</button></p></article>"
    )


def cohesion_words(cards: Sequence[Card], kinds: Sequence[str]) -> list[str]:
    """Return for each card how tight its category is compared with the known ones; empty where that is not known."""
    known = [card.cohesion for card in cards if kinds[card.category] == "known" and card.cohesion is not None]
    if len(known) < FEWEST_KNOWN:
        return ["" for _ in cards]
    middle, lowest = median(known), min(known)

    def word(cohesion: float | None) -> str:
        if cohesion is None:
            return ""
        if cohesion >= middle:
            return "as tight as most known categories"
        return "looser than most known categories" if cohesion >= lowest else "looser than every known category"

    return [word(card.cohesion) for card in cards]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _size(card: Card) -> str:
    parts = [f"<strong>{card.size:,}</strong> {'image' if card.size == 1 else 'images'}"]
    if card.n_labelled:
        parts.append(f"{card.n_labelled:,} labelled by you")
    if card.n_unsure:
        parts.append(f"{card.n_unsure:,} unsure")
    if card.n_label_errors:
        parts.append(f"{card.n_label_errors:,} possible label {'error' if card.n_label_errors == 1 else 'errors'}")
    return " · ".join(parts)


def _facts(card: Card, findings: Findings, tightness: str) -> str:
    facts = []
    if card.cohesion is not None:
        comment = f' <span class="quiet">{tightness}</span>' if tightness else ""
        facts.append(("Cohesion", f"{card.cohesion:.2f}{comment}"))
    if card.median_confidence is not None:
        facts.append(("Median confidence", f"{card.median_confidence:.2f}"))
    for title, neighbours in (("Nearest known", card.nearest_known), ("Nearest new", card.nearest_new)):
        if neighbours:
            facts.append((title, " · ".join(_neighbour(one, findings) for one in neighbours)))
    return "".join(f"<div><dt>{title}</dt><dd>{text}</dd></div>" for title, text in facts)


def _neighbour(neighbour: Neighbour, findings: Findings) -> str:
    name = escape(str(findings.categories["name"].iloc[neighbour.category]))
    similarity = round(neighbour.similarity, 2) + 0.0
    return f'<a href="#c{neighbour.category}">{name}</a> <span class="quiet">{similarity:.2f}</span>'


def _strip(
    title: str, rows: Sequence[int], findings: Findings, thumbnails: Thumbnails, entries: Mapping[int, int]
) -> str:
    if not rows:
        return ""
    shown = "".join(
        _thumb(findings.results.iloc[row], thumbnails.by_row.get(row), entries[row], is_doubtful=title == "doubtful")
        for row in rows
    )
    kind = "strip" if findings.pictures.images is not None else "strip names"
    return f'<h4>{title}</h4><div class="{kind}">{shown}</div>'


def _thumb(result: pd.Series, uri: str | None, entry: int, *, is_doubtful: bool) -> str:
    name = escape(str(result["file_name"]))
    picture = (
        f'<img src="{uri}" alt="{name}" data-entry="{entry}" loading="lazy" decoding="async">'
        if uri
        else f'<span class="no-picture">{escape(str(result["file_name"]).rsplit("/", 1)[-1])}</span>'
    )
    mark = ""
    if is_doubtful:
        words = "label?" if result["possible_label_error"] else format(result["confidence"], ".2f")
        mark = f'<span class="mark">{words}</span>'
    return f'<button type="button" class="thumb" data-entry="{entry}" title="{name}">{picture}{mark}</button>'
