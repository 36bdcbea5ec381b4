from __future__ import annotations

import numpy as np
import pytest

from nngcd.core.errors import DataError
from nngcd.research.figures.subject import Grouping, chosen_classes

GROUPING = Grouping(np.array([0, 1, 1, 2, 2, 2, 3, 4, 4]), ("a", "bee", "c", "d", "e", "unused"), 3, are_true=True)


def test_the_largest_old_and_new_classes_are_chosen_old_ones_first():
    assert chosen_classes(GROUPING, (), 2) == [1, 2, 3, 4]
    assert chosen_classes(GROUPING, (), 1) == [2, 4]
    assert chosen_classes(GROUPING, (), 9) == [0, 1, 2, 3, 4]


def test_wanted_classes_are_chosen_by_name():
    assert chosen_classes(GROUPING, ("d", "a", "d"), 2) == [0, 3]
    with pytest.raises(DataError, match=r"no class 'be'\. Did you mean 'bee'\? There are 6 classes"):
        chosen_classes(GROUPING, ("be",), 2)


def test_the_order_goes_from_old_to_new_and_keeps_images_of_a_class_together():
    shuffled = Grouping(np.array([2, 0, 1, 0, 2]), ("a", "b", "c"), 1, are_true=False)
    assert shuffled.order.tolist() == [1, 3, 2, 0, 4]
    assert "not available" in shuffled.words
