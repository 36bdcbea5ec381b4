"""The page itself: one HTML file that needs nothing else and can reach nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nngcd import __version__
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import write_text
from nngcd.core.progress import Progress
from nngcd.core.words import count
from nngcd.report import sections
from nngcd.report.card_html import card_html, cohesion_words
from nngcd.report.cards import Card, card_order, make_cards
from nngcd.report.findings import Findings
from nngcd.report.matrix import make_matrix
from nngcd.report.thumbnails import URI_START, Thumbnails, make_thumbnails
from nngcd.results.map import Map, make_map, sample

SCRIPTS = ("details.js", "cards.js", "map.js")
GRAIN = 10_000
"""Places on the map are whole numbers from 0 to this."""
MAX_IMAGES = 2000


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A written report: its file, size and thumbnails."""

    path: Path
    n_bytes: int
    n_categories: int
    n_thumbnails: int
    n_without_picture: int
    """Images that should have had a thumbnail and have none: gone, broken, or changed since the run."""
    why_no_pictures: str
    """Why there are no thumbnails at all; empty when there are."""


def write_report(
    findings: Findings,
    path: Path,
    *,
    max_images: int = MAX_IMAGES,
    may_lose_pictures: bool = True,
    progress: Progress | None = None,
) -> WrittenReport:
    """Write the report of a run, replacing an older one.

    Args:
        findings: what to tell.
        path: the HTML file.
        max_images: how many thumbnails there may be.
        may_lose_pictures: whether an older page may be replaced although it shows images that are gone since.
        progress: receives the stage `report`.

    Raises:
        ConfigError: the name is not that of a page, and may be that of something else; or `max_images` is negative.
        DataError: an older page shows what cannot be shown any more, and is kept.
        ResourceError: the file cannot be written.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError("path", str(path), "must end in .html")
    if max_images < 0:
        raise ConfigError("max_images", max_images, "must be at least 0")
    progress = progress or Progress()
    cards = make_cards(findings, max_images=max_images)
    thumbnails = _thumbnails(findings, cards, max_images, progress)
    if not may_lose_pictures:
        _refuse_to_lose_pictures(path, findings, thumbnails)
    map_ = make_map(findings.features_nd, findings.category_n, np.array(sorted(thumbnails.by_row), dtype=np.int64))
    text = page(findings, cards, thumbnails, map_)
    write_text(path, text)
    n_bytes = path.stat().st_size
    progress.finish(note=f"{path} ({n_bytes / 1e6:.1f} MB)")
    return WrittenReport(
        path, n_bytes, len(cards), len(thumbnails.by_row), len(thumbnails.problems), findings.pictures.why_none
    )


def _thumbnails(findings: Findings, cards: Sequence[Card], max_images: int, progress: Progress) -> Thumbnails:
    """Return pictures for the cards, and with what is left of the limit for points of the map."""
    images = findings.pictures.images
    on_cards = np.array([row for card in cards for row in (*card.typical, *card.doubtful)], dtype=np.int64)
    rows = sample(findings.category_n, on_cards, max_images).tolist() if images is not None else []
    progress.start("report", max(len(rows), 1))
    return Thumbnails() if images is None else make_thumbnails(images, findings.results, rows, progress)


def _refuse_to_lose_pictures(path: Path, findings: Findings, thumbnails: Thumbnails) -> None:
    """Raise `DataError` when images are gone or changed, and an older page shows more: it may be the last to do so."""
    gone, why = findings.results["file_name"].iloc[list(thumbnails.problems)], findings.pictures.why_none
    if not path.is_file() or not (len(gone) or why):
        return
    n_before, n_now = path.read_text(encoding="utf-8", errors="replace").count(URI_START), len(thumbnails.by_row)
    if n_before <= n_now:
        return
    reason = why or (
        f"{count(len(gone), 'image')} can no longer be shown, first '{gone.iloc[0]}'. Say where they are now: "
        "nngcd report RUN --root FOLDER"
    )
    raise DataError(
        f"W03: {path} shows {n_before:,} images, but a new page would show only {n_now:,}, so the old one is kept. "
        f"{reason}, write to another file with --out ANOTHER.html, or replace the old page with --overwrite."
    )


def page(findings: Findings, cards: Sequence[Card], thumbnails: Thumbnails, map_: Map | None) -> str:
    """Return the HTML of the report."""
    shown = {row for card in cards for row in (*card.typical, *card.doubtful)}
    on_map = [] if map_ is None else map_.rows.tolist()
    entries = {row: entry for entry, row in enumerate(sorted(shown.union(on_map)))}
    tightness = cohesion_words(cards, findings.categories["kind"].tolist())
    style, script = _asset("style.css"), "\n".join(_asset(name) for name in SCRIPTS)
    has_errors, has_unsure = any(c.n_label_errors for c in cards), any(c.n_unsure for c in cards)
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=escape(findings.title),
        subtitle=sections.subtitle(findings),
        style=style,
        script=script,
        version=escape(__version__),
        found=sections.found(findings),
        how_many=sections.how_many(findings),
        n_cards=f"{len(cards):,}",
        pictures=_about_pictures(findings, cards, thumbnails),
        more_filters=_more_filters(has_unsure=has_unsure, has_errors=has_errors),
        n_typical=max((len(card.typical) for card in cards), default=0),
        cards="\n".join(
            card_html(card, findings, thumbnails, entries, words) for card, words in zip(cards, tightness, strict=True)
        ),
        map_is_hidden="hidden" if map_ is None else "",
        map_words=_map_words(findings, map_),
        similarity=sections.similarity(make_matrix(findings)),
        training=sections.training(findings),
        n_problems=f"{len(findings.problems) + len(thumbnails.problems):,}",
        problems=sections.problems(findings, thumbnails.problems),
        making=sections.making(findings),
        data=_json(_data(findings, cards, thumbnails, map_, entries)),
    )


def _about_pictures(findings: Findings, cards: Sequence[Card], thumbnails: Thumbnails) -> str:
    """Return what the page shows of the images, and what it leaves out."""
    n_images, n_shown = len(findings.results), len(thumbnails.by_row)
    parts = []
    if findings.pictures.images is None:
        parts.append(f"No thumbnails. {findings.pictures.why_none}")
    elif n_shown < n_images:
        left = n_images - n_shown
        parts.append(
            f"{n_shown:,} of {n_images:,} images have a thumbnail on this page; {left:,} were left out (to see more: "
            "nngcd report RUN --max-images N)."
        )
    n_all = len(card_order(findings, np.bincount(findings.category_n, minlength=len(findings.categories))))
    if n_all > len(cards):
        parts.append(
            f"The {n_all - len(cards):,} smallest of {n_all:,} categories have no card; categories.csv lists them all."
        )
    return f'<p class="quiet">{escape(" ".join(parts))}</p>' if parts else ""


def _map_words(findings: Findings, map_: Map | None) -> str:
    if map_ is None:
        return "No map: it needs at least five different images."
    n_points, n_images = len(map_.rows), len(findings.results)
    what = f"All {n_images:,} images" if n_points == n_images else f"{n_points:,} of {n_images:,} images"
    rest = (
        f" {map_.n_laid_out:,} of them were laid out by t-SNE, the others placed next to the most similar of them."
        if map_.n_laid_out < n_points
        else " Layout by t-SNE."
    )
    return f"{what}, similar ones near each other.{rest}"


def _more_filters(*, has_unsure: bool, has_errors: bool) -> str:
    options = [("unsure", "with unsure images")] if has_unsure else []
    options += [("errors", "with possible label errors")] if has_errors else []
    return "".join(f'<option value="{value}">{words}</option>' for value, words in options)


def _data(
    findings: Findings, cards: Sequence[Card], thumbnails: Thumbnails, map_: Map | None, entries: dict[int, int]
) -> dict[str, Any]:
    """Return what the page's script needs: the categories, and of each shown image its facts and its place."""
    rows = list(entries)
    shown = findings.results.iloc[rows]
    names = dict(zip(findings.categories["id"], findings.categories["name"], strict=True))
    on_cards = {row for card in cards for row in (*card.typical, *card.doubtful)}
    places = _places(map_, entries)
    with_card = {card.category for card in cards}
    return {
        "categories": [
            [str(name), str(kind), int(index in with_card)]
            for index, (name, kind) in enumerate(findings.categories[["name", "kind"]].itertuples(index=False))
        ],
        "file": shown["file_name"].astype(str).tolist(),
        "category": findings.category_n[rows].tolist(),
        "status": shown["status"].astype(str).tolist(),
        "given": [None if label is None or label != label else str(label) for label in shown["label_given"]],
        "confidence": [_rounded(value) for value in shown["confidence"]],
        "novelty": [_rounded(value) for value in shown["novelty"]],
        "others": [
            [[str(names.get(row[f"alt_{rank}"], row[f"alt_{rank}"])), _rounded(row[f"alt_{rank}_p"])]
             for rank in (1, 2, 3) if isinstance(row.get(f"alt_{rank}"), str)]
            for row in shown.to_dict("records")
        ],
        "x": places[0],
        "y": places[1],
        # Pictures of cards are in the page already; without a map nothing asks for others.
        "thumbs": {
            entries[row]: uri for row, uri in thumbnails.by_row.items() if row in entries and row not in on_cards
        },
    }  # fmt: skip


def _places(map_: Map | None, entries: dict[int, int]) -> tuple[list[int], list[int]]:
    """Return both coordinates of every entry, -1 for those that are not on the map."""
    grains: NDArray[np.int64] = np.full((len(entries), 2), -1, dtype=np.int64)
    if map_ is not None:
        grains[[entries[row] for row in map_.rows.tolist()]] = np.rint(map_.places_n2 * GRAIN).astype(np.int64)
    return grains[:, 0].tolist(), grains[:, 1].tolist()


def _rounded(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


def _json(values: object) -> str:
    """Return JSON that can stand inside a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: this style, this script and embedded pictures, and nothing from anywhere."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_sha256(style)}'; script-src '{_sha256(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("nngcd.report").joinpath("assets", name).read_text(encoding="utf-8").strip()
