"""A new run on the data of a reviewed one, with a person's decisions as labels: `nngcd fit --from-review RUN`."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pandas as pd

from nngcd.core import config
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import write_text
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.core.words import argument, count, quoted
from nngcd.data.decisions import REJECTED, read_decisions
from nngcd.review.reviewed import decisions, reviewed_results, undecided
from nngcd.review.session import round_of

_WORDS = {
    "given": "already had a label",
    "approved": "are in categories that were approved",
    "named": "are in new categories that were named",
    "moved": "were moved by hand",
    "merged": "were merged into a known category",
}
_KEPT = ("data", "dataset", "reading", "seed", "k", "backbone", "weights", "image_size", "device", "workers",
         "unsure", "hold_back")  # fmt: skip
"""Settings that hold for any method and effort."""


def values_from_review(path: Path, asked: config.Values, progress: Progress) -> config.Values:
    """Return the settings of a run that learns from the review of another; what is asked for goes first.

    The labels are written next to the edit log, under a name made from their content, so later edits do not change the
    new run.

    Raises:
        ConfigError: data are asked for, which the reviewed run brings.
        DataError: nothing was reviewed.
    """
    for name, flag in (("data", "DATA"), ("dataset", "--dataset")):
        if asked.get(name) is not None:
            raise ConfigError("--from-review", str(path), f"uses the run's own data and settings; leave out {flag}")
    run = RunFolder.open(path)
    reviewed = reviewed_results(run)
    table = decisions(reviewed)
    if not reviewed.n_edits:
        raise DataError(
            f"{run.path} has no edits ({run.edits} not found), so there is nothing new to learn. Correct it "
            f"first: nngcd review {argument(run.path)}"
        )
    before = read_config(run)
    table = _with_earlier_rejections(table, (before.get("reading") or {}).get("decisions"))
    text = table.to_csv(index=False, lineterminator="\n")
    file = run.edits.with_name(f"labels-{hashlib.sha256(text.encode()).hexdigest()[:12]}.csv")
    if not file.is_file():
        write_text(file, text)
    is_other = any(asked.get(name, before.get(name)) != before.get(name) for name in ("method", "preset", "effort"))
    kept = {name: value for name, value in before.items() if name in _KEPT} if is_other else before
    own: config.Values = {"reading": {"decisions": str(file.resolve()), "round": round_of(run) + 1}}
    if str(before.get("k")).isdecimal():
        # The number that was given, less the categories that merging took away, and those that splitting made.
        own["k"] = len(reviewed.state.live)
    for line in [*_words(Counter(table["source"]), len(table)), *_undecided_words(undecided(reviewed))]:
        progress.tell(line)
    return config.merge(kept, own, asked)


def _with_earlier_rejections(table: pd.DataFrame, decisions_before: str | None) -> pd.DataFrame:
    """Return the decisions with those about images that an earlier review had taken out of the data already."""
    if not decisions_before:
        return table
    earlier = read_decisions(Path(decisions_before))
    return pd.concat([table, earlier[~earlier["image_id"].isin(table["image_id"])]], ignore_index=True)


def _words(counts: Counter[str], n_images: int) -> list[str]:
    n_labelled = sum(counts[source] for source in _WORDS)
    lines = [f"{n_labelled} of {n_images} images have a label now:"]
    lines += [f"  {counts[source]:>6}  {words}" for source, words in _WORDS.items() if counts[source]]
    return lines + (
        [f"Left out: {counts[REJECTED]} rejected {'image' if counts[REJECTED] == 1 else 'images'}"]
        if counts[REJECTED]
        else []
    )


def _undecided_words(sizes: dict[str, int]) -> list[str]:
    if not sizes:
        return []
    images, stay = count(sum(sizes.values()), "image"), "stays" if sum(sizes.values()) == 1 else "stay"
    categories, them = ("a category", "it") if len(sizes) == 1 else (f"{len(sizes)} categories", "them")
    return [
        f"{images} in {categories} that you merged or split {stay} unlabelled ({quoted(list(sizes))}). To train on "
        f"{them}, name or approve {them} first."
    ]
