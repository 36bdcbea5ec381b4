from __future__ import annotations

from dataclasses import replace

import numpy as np

from nngcd.research.figures.attention import chosen_heads, draw, shown_images


def test_a_row_is_an_image_and_three_heads_of_each_run(pair):
    page = draw(pair)
    assert (len(page.panels), len(page.panels[0])) == (4, 1 + 3 + 3)
    assert page.panels[0][1].get_title() == "ours\nhead 1"
    for index, (row, panels) in enumerate(zip(shown_images(pair[0].grouping, ()), page.panels, strict=True)):
        assert np.asarray(panels[0].images[0].get_array()).max() == row
        maps = pair[0].attention(range(4)).maps_bhpp[index]
        shown = [np.asarray(panel.images[0].get_array()) for panel in panels[1:4]]
        assert all((one == maps[head]).all() for one, head in zip(shown, chosen_heads(4), strict=True))


def test_old_images_have_solid_and_new_ones_dashed_frames(subject):
    images = [row[0] for row in draw([subject]).panels]
    lines = [axes.spines["left"].get_linestyle() for axes in images]
    assert [line == "-" for line in lines] == [True, True, False, False]
    assert [axes.get_ylabel()[:3] for axes in images] == ["old", "old", "new", "new"]


def test_wanted_classes_are_shown(subject):
    assert shown_images(subject.grouping, ("dog", "bee")) == [1, 3]
    assert len(draw([replace(subject, wanted_classes=("dog",))]).panels) == 1


def test_heads_are_the_same_every_time_and_no_more_than_there_are():
    assert chosen_heads(12) == chosen_heads(12)
    assert len(chosen_heads(12)) == 3
    assert chosen_heads(2) == [0, 1]
