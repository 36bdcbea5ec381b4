from __future__ import annotations

from dataclasses import replace

import pytest

from nngcd.research.figures.curves import caption, draw
from nngcd.research.figures.subject import UndrawableError


def test_every_term_is_a_line_and_the_learning_rate_has_its_own_panel(subject):
    terms, rates = draw([subject]).panels[0]
    assert [line.get_label() for line in terms.lines] == ["contrast", "loss"]
    assert terms.lines[0].get_xydata().tolist() == [[1, 2], [2, 1]]
    assert rates.lines[0].get_ydata().tolist() == [0.1, 0.1]


def test_a_term_of_one_run_alone_keeps_all_other_lines_alike(pair):
    more = [{"epoch": 0, "extra": 1.0, **line} for line in pair[1].epochs]
    first, second, _ = draw([pair[0], replace(pair[1], epochs=more)]).panels[0]
    colours = [{line.get_label(): line.get_color() for line in axes.lines} for axes in (first, second)]
    assert set(colours[1]) - set(colours[0]) == {"extra"}
    assert all(colours[1][name] == colours[0][name] for name in colours[0])
    assert first.get_ylim() == second.get_ylim()


def test_methods_that_are_not_trained_have_no_curves(pair):
    untrained = [replace(one, epochs=[]) for one in pair]
    with pytest.raises(UndrawableError, match="no epochs recorded for ours and theirs"):
        draw(untrained)
    assert len(draw([untrained[0], pair[1]]).panels[0]) == 2
    assert "ours is not trained." in caption([untrained[0], pair[1]])


def test_the_caption_says_why_there_is_no_accuracy(subject):
    assert "Accuracy by epoch is not recorded" in caption([subject])[0]
