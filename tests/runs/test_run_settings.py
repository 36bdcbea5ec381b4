import pytest
import torch

from nngcd.core.errors import ConfigError
from nngcd.runs import run_settings


@pytest.mark.parametrize(
    ("device", "more", "effort"),
    [
        ("cpu", {}, "quick"),
        ("cpu", {"backbone": "dino"}, "quick"),
        ("cuda", {}, "quick"),
        ("cuda", {"backbone": "dino"}, "normal"),
        ("cuda", {"effort": "full"}, "full"),
        ("cuda", {"method": "promptcal"}, "normal"),
        ("cpu", {"method": "promptcal"}, "quick"),
    ],
)
def test_the_effort_suits_machine_and_backbone(monkeypatch, device, more, effort):
    monkeypatch.setattr(run_settings, "choose_device", lambda _: torch.device(device))
    assert run_settings.completed({"data": "digits", **more})["effort"] == effort


@pytest.mark.parametrize("name", run_settings.PATHS)
def test_a_path_that_is_a_number_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} = 3: must be text"):
        run_settings.completed({"data": "digits", name: 3})
