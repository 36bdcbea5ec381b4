from __future__ import annotations

import time

from nngcd.cli import run_display
from nngcd.core.progress import Progress


def test_a_stage_that_stands_still_is_told_of_once(monkeypatch, capsys):
    monkeypatch.setattr(run_display, "SECONDS_OF_SILENCE", 0.1)
    with run_display.Watched(Progress(), 2) as watched:
        time.sleep(0.3)  # between stages nobody waits for anybody
        watched.start("training", 3)
        watched.advance()
        time.sleep(0.4)
        watched.finish()
    err = capsys.readouterr().err
    assert err.count("no progress for") == 1
    assert "another of the 2 processes" in err
