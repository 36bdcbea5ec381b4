from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nngcd.research.figures.subject import Grouping, UndrawableError
from nngcd.research.figures.tsne import IMAGES_PER_CLASS, draw, embed, shown_images


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


def legends(page):
    """Return the lines of the legend of each panel, or None where it has none."""
    found = [axes.get_legend() for axes in page.panels[0]]
    return [legend and [text.get_text() for text in legend.get_texts()] for legend in found]


def test_true_classes_of_two_runs_have_one_legend(pair):
    page = draw(pair)
    assert legends(page) == [None, ["1 old: ant", "2 old: bee", "3 new: cat", "4 new: dog"]]
    assert page.caption[0].startswith("t-SNE of the features of 24 images of 4 classes by true class (")
    assert "new-001" not in page.caption[0]


@pytest.mark.slow
def test_found_categories_of_two_runs_have_a_legend_and_a_count_each(subject):
    ours = Grouping(np.arange(24) % 3, ("ant", "bee", "new-001"), 2, are_true=False)
    large = Grouping(np.repeat([0, 1, 2], 300), ("ant", "new-001", "new-002"), 1, are_true=False)
    theirs = replace(subject, name="theirs", grouping=large, features_nd=np.eye(3, dtype=np.float32)[large.class_n])
    page = draw([replace(subject, grouping=ours), theirs])
    assert legends(page) == [
        ["1 old: ant", "2 old: bee", "3 new: new-001"],
        ["1 old: ant", "2 new: new-001", "3 new: new-002"],
    ]
    assert "ours: 24 images of 3 classes by found category" in page.caption[0]
    assert "theirs: 600 images of 3 classes by found category" in page.caption[0]
    assert "new categories of two runs, such as new-001, differ" in page.caption[0]


def test_found_categories_of_the_same_names_are_not_the_same(pair):
    found = [replace(one, grouping=replace(one.grouping, are_true=False)) for one in pair]
    assert None not in legends(draw(found))
    assert legends(draw(found[:1])) == [["1 old: ant", "2 old: bee", "3 new: cat", "4 new: dog"]]


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
