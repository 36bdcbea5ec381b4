from __future__ import annotations

import pytest
from golden_numbers import TOLERANCE, assert_agrees, clusters, rows

from nngcd.methods import pim
from nngcd.settings import resolve

OFFICIAL = resolve({"method": "pim", "preset": "official", "effort": "full"}).loss


@pytest.mark.parametrize("row", rows("pim", "information_loss"))
def test_information_loss(row):
    unit_nd, _, labels_n, start_kd = clusters(row)
    start_kd.requires_grad_()
    logits_nk = OFFICIAL.scale * unit_nd @ start_kd.T
    loss = pim.information_loss(logits_nk, labels_n, row["conditional_weight"], learns_labels=row["learns_labels"])
    assert_agrees(row, loss, start_kd)


@pytest.mark.parametrize("row", rows("pim", "steps"))
def test_steps_of_adam(row):
    unit_nd, _, labels_n, start_kd = clusters(row)
    config = pim.Config(n_steps=row["n_steps"], search_steps=row["n_steps"])
    weight_kd = pim.maximise_information(
        start_kd, unit_nd, labels_n, row["conditional_weight"], config, is_trial=row["is_trial"]
    )
    assert weight_kd.norm().item() == pytest.approx(row["weight_norm"], rel=TOLERANCE)
    assert (weight_kd - start_kd).norm().item() == pytest.approx(row["moved"], rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("row", rows("pim", "search"))
def test_lambda(row):
    unit_nd, _, labels_n, start_kd = clusters(row)
    config = pim.Config(search_steps=row["search_steps"], trials_continue=row["trials_continue"])
    found = pim.search_lambda(start_kd, unit_nd, labels_n, config)
    assert found == pytest.approx(row["lambda"], abs=TOLERANCE)


def test_official_searches_as_the_authors_do():
    assert (OFFICIAL.trials_continue, OFFICIAL.n_candidates, OFFICIAL.search_steps, OFFICIAL.n_steps) == (
        True, 20, 1000, 1000,
    )  # fmt: skip
