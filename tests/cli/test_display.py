"""What is printed is plain text: names of files and categories cannot speak to the terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from nngcd.cli import display
from nngcd.core.errors import warn

CLEAR_SCREEN = "\x1b[2J"


@pytest.fixture
def terminal(monkeypatch):
    """Both consoles on a terminal of 80 columns; what was sent to it."""
    sent = io.StringIO()
    for name in ("OUT", "ERRORS"):
        monkeypatch.setattr(display, name, Console(file=sent, soft_wrap=True, force_terminal=True, width=80))
    return sent


@pytest.mark.parametrize("name", [r"a\[b", r"\[/bold]x", "[/bold]", "[red]x", ":bird:", "\\", "\udcff"])
def test_an_error_is_printed_as_it_is_written(nngcd, name):
    code, _, err = nngcd("check", f"/nowhere/{name}")
    assert code == 2
    assert f"/nowhere/{name}" in err.replace("\\udcff", "\udcff")


def test_names_of_files_do_not_steer_the_terminal(nngcd, image_folder, tmp_path):
    for name in (f"{CLEAR_SCREEN}.png", "\x9b2J.png", "a\rb.png", "\u202egnp.png"):
        (image_folder / "_unlabelled" / name).write_bytes(b"x")
    (image_folder / f"{CLEAR_SCREEN}").mkdir()
    code, out, err = nngcd("check", image_folder, "--no-times", "--out", tmp_path / "check", "--allow-bad", "0.5")
    assert code == 0
    for sent in (out, err):
        assert not any(one in sent for one in "\x1b\x9b\r\u202e")
    assert r"\x1b[2J" in out


def test_no_way_of_printing_lets_control_characters_through(terminal):
    say = f"{CLEAR_SCREEN}\x07\x9b"
    display.say(say)
    display.say_error(say)
    display.say_table([say], [[say]])
    display.show_warning(say, display.NngcdWarning, "", 0)
    with display.BarProgress(say) as progress:
        progress.start(say, 2)
        progress.advance(1, say)
        progress.tell(say)
        progress.finish(say)
    assert CLEAR_SCREEN not in terminal.getvalue()
    assert not any(one in terminal.getvalue() for one in "\x07\x9b")
    assert r"\x1b[2J\x07\x9b" in terminal.getvalue()


def test_json_says_the_same_in_its_own_way(terminal):
    display.say_json({"name": "\x9b2J\x7f ü"})
    assert json.loads(terminal.getvalue()) == {"name": "\x9b2J\x7f ü"}
    assert "\x9b" not in terminal.getvalue()


def test_a_bug_is_shown_as_plain_text(nngcd, monkeypatch):
    def broken(*_, **__):
        raise KeyError(CLEAR_SCREEN + r"\[x")

    monkeypatch.setattr("nngcd.checking.check.check_data", broken)
    code, _, err = nngcd("check", ".", "--out", "/nowhere")
    assert code == 1
    assert "This is a bug in nngcd" in err
    assert "\x1b" not in err


def test_a_note_is_printed_as_it_is_written(terminal, monkeypatch):
    monkeypatch.setattr("warnings.showwarning", display.show_warning)
    with pytest.warns(display.NngcdWarning):
        warn("plain")
    display.show_warning(r"a\[b] [/]", display.NngcdWarning, "", 0, sys.stderr)
    assert r"a\[b] [/]" in terminal.getvalue()


def test_programs_get_progress_as_json(monkeypatch, capsys):
    monkeypatch.setenv("NNGCD_PROGRESS", "json")
    monkeypatch.setattr(display, "OUT", Console(file=sys.stdout, soft_wrap=True))
    with display.progress_display(is_quiet=False) as progress:
        progress.tell("3 images have a label")
        progress.start("training", 4)
        progress.advance(1, "loss 2.0")
        progress.finish("done")
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [
        {"said": "3 images have a label"},
        {"stage": "training", "done": 0, "total": 4, "note": ""},
        {"stage": "training", "done": 4, "total": 4, "note": "done"},
    ]
