import pytest
import torch

from nngcd.core.errors import ConfigError
from nngcd.runs import asking


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
    monkeypatch.setattr(asking, "choose_device", lambda _: torch.device(device))
    assert asking.completed({"data": "digits", **more})["effort"] == effort


@pytest.mark.parametrize("name", asking.PATHS)
def test_a_path_that_is_a_number_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} = 3: must be text"):
        asking.completed({"data": "digits", name: 3})
