"""A grid of runs: variants of the settings times seeds, one folder each, done once and found again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nngcd import backbones
from nngcd.core import config
from nngcd.core.components import find_component
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.run_folder import RunFolder, is_empty
from nngcd.core.run_reading import read_config
from nngcd.settings import Settings, flat_settings, resolve


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of a table: what is special about its settings."""

    name: str
    """Of the run folders."""
    values: Mapping[str, Any]
    label: str = ""
    """In the table; the name when empty."""
    told_by: str = ""
    """Where the user wrote its settings, for what is said of mistakes in them."""

    def __str__(self) -> str:
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the grid."""

    variant: Variant
    settings: Settings
    path: Path
    start: Path | None = None
    """The run of the same grid whose trained network this one begins with."""
    is_start: bool = False
    """Whether it is done only for those that start from it, and is not a row of the table."""

    @property
    def begun(self) -> RunFolder | None:
        """The folder of this run if it exists: finished, interrupted, or killed before it wrote its settings."""
        return RunFolder(self.path) if (self.path / "README.txt").is_file() else None

    @property
    def is_complete(self) -> bool:
        """Whether this run has come to its end."""
        return self.begun is not None and self.begun.is_complete


SMOKE: dict[str, dict[str, int]] = {
    "training": {"epochs": 2},
    "reading": {"n_images": 300},
    "eagc": {"reference_epochs": 2},
    "loss": {"n_steps": 20, "search_steps": 5, "n_candidates": 3},
}
"""Enough to see whether everything runs, and nothing else; of the losses' settings a method takes those it has."""


def make_grid(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    values: Mapping[str, Any],
    out: Path,
    *,
    is_smoke: bool = False,
) -> list[Cell]:
    """Return all runs, seed by seed, so that a grid that is stopped early has the first seeds of every variant.

    Raises:
        UserError: an impossible name or value, a method whose packages are not installed, or a folder that holds a
            run with other settings.
    """
    cells: list[Cell] = []
    for seed in seeds:
        for variant in variants:
            for cell in _cells_of(variant, seed, values, out, is_smoke=is_smoke):
                if not cell.is_start or all(cell.path != other.path for other in cells):
                    cells.append(cell)
    if out.exists() and not out.is_dir():
        raise ConfigError("--out", str(out), "is a file; give a folder")
    for cell in cells:
        _check_folder(cell, out)
    return cells


def _cells_of(variant: Variant, seed: int, values: Mapping[str, Any], out: Path, *, is_smoke: bool) -> list[Cell]:
    """Return a run, after the one it starts from where its method needs that and the user names none."""
    settings = _settings_of(variant, seed, values, is_smoke=is_smoke)
    method = find_component("nngcd.methods", settings.method, "Method").Method
    method.check_machine()
    backbones.check_name(settings.backbone)
    place, first = out / f"{variant.name}-{seed}", method.starts_from(settings.loss)
    if first is None or settings.init_from:
        return [Cell(variant, settings, place)]
    # In a table of methods this is the folder of that method's own row.
    name = first if variant.name == settings.method else f"{variant.name}-{first}"
    other = dataclasses.replace(variant, name=name, label="", values=_of_method(first, variant.values))
    start = Cell(
        other,
        _settings_of(other, seed, _of_method(first, values), is_smoke=is_smoke),
        out / f"{name}-{seed}",
        is_start=True,
    )
    begun = dataclasses.replace(variant, values={**variant.values, "init_from": str(start.path.resolve())})
    settings = _settings_of(begun, seed, values, is_smoke=is_smoke)
    return [start, Cell(variant, settings, place, start=start.path)]


def _of_method(method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for a method, with those of the loss that it has."""
    names = {field.name for field in dataclasses.fields(find_component("nngcd.methods", method, "Method").Config)}
    loss = {name: value for name, value in values.get("loss", {}).items() if name in names}
    return {**values, "method": method, "loss": loss}


def _settings_of(variant: Variant, seed: int, values: Mapping[str, Any], *, is_smoke: bool) -> Settings:
    def resolved(own: Mapping[str, Any]) -> Settings:
        asked = config.merge(values, own, {"seed": seed})
        return resolve(shortened(asked) if is_smoke else asked)

    try:
        return resolved(variant.values)
    except ConfigError as error:
        if not variant.told_by:
            raise
        # Unless the shared settings are already wrong, the mistake is the variant's own.
        resolved({"method": variant.values["method"]})
        raise ConfigError(f"{variant.told_by}, {error.name}", error.value, error.reason) from None


def shortened(asked: Mapping[str, Any]) -> config.Values:
    """Return settings with those of `SMOKE` where they say nothing themselves."""
    method = find_component("nngcd.methods", asked.get("method") or "nngcd", "Method")
    names = {field.name for field in dataclasses.fields(method.Config)}
    loss = {name: value for name, value in SMOKE["loss"].items() if name in names}
    return config.merge({**SMOKE, "loss": loss}, asked)


def read_summary(cell: Cell) -> dict[str, Any]:
    """Return the summary of a finished run."""
    try:
        return RunFolder(cell.path).read_summary()
    except DataError as error:
        raise damaged(cell, error) from error


def damaged(cell: Cell, reason: object) -> DataError:
    """Return the error for a run of the grid that cannot be read."""
    return DataError(f"{cell.path} is damaged ({reason}). Delete this folder and repeat the command.")


def _check_folder(cell: Cell, out: Path) -> None:
    if cell.begun is None:
        if cell.path.exists() and not is_empty(cell.path):
            raise DataError(f"{cell.path} exists but is not a run. Choose another --out than {out}.")
        return
    if not cell.begun.config.is_file():
        return
    try:
        there = flat_settings(resolve(read_config(cell.begun)))
    except ConfigError as error:
        raise damaged(cell, error) from error
    asked = flat_settings(cell.settings)
    if cell.start and Path(there["init_from"] or "").name == cell.start.name:
        # The start is in the same grid, whose folder may have been moved.
        there["init_from"] = asked["init_from"]
    other = [name for name in asked if there.get(name) != asked[name]]
    if other:
        name = other[0]
        raise DataError(
            f"{cell.path} holds a run with other settings ({name}: {there.get(name)}, now {asked[name]}). "
            f"Choose another --out than {out}."
        )
