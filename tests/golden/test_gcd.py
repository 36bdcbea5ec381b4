from __future__ import annotations

import pytest
from golden_numbers import assert_agrees, classes, normal, rows

from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon


@pytest.mark.parametrize("row", rows("gcd", "info_nce"))
def test_info_nce(row):
    z_vbd = normal(row["seed"], *row["shape"])
    assert_agrees(row, info_nce(z_vbd, temperature=row["temperature"]), z_vbd)


@pytest.mark.parametrize("row", rows("gcd", "supcon"))
def test_supcon(row):
    z_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    assert_agrees(row, supcon(z_vbd, labels_b, temperature=row["temperature"]), z_vbd)
