from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from nngcd.core.errors import ConfigError
from nngcd.core.ranges import (
    AtLeastOne,
    Checked,
    Finite,
    NotNegative,
    Positive,
    Share,
    ShareBelowOne,
    WholeFromOne,
    WholeNotNegative,
)

NUMBERS = (-1, -0.5, 0, 0.5, 1, 1.5, 2, math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers(Checked):
    positive: Positive = 0.5
    not_negative: NotNegative | None = None
    finite: Finite = 0
    share: Share = 0
    share_below_one: ShareBelowOne = 0
    whole_not_negative: WholeNotNegative = 0
    whole_from_one: WholeFromOne = 1
    at_least_one: AtLeastOne | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class More(Numbers):
    group = "loss."
    second: Share = 0.5


@pytest.mark.parametrize(
    ("name", "right", "what"),
    [
        ("positive", (0.5, 1, 1.5, 2), "positive and finite"),
        ("not_negative", (0, 0.5, 1, 1.5, 2), "finite and not negative"),
        ("finite", (-1, -0.5, 0, 0.5, 1, 1.5, 2), "finite"),
        ("share", (0, 0.5, 1), r"in \[0, 1\]"),
        ("share_below_one", (0, 0.5), r"in \[0, 1\)"),
        ("whole_not_negative", (0, 0.5, 1, 1.5, 2), "finite and not negative"),
        ("whole_from_one", (1, 1.5, 2), "at least 1"),
        ("at_least_one", (1, 1.5, 2), "at least 1 and at most 1,000,000"),
    ],
)
def test_each_type_knows_its_numbers(name, right, what):
    for value in NUMBERS:
        if value in right:
            Numbers(**{name: value})
        else:
            with pytest.raises(ConfigError, match=f"^{name} = {value}: must be {what}"):
                Numbers(**{name: value})
    with pytest.raises(ConfigError, match=f"^{name} = nan"):
        Numbers(**{name: math.nan})


def test_inherited_settings_are_checked_under_the_name_of_their_group():
    with pytest.raises(ConfigError, match=r"^loss.second = -1"):
        More(second=-1)
    with pytest.raises(ConfigError, match=r"^loss.positive = 0"):
        More(positive=0)
