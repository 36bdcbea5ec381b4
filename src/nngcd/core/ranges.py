"""Which numbers a setting may be: checked when a `Config` is made, so before anything long begins.

Each check takes the config and the names of the settings it is about; a setting that is absent (None) passes, and what
is no number (NaN) never does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from nngcd.core.errors import ConfigError

MOST = 1_000_000
"""Of epochs, images in a batch, hidden units or anything else that is counted in settings."""


def check_positive(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are positive and finite."""
    _check(config, names, "positive and finite", lambda value: 0 < value < math.inf)


def check_not_negative(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are finite and not negative."""
    _check(config, names, "finite and not negative", lambda value: 0 <= value < math.inf)


def check_finite(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are finite."""
    _check(config, names, "finite", math.isfinite)


def check_share(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are in [0, 1]."""
    _check(config, names, "in [0, 1]", lambda value: 0 <= value <= 1)


def check_share_below_one(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are in [0, 1)."""
    _check(config, names, "in [0, 1)", lambda value: 0 <= value < 1)


def check_at_least_one(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these are at least 1, and at most a million: more of anything is a slip."""
    _check(config, names, f"at least 1 and at most {MOST:,}", lambda value: 1 <= value <= MOST)


def _check(config: object, names: Iterable[str], what: str, is_right: Callable[[float], bool]) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not is_right(value):
            raise ConfigError(name, value, f"must be {what}")
