from __future__ import annotations

import pytest
import torch

from nngcd.core.run_folder import RunFolder
from nngcd.pipeline import fit
from nngcd.settings import resolve

SMALL_HEAD = {"n_hidden": 16, "n_projection": 8, "n_directions": 0}
OWN_DRAWS = {
    "xcon": {"expert_images": "own", "n_experts": 3},
    "dccl": {"concept_images": "own", "concept_moves": "in_turn"},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", OWN_DRAWS)
def test_a_resumed_run_that_draws_its_own_images_equals_an_unbroken_one(blob_split, tmp_path, stop_after, method):
    training = {"epochs": 4, "batch_size": 48}
    settings = resolve({"method": method, "k": 6, "loss": SMALL_HEAD | OWN_DRAWS[method], "training": training})
    unbroken = fit(blob_split, settings)
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(blob_split, settings, run=run, progress=stop_after(2))
    assert torch.equal(fit(blob_split, settings, run=run).scores_nk, unbroken.scores_nk)
