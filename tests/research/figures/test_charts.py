import pytest

from nngcd.research.figures.charts import score_chart
from nngcd.research.figures.page import plain_style

SCORES = {"All": [[50.0, 52.0], [60.0, 60.0]], "Old": [[70.0], [71.0]], "New": [[40.0], [55.0]]}


def chart(values):
    places = None if isinstance(values[0], str) else values
    with plain_style():
        return score_chart("mu", [str(value) for value in values], places, SCORES, caption=["A caption."])


def test_numbers_lie_on_their_scale_and_lines_join_the_means():
    axes = chart([0.1, 0.7]).panels[0][0]
    line = axes.containers[0].lines[0]
    assert line.get_xdata().tolist() == [0.1, 0.7]
    assert line.get_ydata().tolist() == [51.0, 60.0]
    assert line.get_linestyle() == "-"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["All", "Old", "New"]


def test_bars_show_the_deviation_over_seeds():
    bars = chart([0.1, 0.7]).panels[0][0].containers[0].lines[2][0].get_segments()
    assert bars[0][:, 1].tolist() == pytest.approx([51 - 2**0.5, 51 + 2**0.5])
    assert bars[1][:, 1].tolist() == [60.0, 60.0]


def test_names_stand_side_by_side_and_no_line_joins_them():
    axes = chart(["none", "a+b"]).panels[0][0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "a +\nb"]
    assert {container.lines[0].get_linestyle() for container in axes.containers} == {"None"}
    assert len({container.lines[0].get_xdata()[0] for container in axes.containers}) == 3


def test_lines_are_told_apart_without_colour():
    containers = chart([1.0, 2.0]).panels[0][0].containers
    assert len({container.lines[0].get_marker() for container in containers}) == 3
    assert len({container.lines[0].get_linestyle() for container in containers}) == 3
