"""From an image to its views: cheap uint8 crops that travel between processes, normalised as a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nngcd.core.config import to_values
from nngcd.core.errors import ConfigError
from nngcd.core.ranges import Checked, WholeFromOne

Recipe = Literal["two-random", "random+centre", "strong+weak"]
Augmentation = Literal["crop", "affine", "randaugment", "dino", "distorted"]
"""The kinds of random views; `distorted` is that of the recipe strong+weak."""
Interpolation = Literal["bicubic", "bilinear"]

_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}

# A longer strip is cut to its middle before resizing: a 1 x 10,000 image would otherwise grow to 2 GB.
MAX_ASPECT = 20

# The least and the largest multiple of the image size: pixels, and with them time and memory, grow with its square.
SIZES = (0.25, 4.0)

# Views kept of each image. A run of 200 epochs draws 400; more are better drawn online.
MOST_KEPT = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewSettings:
    """The views of an image that are compared."""

    recipe: Recipe = "two-random"
    """Views to compare: two random views (the paper), a random view and the centre crop (the authors' code), or a
    distorted random view and the centre crop (muGCD)."""
    augmentation: Literal["crop", "affine", "randaugment", "dino"] = "crop"
    """Kind of random views: `crop` takes a random crop and may flip it. The others follow CiPR's code: `affine`
    for CUB (the whole image, rotated, sheared and shrunk), `randaugment` for Stanford Cars (two RandAugment operations
    at full strength first), `dino` for generic data (crops of 0.4 to 1 of the image with changed colours, one view
    blurred, the other sometimes solarised; with more than two kept views, the two kinds alternate)."""
    per_image: int | str = 2
    """Random views of each image that pass through the frozen trunk once and are kept in the view bank, in addition to
    the centre view (0 is possible if `sizes` makes several views of that). `online` draws new ones in every epoch, and
    each costs a pass through the trunk."""
    sizes: tuple[float, ...] = (1.0,)
    """Sizes of every view, as multiples of the image size. An image is assigned by their mean, and each size is another
    view to learn from. Only for networks that accept any image size; in effort normal only for CNNs, and not in effort
    full."""
    bank_gb: float = 50.0
    """Largest view bank, in GB."""

    def __post_init__(self) -> None:
        if self.recipe not in get_args(Recipe):
            raise ConfigError("views.recipe", self.recipe, f"must be one of {', '.join(get_args(Recipe))}")
        if self.recipe == "strong+weak" and self.augmentation != "crop":
            raise ConfigError(
                "views.augmentation", self.augmentation, "must be crop: strong+weak has its own distortions"
            )
        least, most = SIZES
        if len({*self.sizes}) < max(len(self.sizes), 1) or not all(least <= size <= most for size in self.sizes):
            reason = f"must be different multiples of the image size, {least:g} to {most:g}, such as [1, 1.25]"
            raise ConfigError("views.sizes", list(self.sizes), reason)
        if len(self.sizes) == 1 and self.sizes != (1.0,):
            raise ConfigError(
                "views.sizes", list(self.sizes), "must be several sizes, or [1]; for one size use --image-size"
            )
        fewest = 1 if len(self.sizes) == 1 else 0
        is_number = isinstance(self.per_image, int) and fewest <= self.per_image <= MOST_KEPT
        if self.per_image != "online" and not is_number:
            reason = f"must be a number from {fewest} to {MOST_KEPT:,}, or online"
            raise ConfigError("views.per_image", self.per_image, reason)
        if not self.bank_gb > 0:
            raise ConfigError("views.bank_gb", self.bank_gb, "must be positive")

    @property
    def kind(self) -> Augmentation:
        """The kind of random views that recipe and augmentation make."""
        return "distorted" if self.recipe == "strong+weak" else self.augmentation

    @property
    def n_kept(self) -> int | None:
        """Random views kept of each image; None when they are drawn online."""
        return self.per_image if isinstance(self.per_image, int) else None


@dataclass(frozen=True, kw_only=True)
class Preprocessing(Checked):
    """Preprocessing that a backbone expects: the transforms of the field (Resize, Crop, horizontal flip, Normalise)."""

    image_size: WholeFromOne = 224
    """Side of the square crop in pixels."""
    crop_fraction: float = 0.875
    """Crop side over the short side of the resized image, in (0, 1]; 0.875 means 224 cut out of 256."""
    interpolation: Interpolation = "bicubic"
    """Interpolation for resizing."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Mean of each colour channel, of values in [0, 1]."""
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """Standard deviation of each colour channel, of values in [0, 1]."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if not 0 < self.crop_fraction <= 1:
            raise ConfigError("crop_fraction", self.crop_fraction, "must be in (0, 1]")
        if self.interpolation not in _RESAMPLING:
            raise ConfigError("interpolation", self.interpolation, f"must be one of {', '.join(_RESAMPLING)}")
        if len(self.mean) != 3 or not all(math.isfinite(value) for value in self.mean):
            raise ConfigError("mean", self.mean, "must be three finite numbers")
        if len(self.std) != 3 or not all(math.isfinite(value) and value > 0 for value in self.std):
            raise ConfigError("std", self.std, "must be three finite numbers above 0")

    def to_json(self) -> dict[str, Any]:
        """Return plain values that JSON and YAML can hold."""
        return to_values(self)

    @property
    def short_side(self) -> int:
        """Short side in pixels of the image that crops are cut out of."""
        return int(self.image_size / self.crop_fraction)

    def resized(self, image: Image.Image) -> Image.Image:
        """Return the image with its short side at `short_side` pixels; one already so is kept.

        Pillow smooths before it shrinks, as torchvision's `Resize` does, so both give the same pixels.
        """
        image = _without_far_ends(image)
        short = self.short_side
        width, height = image.size
        if min(width, height) == short:
            return image
        if width <= height:
            size = (short, int(short * height / width))
        else:
            size = (int(short * width / height), short)
        return image.resize(size, _RESAMPLING[self.interpolation])

    def centre_view(self, image: Image.Image) -> Tensor:
        """Return the centre crop as uint8 (3, H, W)."""
        image = self.resized(image)
        left, top = (round((side - self.image_size) / 2) for side in image.size)
        return self._crop(image, left, top)

    def random_view(self, image: Image.Image, generator: np.random.Generator, *, may_flip: bool) -> Tensor:
        """Return a crop from a random place, flipped left to right half of the time, as uint8 (3, H, W)."""
        image = self.resized(image)
        left, top = (int(generator.integers(side - self.image_size + 1)) for side in image.size)
        # Drawn even where flips are not allowed, so that allowing them moves no crop.
        is_flipped = generator.random() < 0.5
        view = self._crop(image, left, top)
        return view.flip(-1) if may_flip and is_flipped else view

    def normalise(self, views: Tensor) -> Tensor:
        """Return uint8 views (..., 3, H, W) as float32 `(x / 255 - mean) / std`."""
        mean = torch.tensor(self.mean, device=views.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=views.device).view(3, 1, 1)
        return views.float().div_(255).sub_(mean).div_(std)

    def _crop(self, image: Image.Image, left: int, top: int) -> Tensor:
        crop = image.crop((left, top, left + self.image_size, top + self.image_size))
        return as_tensor(crop)


def as_tensor(image: Image.Image) -> Tensor:
    """Return an RGB image as uint8 (3, H, W)."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


DROPPED = 0.1
"""Share of the entries of a feature that a view of it lacks."""


def feature_views(features_nd: Tensor, n_views: int, generator: torch.Generator) -> Tensor:
    """Return (N, V, D) views of features that the user brings instead of images.

    The first view is the feature itself; in the others each entry is set to 0 with probability `DROPPED` and the rest
    are divided by `1 - DROPPED`, which keeps the expected feature.
    """
    features_nd = features_nd.float()
    features_nvd = features_nd.unsqueeze(1).repeat(1, n_views, 1)
    for view in range(1, n_views):
        is_kept_nd = torch.rand(features_nd.shape, generator=generator) >= DROPPED
        features_nvd[:, view].mul_(is_kept_nd).div_(1 - DROPPED)
    return features_nvd


def _without_far_ends(image: Image.Image) -> Image.Image:
    longest = MAX_ASPECT * min(image.size)
    if max(image.size) <= longest:
        return image
    width, height = (min(side, longest) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))
