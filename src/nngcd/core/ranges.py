"""Types that say which numbers a setting may be: `rate: Positive = 0.1`.

A settings class that is `Checked` refuses other numbers when it is made, so before anything long begins. A setting that
is absent (None) passes, and NaN never does.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

from nngcd.core.errors import ConfigError

MOST = 1_000_000
"""Of epochs, images in a batch, hidden units or anything else that is counted in settings."""


class Range(NamedTuple):
    """Which numbers a setting may be, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


NOT_NEGATIVE = Range("finite and not negative", lambda value: 0 <= value < math.inf)
FROM_ONE = Range("at least 1", lambda value: 1 <= value < math.inf)

Positive = Annotated[float, Range("positive and finite", lambda value: 0 < value < math.inf)]
NotNegative = Annotated[float, NOT_NEGATIVE]
Finite = Annotated[float, Range("finite", math.isfinite)]
Share = Annotated[float, Range("in [0, 1]", lambda value: 0 <= value <= 1)]
ShareBelowOne = Annotated[float, Range("in [0, 1)", lambda value: 0 <= value < 1)]
WholeNotNegative = Annotated[int, NOT_NEGATIVE]
FromOne = Annotated[float, FROM_ONE]
WholeFromOne = Annotated[int, FROM_ONE]
AtLeastOne = Annotated[int, Range(f"at least 1 and at most {MOST:,}", lambda value: 1 <= value <= MOST)]
"""More than a million is a mistake."""


class Checked:
    """Settings whose fields are compared with the ranges in their types."""

    __slots__ = ()
    # What stands before the names of these settings in messages, such as `training.`.
    group: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Raise `ConfigError` for the first number out of its range."""
        for name, kind in typing.get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            for found in _ranges(kind):
                if value is not None and not found.holds(value):
                    raise ConfigError(self.group + name, value, f"must be {found.words}")


def _ranges(kind: Any) -> list[Range]:  # noqa: ANN401 (any type, also one of several)
    """Return the ranges in a type, also within `X | None`."""
    inner = [found for part in typing.get_args(kind) for found in _ranges(part)]
    return [*inner, *(found for found in getattr(kind, "__metadata__", ()) if isinstance(found, Range))]
