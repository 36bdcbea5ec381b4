from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nngcd.research.figures.cooccurrence import caption, draw


def test_classes_are_blocks_on_the_diagonal_old_ones_first(subject):
    image = np.asarray(draw([subject]).panels[0][0].images[0].get_array())
    assert image.shape == (24, 24)
    within = np.kron(np.eye(4), np.ones((6, 6))).astype(bool)
    assert image[within].min() > image[~within].max()


def test_the_border_stands_between_old_and_new(subject):
    class_n = np.repeat([0, 1, 2, 3], [3, 3, 9, 9])
    uneven = replace(subject, grouping=replace(subject.grouping, class_n=class_n))
    axes = draw([uneven]).panels[0][0]
    assert [line.get_xdata()[0] for line in axes.lines if line.get_xdata()[0] == line.get_xdata()[1]] == [5.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["old", "new"]


def test_two_runs_share_one_scale(pair):
    pair[1] = replace(pair[1], features_nd=np.ones((24, 4), dtype=np.float32))
    axes = draw(pair).panels[0]
    assert axes[0].images[0].get_clim() == axes[1].images[0].get_clim()
    assert axes[0].images[0].get_clim()[1] == pytest.approx(1)


def test_the_caption_gives_the_statistics(subject):
    pure = replace(subject, features_nd=np.eye(4)[subject.grouping.class_n])
    text = " ".join(caption([pure]))
    assert "within old classes 1.00, within new 1.00, between old 0.00" in text
    assert "100% of the pairs between old classes" in text
    assert "effective rank 4" in text
    assert "true class" in text
