import math
from types import SimpleNamespace

import pytest

from nngcd.core import ranges
from nngcd.core.errors import ConfigError

NUMBERS = (-1, -0.5, 0, 0.5, 1, 1.5, 2, math.inf)


@pytest.mark.parametrize(
    ("check", "right", "what"),
    [
        (ranges.check_positive, (0.5, 1, 1.5, 2), "positive and finite"),
        (ranges.check_not_negative, (0, 0.5, 1, 1.5, 2), "finite and not negative"),
        (ranges.check_finite, (-1, -0.5, 0, 0.5, 1, 1.5, 2), "finite"),
        (ranges.check_share, (0, 0.5, 1), r"in \[0, 1\]"),
        (ranges.check_share_below_one, (0, 0.5), r"in \[0, 1\)"),
        (ranges.check_at_least_one, (1, 1.5, 2), "at least 1"),
    ],
)
def test_each_check_knows_its_numbers(check, right, what):
    for value in NUMBERS:
        if value in right:
            check(SimpleNamespace(fine=0.5, asked=value), "asked")
        else:
            with pytest.raises(ConfigError, match=f"asked = {value}: must be {what}"):
                check(SimpleNamespace(asked=value), "asked")
    check(SimpleNamespace(asked=None), "asked")
    with pytest.raises(ConfigError, match="asked = nan"):
        check(SimpleNamespace(asked=math.nan), "asked")


def test_every_name_is_checked():
    with pytest.raises(ConfigError, match="second = -1"):
        ranges.check_positive(SimpleNamespace(first=1, second=-1), "first", "second")
