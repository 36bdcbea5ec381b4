"""Errors a person can act on: each names the thing, the value and the way out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


class UserError(Exception):
    """A mistake in what the user gave us; the CLI prints it without a traceback and exits with `exit_code`."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """A setting has a value it cannot have."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"{name} = {value!r}: {reason}")
        self.name, self.value, self.reason = name, value, reason

    def within(self, group: str) -> ConfigError:
        """Return the same error under the setting's full name, for example `loss.entropy_weight`."""
        return ConfigError(f"{group}.{self.name}", self.value, self.reason)


class DataError(UserError, ValueError):
    """The images, labels or tables cannot be used as they are."""

    exit_code = 3


class NoSuchDataError(DataError):
    """A file or folder is missing or may not be opened, most often because of a typing mistake."""

    exit_code = 2


class ResourceError(UserError):
    """Something the machine must offer is missing: memory, disk, a device, weights."""

    exit_code = 4


class TrainingError(UserError):
    """Training cannot go on, for example because the loss is no longer finite."""

    exit_code = 5


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C or by a request to end; it says what is kept and how to go on."""


class NngcdWarning(UserWarning):
    """Something the user should know that does not stop the work."""


def warn(text: str) -> None:
    """Tell the user something, as a warning of the line outside nngcd that led here.

    From Python 3.12 on, `skip_file_prefixes` does the same.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, NngcdWarning, stacklevel=level)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?`, or an empty string when nothing known resembles the name."""
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def did_you_mean_path(path: Path, is_wanted: Callable[[Path], bool]) -> str:
    """Return ` Did you mean 'folder/x'?` for a neighbour of the wanted kind of a path that does not exist."""
    try:
        beside = {sibling.name: sibling for sibling in sorted(path.parent.iterdir()) if is_wanted(sibling)}
    except OSError:
        return ""
    # By the last name alone: of two long paths in one folder most letters are the same.
    close = get_close_matches(path.name, [name for name in beside if not name.startswith(".")], n=1)
    return f" Did you mean '{beside[close[0]]}'?" if close else ""
