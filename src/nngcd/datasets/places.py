"""The folders of benchmarks on this machine: a small user file, written by `nngcd data add`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nngcd.core.errors import DataError, NoSuchDataError, UserError, did_you_mean
from nngcd.core.files import write_json
from nngcd.datasets.published_splits import published_names


def places_file() -> Path:
    """Return the file: in `$NNGCD_HOME`, else in `nngcd` in the user's configuration folder."""
    home = os.environ.get("NNGCD_HOME")
    if home:
        return Path(home) / "datasets.json"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "nngcd" / "datasets.json"


def known_places() -> dict[str, str]:
    """Return the folder of every benchmark that was added; nothing is checked."""
    path = places_file()
    try:
        places = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise _damaged(path, "expected a folder for each name")
    return places


def place_of(name: str) -> Path | None:
    """Return the folder a benchmark was added with; None when it was not, or when it needs none.

    Raises:
        DataError: the folder is no longer there, or the file is damaged.
    """
    if name not in published_names():
        return None
    place = known_places().get(name)
    if place is not None and not Path(place).is_dir():
        raise NoSuchDataError(
            f"D01: '{name}' was added as '{place}', which is no longer a folder. "
            f"Say where it is now: nngcd data add {name} NEW_ROOT"
        )
    return None if place is None else Path(place)


def remember_place(name: str, root: Path) -> None:
    """Record where a benchmark is; all other entries stay, even those of benchmarks unknown here."""
    # Read only now, not before the minutes of checking: another process may have added something meanwhile.
    write_json(places_file(), known_places() | {name: str(root.resolve())})


def check_benchmark(name: str) -> None:
    """Raise `UserError` unless the name is a benchmark whose files are in a folder."""
    if name == "digits":
        raise UserError("'digits' comes with nngcd and needs no folder: nngcd fit digits")
    names = published_names()
    if name not in names:
        raise UserError(f"unknown benchmark '{name}'.{did_you_mean(name, names)} Choose from: {', '.join(names)}.")


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"'{path}' is damaged ({reason}). Repair it, or delete it and add the data again: nngcd data add")
