"""The methods of a benchmark by their names, with what can be added to them, and which do not fit the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nngcd.backbones import RANDOM
from nngcd.checking.effort_times import fit_seconds
from nngcd.core.components import component_names, find_component
from nngcd.core.errors import ConfigError, ResourceError
from nngcd.core.words import duration
from nngcd.data.split import Split
from nngcd.research.grid import Variant
from nngcd.settings import ADDED, Settings

HEADS = {"gcd": {"n_directions": 0}, "simgcd": {"n_projection": 0}, "selex": {"n_directions": 8192}}
"""Heads of the published methods in the ball, for preset `official`."""
AS_IN_SCRIPTS = {"rescale": False, "capped": False}
"""Settings of EAGC's scripts, for the same preset."""
PUBLISHED_WITH = ("gcd+hypcd", "simgcd+hypcd", "selex+hypcd", "simgcd+eagc", "legogcd+eagc", "selex+eagc")
"""Those that their authors have published."""
LONGEST = 3600.0
"""Seconds of a run that `all` still makes; only of methods whose network sees new views in every epoch."""


def every_name() -> list[str]:
    """Return the names of all methods, and of those that were published with something added."""
    return [*component_names("nngcd.methods", "Method"), *PUBLISHED_WITH]


def lineup(names: Sequence[str], preset: str) -> list[Variant]:
    """Return a row for each name."""
    return [_variant(name, preset) for name in names]


def method_of(name: str) -> str:
    """Return the method to which a name may add something."""
    return name.partition("+")[0]


def _variant(name: str, preset: str) -> Variant:
    method, *added = name.split("+")
    values: dict[str, Any] = {"method": method}
    if method in ADDED:
        raise ConfigError("--method", name, f"is not a method; add it to one, for example simgcd+{method}")
    for one in added:
        if one not in ADDED:
            raise ConfigError("--method", name, f"'{one}' cannot be added. Choose from: {', '.join(ADDED)}")
        values |= ADDED[one]
    if "hypcd" in added and preset == "official":
        values["loss"] = {**values["loss"], **HEADS.get(method, {})}
    if "eagc" in added and preset == "official":
        values["eagc"] = {**values["eagc"], **AS_IN_SCRIPTS}
    return Variant(name, values)


def missing_packages(variants: Sequence[Variant]) -> dict[str, str]:
    """Return why some methods cannot run here at all, by name."""
    reasons = {}
    for variant in variants:
        try:
            find_component("nngcd.methods", variant.values["method"], "Method").Method.check_machine()
        except ResourceError as error:
            reasons[variant.name] = str(error)
    return reasons


def why_unfit(settings: Settings, split: Split) -> str | None:
    """Return why a run would say nothing about its method, or take too long on this machine; None if neither."""
    if settings.weights == str(RANDOM):
        return "it needs a ViT, and its default one has random weights, which say nothing. Give one with --backbone."
    if settings.views.n_kept is None and split.images is not None:
        seconds = fit_seconds(split, settings)
        if seconds > LONGEST:
            return f"a run would take about {duration(seconds)} here. To run it, name it with --method."
    return None
