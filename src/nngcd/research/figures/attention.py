"""Where the class token looks: attention maps of three heads of the last block, for some old and some new images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nngcd.core.seeds import numpy_generator
from nngcd.research.figures.marks import HEAT
from nngcd.research.figures.page import FigurePage
from nngcd.research.figures.subject import Grouping, chosen_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nngcd.research.drawing import Subject

N_IMAGES_EACH, N_HEADS, SEED = 3, 3, 0
CELL = 1.0
OLD_FRAME, NEW_FRAME = ("#007a3d", "-"), ("#c1121f", (0, (3, 2)))


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return a row per image: the image, then three heads of each run.

    Raises:
        UndrawableError: a run's backbone has no class token, or its images are not available.
    """
    for subject in subjects:
        subject.check_attention()
    grouping = subjects[0].grouping
    rows = shown_images(grouping, subjects[0].wanted_classes)
    maps = [subject.attention(rows) for subject in subjects]
    heads = [chosen_heads(found.maps_bhpp.shape[1]) for found in maps]
    n_columns = 1 + sum(len(chosen) for chosen in heads)
    page = FigurePage(
        CELL * n_columns + 0.9, CELL * len(rows) + 0.3, caption(subjects, heads), shape=(len(rows), n_columns)
    )
    for index, row in enumerate(rows):
        cells = iter(page.panels[index])
        _image(next(cells), maps[0].views_bhwc[index], grouping, row)
        for subject, found, chosen in zip(subjects, maps, heads, strict=True):
            for head in chosen:
                title = f"{subject.name}\nhead {head + 1}" if index == 0 else ""
                _map(next(cells), found.maps_bhpp[index, head], title)
    return page


def shown_images(grouping: Grouping, wanted: Sequence[str]) -> list[int]:
    """Return the first image of each shown class: of those wanted, or of the largest old and the largest new ones."""
    classes = chosen_classes(grouping, wanted, N_IMAGES_EACH)
    firsts = [np.flatnonzero(grouping.class_n == class_)[:1] for class_ in classes]
    return [int(row) for first in firsts for row in first]


def chosen_heads(n_heads: int) -> list[int]:
    """Return three heads drawn at random with a fixed seed, as the paper draws them; the same for all runs."""
    drawn = numpy_generator(SEED, "heads").permutation(n_heads)[:N_HEADS]
    return sorted(int(head) for head in drawn)


def caption(subjects: Sequence[Subject], heads: Sequence[Sequence[int]]) -> list[str]:
    """Return what is seen."""
    shown = ", ".join(str(head + 1) for head in heads[0])
    what = (
        f"Attention of the class token in the last block, heads {shown} (drawn at random with seed {SEED}); each map "
        f"from 0 (dark) to its own largest value (light). Images by {subjects[0].grouping.words}: solid frames are old "
        "classes, dashed ones new."
    )
    return [what, *(subject.facts for subject in subjects)]


def _image(axes: Axes, view_hwc: NDArray[np.uint8], grouping: Grouping, row: int) -> None:
    axes.imshow(view_hwc)
    class_ = int(grouping.class_n[row])
    is_old = class_ < grouping.n_old
    colour, line = OLD_FRAME if is_old else NEW_FRAME
    axes.set_ylabel(f"{'old' if is_old else 'new'}: {grouping.names[class_][:14]}", fontsize=7)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linestyle=line, linewidth=2)


def _map(axes: Axes, map_pp: NDArray[np.float32], title: str) -> None:
    axes.imshow(map_pp, cmap=HEAT, vmin=0, interpolation="nearest")
    axes.set_title(title, fontsize=7)
    axes.axis("off")
