from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest

from nngcd.core.components import component_names, find_component
from nngcd.core.errors import ResourceError
from nngcd.research.figures import page as page_module
from nngcd.research.figures.page import FigurePage, check_matplotlib, plain_style

NAMES = component_names("nngcd.research.figures", "draw")


def test_the_figures_are_those_of_the_paper_and_the_parts_are_none():
    assert NAMES == ("activation", "attention", "cooccurrence", "curves", "gelu", "tsne")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_draws_runs_side_by_side_with_their_facts(pair, name):
    draw = find_component("nngcd.research.figures", name, "draw").draw
    with plain_style():
        first, second = (draw(pair).render("svg", 50) for _ in range(2))
    assert first == second
    text = " ".join(ET.fromstring(first).itertext())
    if name != "gelu":
        assert "ours: method nngcd" in text
        assert "theirs: method simgcd" in text


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_every_format_is_the_same_every_time(form, start):
    with plain_style():
        first, second = (FigurePage(3, 2, ["A caption."]).render(form, 50) for _ in range(2))
    assert first.startswith(start)
    assert first == second


def test_a_long_caption_is_broken_and_makes_the_page_longer():
    short, long = FigurePage(4, 2, ["word"]), FigurePage(4, 2, ["word " * 100])
    assert long.figure.get_figheight() > short.figure.get_figheight() + 0.5
    text = long.figure.subfigs[1].texts[0].get_text()
    assert max(map(len, text.split("\n"))) <= 4 * page_module.CHARACTERS_PER_INCH


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(page_module, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r'pip install "nngcd\[plot\]"'):
        check_matplotlib()


def test_drawing_leaves_pyplot_alone(subject):
    was_imported = "matplotlib.pyplot" in sys.modules
    with plain_style():
        find_component("nngcd.research.figures", "gelu", "draw").draw([subject]).render("png", 40)
    assert ("matplotlib.pyplot" in sys.modules) == was_imported
