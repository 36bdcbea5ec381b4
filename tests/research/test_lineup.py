from __future__ import annotations

import numpy as np
import pytest

from nngcd.core.config import merge
from nngcd.core.errors import ConfigError, ResourceError
from nngcd.data.image_arrays import ImageArrays
from nngcd.datasets.arrays import from_arrays
from nngcd.methods import dccl
from nngcd.research import lineup as rows
from nngcd.research.lineup import PUBLISHED_WITH, every_name, lineup, missing_packages, why_unfit
from nngcd.settings import resolve


@pytest.mark.parametrize("preset", ["default", "official"])
@pytest.mark.parametrize("name", PUBLISHED_WITH)
def test_what_was_published_together_works_together(name, preset):
    (variant,) = lineup([name], preset)
    chosen = resolve(merge({"preset": preset, "effort": "quick"}, variant.values))
    assert chosen.method == name.partition("+")[0]
    assert (chosen.loss.geometry == "poincare") == name.endswith("+hypcd")
    assert chosen.eagc.active == name.endswith("+eagc")


def test_the_heads_in_the_ball_are_the_published_ones_in_official_only():
    official, default = (lineup(["selex+hypcd"], preset)[0].values["loss"] for preset in ("official", "default"))
    assert official == {"geometry": "poincare", "n_directions": 8192}
    assert default == {"geometry": "poincare"}
    assert lineup(["simgcd+eagc"], "official")[0].values["eagc"] == {"active": True, "rescale": False, "capped": False}


def test_only_what_exists_can_be_added():
    with pytest.raises(ConfigError, match=r"--method = 'simgcd\+magic': 'magic' cannot be added. .*hypcd, eagc"):
        lineup(["simgcd+magic"], "default")
    with pytest.raises(ConfigError, match=r"--method = 'hypcd': is not a method; .* simgcd\+hypcd"):
        lineup(["hypcd"], "default")


def test_every_method_has_a_row_and_a_missing_package_is_named(monkeypatch):
    def missing(cls):
        raise ResourceError("DCCL needs Infomap")

    monkeypatch.setattr(dccl.Method, "check_machine", classmethod(missing))
    names = every_name()
    assert {"dccl", "selex", "protogcd", "legogcd+eagc"} < set(names)
    assert missing_packages(lineup(names, "default")) == {"dccl": "DCCL needs Infomap"}


def test_a_run_that_says_nothing_or_takes_hours_does_not_fit(monkeypatch):
    split = from_arrays(np.zeros((4, 2), dtype=np.float32), np.array([0, 1, -1, -1]))
    object.__setattr__(split, "images", ImageArrays(np.zeros((4, 8, 8), dtype=np.uint8)))
    assert "it needs a ViT" in why_unfit(resolve({"method": "promptcal", "effort": "quick"}), split)
    monkeypatch.setattr(rows, "fit_seconds", lambda split, settings: 7200.0)
    assert why_unfit(resolve({"method": "sptnet", "effort": "quick"}), split).startswith(
        "a run would take about 2 h here"
    )
    assert why_unfit(resolve({"method": "simgcd", "effort": "quick"}), split) is None
    monkeypatch.setattr(rows, "fit_seconds", lambda split, settings: 60.0)
    assert why_unfit(resolve({"method": "sptnet", "effort": "quick"}), split) is None
