"""The first look at a run's images keeps what its network needs of the large ones, so that none is decoded twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from nngcd.backbones import load_backbone
from nngcd.core import processes
from nngcd.data.shrinking import Shrinker
from nngcd.settings import Settings
from nngcd.views.preprocessing import Preprocessing


@contextmanager
def shrinking(settings: Settings) -> Iterator[Shrinker | None]:
    """Yield what shrinks large images while they are read; what it keeps goes at the end of the block.

    None with several processes, each of which reads all images but computes the features of its share.
    """
    if processes.count() > 1:
        yield None
        return
    with TemporaryDirectory(prefix="nngcd-images-", ignore_cleanup_errors=True) as folder:
        yield Shrinker(Path(folder), partial(_preprocessing, settings))


def _preprocessing(settings: Settings) -> Preprocessing:
    """Return how the network of a run wants its images."""
    own = load_backbone(settings.backbone, image_size=settings.image_size, pretrained=False).preprocessing
    return replace(own, image_size=round(max(settings.views.sizes) * own.image_size))
