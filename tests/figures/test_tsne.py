from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nngcd.figures.subject import Grouping, UndrawableError
from nngcd.figures.tsne import IMAGES_PER_CLASS, draw, embed, shown_images


def test_a_class_has_its_marker_its_number_and_old_ones_are_filled(subject):
    axes = draw([subject]).panels[0][0]
    assert [one.get_label() for one in axes.collections] == ["1 old: ant", "2 old: bee", "3 new: cat", "4 new: dog"]
    assert [len(one.get_facecolor()) > 0 for one in axes.collections] == [True, True, False, False]
    shapes = {tuple(one.get_paths()[0].vertices.ravel().tolist()) for one in axes.collections}
    assert len(shapes) == 4
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3", "4"]
    assert [len(one.get_offsets()) for one in axes.collections] == [6, 6, 6, 6]


def test_only_wanted_classes_are_drawn(subject):
    axes = draw([replace(subject, wanted_classes=("dog", "ant"))]).panels[0][0]
    assert [one.get_label() for one in axes.collections] == ["1 old: ant", "2 new: dog"]


def test_separate_classes_lie_apart_and_the_seed_is_fixed(blobs):
    features, _, classes = blobs
    map_n2 = embed(features)
    centres = np.stack([map_n2[classes == c].mean(axis=0) for c in range(6)])
    nearest = np.linalg.norm(map_n2[:, None] - centres, axis=-1).argmin(axis=1)
    assert (nearest == classes).mean() > 0.95
    assert (embed(features) == map_n2).all()


def test_of_a_large_class_a_sample_is_shown():
    grouping = Grouping(np.repeat([0, 1], [900, 7]), ("a", "b"), 1, are_true=True)
    rows = shown_images(grouping, ())
    assert len(rows) == IMAGES_PER_CLASS + 7
    assert len(set(rows)) == len(rows)


def test_too_few_images_are_refused(subject):
    few = replace(subject.grouping, class_n=np.array([0, 0, 1]))
    with pytest.raises(UndrawableError, match="at least 5 images"):
        shown_images(few, ())
