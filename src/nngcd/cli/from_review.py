"""`nngcd fit --from-review RUN`: a new run on the same data, with a person's decisions as labels."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from nngcd.cli import running
from nngcd.cli.display import say
from nngcd.core import config
from nngcd.core.counting import count
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import write_text
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.datasets.decisions import REJECTED, read_decisions
from nngcd.datasets.findings import quoted
from nngcd.review.reviewed import decisions, reviewed_results, undecided
from nngcd.review.session import round_of
from nngcd.settings import Settings

_WORDS = {
    "given": "were labelled before",
    "approved": "are in categories that were approved",
    "named": "are in new categories that were given a name",
    "moved": "were moved by hand",
    "merged": "were merged into a known category",
}
_KEPT = ("data", "dataset", "reading", "seed", "k", "backbone", "weights", "image_size", "device", "workers",
         "unsure", "hold_back")  # fmt: skip
"""Settings that hold for any method and effort."""


def settings_from_review(
    path: Path, flags: dict[str, Any], config_file: Path | None, assignments: list[str] | None, *, is_quiet: bool
) -> Settings:
    """Return the settings of a run that learns from the review of another; what the flags say goes first.

    The labels are written beside the edit log, under a name made from their content: later edits change nothing for the
    new run.

    Raises:
        ConfigError: data or settings are given, which the reviewed run brings.
        DataError: nothing was reviewed.
    """
    for name, value in {"DATA": flags["data"], "--dataset": flags["dataset"], "--config": config_file}.items():
        if value is not None:
            raise ConfigError("--from-review", str(path), f"brings its own data and settings; leave out {name}")
    run = RunFolder.open(path)
    reviewed = reviewed_results(run)
    table = decisions(reviewed)
    if not reviewed.n_edits:
        raise DataError(
            f"{run.path} has no edits ({run.edits} is not there), so there is nothing new to learn from. Correct it "
            f"first, in Python: with CategoryDiscovery.load('{run.path}').edit() as e: e.rename(...) (docs/review.md)."
        )
    before = read_config(run)
    table = _with_earlier_rejections(table, (before.get("reading") or {}).get("decisions"))
    text = table.to_csv(index=False, lineterminator="\n")
    file = run.edits.with_name(f"labels-{hashlib.sha256(text.encode()).hexdigest()[:12]}.csv")
    if not file.is_file():
        write_text(file, text)
    given = {name: value for name, value in flags.items() if value is not None}
    is_other = any(given.get(name, before.get(name)) != before.get(name) for name in ("method", "preset", "effort"))
    kept = {name: value for name, value in before.items() if name in _KEPT} if is_other else before
    own: config.Values = {"reading": {"decisions": str(file.resolve()), "round": round_of(run) + 1}}
    if str(before.get("k")).isdecimal():
        # The number that was given, less the categories that merging took away, and those that splitting made.
        own["k"] = len(reviewed.state.live)
    if not is_quiet:
        for line in [*_words(Counter(table["source"]), len(table)), *_undecided_words(undecided(reviewed))]:
            say(line)
    return running.settings_from(config.merge(kept, own, given), None, assignments or [])


def _with_earlier_rejections(table: pd.DataFrame, decisions_before: str | None) -> pd.DataFrame:
    """Return the decisions with those about images that an earlier review had taken out of the data already."""
    if not decisions_before:
        return table
    earlier = read_decisions(Path(decisions_before))
    return pd.concat([table, earlier[~earlier["image_id"].isin(table["image_id"])]], ignore_index=True)


def _words(counts: Counter[str], n_images: int) -> list[str]:
    n_labelled = sum(counts[source] for source in _WORDS)
    lines = [f"{n_labelled} of {n_images} images carry a label now:"]
    lines += [f"  {counts[source]:>6}  {words}" for source, words in _WORDS.items() if counts[source]]
    return lines + ([f"Left out: {counts[REJECTED]} rejected"] if counts[REJECTED] else [])


def _undecided_words(sizes: dict[str, int]) -> list[str]:
    if not sizes:
        return []
    images, stay = count(sum(sizes.values()), "image"), "stays" if sum(sizes.values()) == 1 else "stay"
    categories, them = ("a category", "it") if len(sizes) == 1 else (f"{len(sizes)} categories", "them")
    return [
        f"{images} in {categories} that you merged or split {stay} unlabelled ({quoted(list(sizes))}): name or approve "
        f"{them} first if a new run is to learn from that."
    ]
