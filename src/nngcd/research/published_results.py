"""Published numbers: the tables of the NN-GCD paper, with what is wrong with some of them, and methods after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

UNCHECKED = "Not compared with the paper itself."
Scores: TypeAlias = tuple[float, float, float]
"""Accuracy in percent on all unlabelled images, on those of old and on those of new classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A row of a printed table."""

    scores: Scores
    """As printed."""
    backbone: str
    """The pre-training, by the short name of `--backbone`."""
    source: str
    """The table or page."""
    selection: str
    """The epoch that it is of: the last one, or the best one by some labels."""
    erratum: str | None = None
    """Error in the row, conflict with another one, or that nobody has checked it."""
    corrected: Scores | None = None
    """The scores that must have been meant; only where the printed numbers determine them."""


def published_results(dataset: str, method: str, *, pretraining: str = "dino") -> Published | None:
    """Return what the paper's Tables II, III and IV say of a method, or a page about a later one; None if nothing."""
    for part in _tables()["results"]:
        row = part["datasets"].get(dataset, {}).get(method)
        if row is not None and part["pretraining"] == pretraining:
            source = f"NN-GCD, Table {part['table']}" if "table" in part else part["source"]
            return _published(row, method=method, backbone=pretraining, source=source)
    return None


def published_ablation() -> dict[frozenset[str], Published]:
    """Return Table V: means over CUB, Stanford Cars and Aircraft, by the components NN-GCD adds to SimGCD.

    The components are `non-negative`, `nmf-nce` and `sparse`; the empty set is SimGCD.
    """
    part = _tables()["ablation"]
    return {
        frozenset(row["components"]): _published(
            row,
            # Without components it is SimGCD, as printed there.
            method="nngcd" if row["components"] else "simgcd",
            backbone=part["pretraining"],
            source="NN-GCD, Table V",
        )
        for row in part["rows"]
    }


def published_pretraining(dataset: str, name: str) -> Published | None:
    """Return what Table VI says of NN-GCD on a pre-trained backbone; None when it says nothing."""
    part = _tables()["pretrainings"]
    row = part["datasets"].get(dataset, {}).get(name)
    return None if row is None else _published(row, backbone=name, source="NN-GCD, Table VI")


def _published(row: list[float] | dict[str, Any], *, method: str = "nngcd", backbone: str, source: str) -> Published:
    values: dict[str, Any] = row if isinstance(row, dict) else {"printed": row}
    corrected = values.get("corrected")
    return Published(
        scores=tuple(values["printed"]),
        backbone=backbone,
        source=source,
        selection=_tables()["selections"][method],
        erratum=values.get("erratum") if values.get("is_checked", True) else UNCHECKED,
        corrected=None if corrected is None else tuple(corrected),
    )


@cache
def _tables() -> dict[str, Any]:
    text = files("nngcd.research").joinpath("published_results.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables
