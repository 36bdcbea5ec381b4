from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from nngcd.research.figures.subject import Activations, AttentionMaps, Grouping


@pytest.fixture(autouse=True)
def _matplotlib():
    pytest.importorskip("matplotlib")


@dataclass(frozen=True)
class Drawable:
    """A subject made of arrays: 4 classes of 6 images on 4 axes, two of them old, in mixed order."""

    name: str = "ours"
    facts: str = "ours: method nngcd, seed 0, K = 4, 24 images."
    wanted_classes: tuple[str, ...] = ()
    grouping: Grouping = None
    features_nd: np.ndarray = None
    activations: Activations = None
    epochs: list = field(default_factory=list)

    def check_attention(self):
        pass

    def attention(self, rows):
        maps = np.random.default_rng(0).random((len(rows), 4, 2, 2), dtype=np.float32)
        views = np.stack([np.full((8, 8, 3), row, dtype=np.uint8) for row in rows])
        return AttentionMaps(views, maps)


@pytest.fixture
def subject():
    class_n = np.arange(24) % 4
    features_nd = np.eye(4, dtype=np.float32)[class_n] + 0.01 * np.arange(24, dtype=np.float32)[:, None]
    lines = [{"epoch": e, "contrast": 2 - e, "loss": 3.0 - e, "learning_rate": 0.1, "seconds": 1} for e in range(2)]
    return Drawable(
        grouping=Grouping(class_n, ("ant", "bee", "cat", "dog"), n_old=2, are_true=True),
        features_nd=features_nd,
        activations=Activations(features_nd, "projection with gelu"),
        epochs=lines,
    )


@pytest.fixture
def pair(subject):
    return [subject, replace(subject, name="theirs", facts="theirs: method simgcd.", features_nd=-subject.features_nd)]
