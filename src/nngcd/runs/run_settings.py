"""The settings of a new run: those the user asks for, completed with network, paths, effort and recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nngcd.backbones import OWN_BACKBONE
from nngcd.core import config, processes
from nngcd.core.device import choose_device
from nngcd.core.errors import DataError, UserError, warn
from nngcd.core.places import Place
from nngcd.datasets.published_splits import published_names
from nngcd.runs.parts import Plan
from nngcd.settings import Settings, resolve

PATHS = ("data", "weights", "init_from")
"""Settings that may be paths."""
AUTO = "auto"
NEEDS_NO_CHOICE = ("weights", "init_from", "dataset", "image_size")
"""Settings that belong to a certain network, or to a benchmark, whose results must not depend on what is cached."""


def settings_of(asked: config.Values, *, tell: Callable[[str], None]) -> Settings:
    """Return the settings of a new run: what is asked for, over recipe and effort, with a network if none is named."""
    return resolve(completed(with_backbone(asked, tell=tell)))


def completed(asked: config.Values) -> config.Values:
    """Return what is asked for with absolute paths, and the effort that suits the machine."""
    config.check_text(asked, PATHS)
    values = dict(asked)
    data = values.get("data")
    if not data:
        raise UserError("no data to sort. Give a folder, a .csv or .npz file, or `digits`.")
    if data in published_names() and not values.get("dataset") and Path(data).exists():
        warn(
            f"'{data}' is a folder here and is read as a folder of images. To use the benchmark of that name, add "
            f"--dataset {data} if this folder holds it; otherwise run the command from another folder."
        )
    for name in PATHS:
        # Absolute, so that a run can be resumed and evaluated from anywhere. A benchmark's name stays a name: a run
        # folder then works on machines where the data lie elsewhere, and when they are moved one `nngcd data add`
        # fixes all runs; that the images are the same is checked by the hash of the split.
        if values.get(name) and Path(values[name]).exists():
            values[name] = str(Path(values[name]).resolve())
    if str(values.get("k", "")).isdecimal():
        values["k"] = int(values["k"])  # typed, it is text
    if "effort" not in values:
        # Training a stage of our own backbone gains nothing over frozen features (docs/results/parts.md).
        is_fast = choose_device(values.get("device", "auto")).type != "cpu"
        # Not only the flag: the recipe of a method may also name a backbone.
        is_other = is_fast and resolve(values | {"effort": "normal"}).backbone != OWN_BACKBONE
        values["effort"] = "normal" if is_other else "quick"
    return values


def with_backbone(
    asked: config.Values, *, tell: Callable[[str], None], may_download: Callable[[str], bool] | None = None
) -> config.Values:
    """Return what is asked for with a network, the best that can be had here if the user names none.

    Args:
        asked: settings as the user gives them.
        tell: receives the sentence that names the network, and what a better one would cost.
        may_download: asked before anything is downloaded; when absent, nothing is.
    """
    if asked.get("backbone", AUTO) != AUTO:
        return asked
    values = {name: value for name, value in asked.items() if name != "backbone"}
    if not _is_open(values):
        return values
    from nngcd.backbones.choosing import choose_backbone  # the hub's library takes a while to import

    choice = choose_backbone(choose_device(values.get("device", "auto")), may_download=may_download)
    tell(choice.words)
    size = {"image_size": choice.image_size} if choice.image_size else {}
    return values | {"backbone": choice.name} | size


def _is_open(values: config.Values) -> bool:
    """Whether the data are the user's own images, and neither settings nor recipe name a network for them."""
    data = str(values.get("data") or "")
    if processes.count() > 1:  # each machine would choose for itself
        return False
    if any(values.get(name) for name in NEEDS_NO_CHOICE) or not (data and Path(data).exists()):
        return False
    if data in published_names() or Path(data).suffix in (".npz", ".npy") or _is_embedded(Path(data)):
        return False
    return resolve({name: values[name] for name in ("method", "preset") if name in values}).backbone == OWN_BACKBONE


def _is_embedded(folder: Path) -> bool:
    """Whether `nngcd embed` wrote a folder; a damaged plan is left to whoever reads the data."""
    try:
        plan = Plan.read(Place.of(str(folder)))
    except DataError:
        return False
    return plan is not None and plan.command == "embed"
