"""The settings of a new run: those the user asks for, completed with paths, effort and recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nngcd.backbones import OWN_BACKBONE
from nngcd.core import config
from nngcd.core.device import choose_device
from nngcd.core.errors import UserError, warn
from nngcd.datasets.published_splits import published_names
from nngcd.runs.network_choice import with_backbone
from nngcd.settings import Settings, resolve

PATHS = ("data", "weights", "init_from")
"""Settings that may be paths."""


def settings_of(asked: config.Values, *, tell: Callable[[str], None]) -> Settings:
    """Return the settings of a new run: what is asked for, over recipe and effort, with a network if none is named.

    Args:
        asked: settings as the user gives them.
        tell: receives a sentence about the network that was chosen.

    Raises:
        UserError: no data are named, or a setting has a name or value that it cannot have.
    """
    return resolve(completed(with_backbone(asked, tell=tell)))


def completed(asked: config.Values) -> config.Values:
    """Return what is asked for with absolute paths, and the effort that suits the machine.

    Raises:
        UserError: no data are named.
    """
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
