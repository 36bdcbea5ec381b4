import pytest
import torch

from nngcd.cli import running


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
    monkeypatch.setattr(running, "choose_device", lambda _: torch.device(device))
    assert running.values_from({"data": "digits", **more}, None, [])["effort"] == effort
