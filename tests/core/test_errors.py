"""Warnings point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from nngcd import CategoryDiscovery
from nngcd.core.errors import NngcdWarning, warn


def test_a_warning_points_at_the_line_that_called_nngcd():
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    discovery = CategoryDiscovery(20, method="kmeans")
    with pytest.warns(NngcdWarning) as caught:
        line = inspect.currentframe().f_lineno + 1
        discovery.fit(rows)
    assert len(caught) == 2
    assert {(each.filename, each.lineno) for each in caught} == {(__file__, line)}
    assert [str(each.message)[:3] for each in caught] == ["D05", "T02"]


def test_a_warning_called_from_outside_points_at_the_call():
    with pytest.warns(NngcdWarning, match="mind the step") as caught:
        warn("mind the step")
    assert caught[0].filename == __file__
