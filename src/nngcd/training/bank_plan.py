"""Plan of a view bank: its images, views and keys, and the room they take."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import torch

from nngcd.backbones.backbone import Backbone
from nngcd.core.errors import ResourceError
from nngcd.core.words import size
from nngcd.data.split import Images, Split
from nngcd.training.bank_files import ViewKeys
from nngcd.training.extraction import run_trunk
from nngcd.views.preprocessing import Augmentation

CODE_VERSION = 4
"""Raised when views or trunks are computed differently, so that older files are not used."""
VIEW_SEED = 0
"""Kept views are drawn from a fixed seed, so that runs with different seeds share one bank."""
KEY_OF_KIND: dict[Augmentation, bool] = {"crop": False, "distorted": True}
"""Kinds of views that kept files know by these words instead of their names."""
SHARD_BYTES, SHARD_IMAGES = 2**28, 512
"""Limits of a file: its bytes, and its images."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankPlan:
    """A bank that is to be made: of which images, with which views."""

    backbone: Backbone
    split: Split
    n_random: int
    augmentation: Augmentation
    hidden_shape: tuple[int, ...]

    @property
    def images(self) -> Images:
        """Images that the views are taken of."""
        assert self.split.images is not None
        return self.split.images

    @property
    def n_views(self) -> int:
        """The centre view and the random ones."""
        return 1 + self.n_random

    @property
    def view_bytes(self) -> int:
        """Bytes of one view of one image."""
        return 2 * int(np.prod(self.hidden_shape))

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole bank."""
        return self.view_bytes * self.n_views * len(self.images)

    @property
    def size(self) -> str:
        """Size of the bank, in words."""
        return f"{len(self.images):,} images x {self.n_views} views, {size(self.n_bytes)}"

    @property
    def ways_out(self) -> str:
        """Advice for a smaller bank, or for training without one."""
        fewer = "fewer views (--views-per-image 2)"
        if not self.n_random:
            fewer = "one size and two random views (--set 'views.sizes=[1]' --views-per-image 2), effort quick"
        return f"Use {fewer} or fresh ones (--views-per-image online)"

    @property
    def shard_size(self) -> int:
        """Images per file."""
        return max(1, min(SHARD_IMAGES, SHARD_BYTES // self.view_bytes))

    def folder_name(self) -> str:
        """Name what all files of this kind have in common: backbone, preprocessing and code."""
        engine = self.backbone.trunk.engine
        facts = {
            "weights": self.backbone.trunk_fingerprint,
            "preprocessing": self.backbone.preprocessing.to_json(),
            "precision": self.backbone.trunk.precision,
            "view_seed": VIEW_SEED,
            "code": CODE_VERSION,
            # Engines round differently: a run must not find views of another engine one day and not the next.
            **({} if engine == "torch" else {"engine": engine}),
        }
        return f"views-{self.backbone.name}-{_hash(facts)[:16]}"

    def keys(self) -> ViewKeys:
        """Return what names the views of each image, apart from what they have in common."""
        contents = [self.images.fingerprint(i) for i in range(len(self.images))]
        centre_n = np.array([_hash("centre", content) for content in contents], dtype=bytes)
        # The place counts: it names the generator of an image's random views.
        kind = KEY_OF_KIND.get(self.augmentation, self.augmentation)
        facts = ([i, content, self.split.may_flip, kind] for i, content in enumerate(contents))
        return ViewKeys(centre_n, np.array([_hash("random", *each) for each in facts], dtype=bytes))


def plan_bank(
    backbone: Backbone, split: Split, *, n_random: int, augmentation: Augmentation, limit_gb: float
) -> BankPlan:
    """Return the plan of a bank of this backbone's hidden states."""
    side = backbone.preprocessing.image_size
    shape = tuple(run_trunk(backbone, torch.zeros(1, 3, side, side, dtype=torch.uint8)).shape[1:])
    plan = BankPlan(backbone=backbone, split=split, n_random=n_random, augmentation=augmentation, hidden_shape=shape)
    if plan.n_bytes > limit_gb * 1e9:
        text = f"the view bank ({plan.size}) takes more than the {limit_gb:g} GB allowed. {plan.ways_out}"
        raise ResourceError(f"{text}, or allow more (--bank-size).")
    return plan


def _hash(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
