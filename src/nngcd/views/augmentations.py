"""The kinds of random views, by name: what is done to an image before the network sees it.

`crop` is the field's plain one. `affine`, `randaugment` and `dino` are those of CiPR's code for CUB, Stanford Cars and
the generic data sets; they start from the whole image. `distorted` is the strong view of muGCD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor

from nngcd.views.preprocessing import Augmentation, Preprocessing, as_tensor

Distortion = Callable[[Image.Image, float], Image.Image]
Operation = Callable[[Image.Image, np.random.Generator], Image.Image]

# Each takes an image and a strength in [-1, 1].
_DISTORTIONS: tuple[Distortion, ...] = (
    lambda image, strength: ImageEnhance.Brightness(image).enhance(1 + 0.5 * strength),
    lambda image, strength: ImageEnhance.Contrast(image).enhance(1 + 0.5 * strength),
    lambda image, strength: ImageEnhance.Color(image).enhance(1 + 0.9 * strength),
    lambda image, strength: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * strength),
    lambda image, strength: image.rotate(15 * strength, Image.Resampling.BILINEAR),
    lambda image, strength: ImageOps.posterize(image, 8 - round(4 * abs(strength))),
    lambda image, strength: ImageOps.solarize(image, 255 - round(100 * abs(strength))),
    lambda image, strength: ImageOps.autocontrast(image),
    lambda image, strength: ImageOps.equalize(image),
)

# RandAugment at its largest strength, 30 of 30. Lengths are in pixels of the whole image; what has a direction takes
# either one. Solarising from 256 on changes nothing.
OPERATIONS: dict[str, Operation] = {
    "autocontrast": lambda image, generator: ImageOps.autocontrast(image),
    "equalise": lambda image, generator: ImageOps.equalize(image),
    "invert": lambda image, generator: ImageOps.invert(image),
    "rotate": lambda image, generator: image.rotate(_either(30, generator)),
    "posterise": lambda image, generator: ImageOps.posterize(image, 4),
    "solarise": lambda image, generator: ImageOps.solarize(image, 256),
    "solarise_brighter": lambda image, generator: ImageOps.solarize(
        image.point(lambda level: min(level + 110, 255)), 128
    ),
    "colour": lambda image, generator: ImageEnhance.Color(image).enhance(1.9),
    "contrast": lambda image, generator: ImageEnhance.Contrast(image).enhance(1.9),
    "brightness": lambda image, generator: ImageEnhance.Brightness(image).enhance(1.9),
    "sharpness": lambda image, generator: ImageEnhance.Sharpness(image).enhance(1.9),
    "shear_x": lambda image, generator: _mapped(image, (1, _either(0.3, generator), 0, 0, 1, 0)),
    "shear_y": lambda image, generator: _mapped(image, (1, 0, 0, _either(0.3, generator), 1, 0)),
    "cut_out": lambda image, generator: _cut_out(image, generator),
    "shift_x": lambda image, generator: _mapped(image, (1, 0, _either(100, generator), 0, 1, 0)),
    "shift_y": lambda image, generator: _mapped(image, (1, 0, 0, 0, 1, _either(100, generator))),
}
N_OPERATIONS = 2
GREY = (125, 123, 114)
"""Colour that fills a cut-out."""
CUT = 40
"""Its side in pixels."""

# DINO's colour jitter: what may change, and how far in either direction.
_JITTER: tuple[tuple[Distortion, float], ...] = (
    (lambda image, change: ImageEnhance.Brightness(image).enhance(1 + change), 0.4),
    (lambda image, change: ImageEnhance.Contrast(image).enhance(1 + change), 0.4),
    (lambda image, change: ImageEnhance.Color(image).enhance(1 + change), 0.2),
    (lambda image, change: turned_hue(image, change), 0.1),
)


OF_WHOLE: tuple[Augmentation, ...] = ("affine", "randaugment", "dino")
"""Views that are made from the whole image, some of them by lengths in its pixels."""


class Picture(NamedTuple):
    """An image that random views are drawn of."""

    whole: Image.Image
    resized: Image.Image
    """The image as `Preprocessing.resized` gives it."""
    preprocessing: Preprocessing
    may_flip: bool

    def random_view(self, augmentation: Augmentation, generator: np.random.Generator, *, number: int) -> Tensor:
        """Return a random view as uint8 (3, H, W).

        Args:
            augmentation: its kind.
            generator: the only source of randomness.
            number: which of the random views it is, from 0: those of `dino` are of two kinds in turn.
        """
        return _DRAW[augmentation](self, generator, number)

    def maybe_mirrored(self, image: Image.Image, generator: np.random.Generator) -> Image.Image:
        """Return the image, flipped left to right half of the time where an image may be flipped."""
        # Drawn even where flips are not allowed, so that allowing them moves nothing else.
        is_flipped = generator.random() < 0.5
        return ImageOps.mirror(image) if self.may_flip and is_flipped else image


def _crop(picture: Picture, generator: np.random.Generator, number: int) -> Tensor:
    return picture.preprocessing.random_view(picture.resized, generator, may_flip=picture.may_flip)


def _distorted(picture: Picture, generator: np.random.Generator, number: int) -> Tensor:
    """Return a crop after two distortions out of nine, of random strength (after RandAugment, Cubuk et al. 2020).

    Only such as leave most objects what they are: colour, contrast, brightness, sharpness and a turn of up to 15
    degrees; RandAugment's cut-outs and large shifts are left out.
    """
    image = picture.resized
    for choice in generator.choice(len(_DISTORTIONS), size=2, replace=False):
        image = _DISTORTIONS[choice](image, float(generator.uniform(-1, 1)))
    return picture.preprocessing.random_view(image, generator, may_flip=picture.may_flip)


def _affine(picture: Picture, generator: np.random.Generator, number: int) -> Tensor:
    """Return the whole image as a square, turned, sheared, made smaller and shifted; black around it, no flip."""
    side = picture.preprocessing.image_size
    image = picture.whole.resize((side, side), Image.Resampling.BICUBIC)
    angle, shear, scale = generator.uniform((-45, -15, 0.7), (45, 15, 0.875))
    shift = np.round(generator.uniform(-0.1 * side, 0.1 * side, size=2))
    return as_tensor(transformed(image, angle=angle, shear=shear, scale=scale, shift=shift))


def _rand_augment(picture: Picture, generator: np.random.Generator, number: int) -> Tensor:
    """Return the whole image after two of RandAugment's operations, as a square that is then shifted a little."""
    image, operations = picture.whole, list(OPERATIONS.values())
    for choice in generator.integers(len(operations), size=N_OPERATIONS):
        image = operations[choice](image, generator)
    side = picture.preprocessing.image_size
    # 4 black pixels around 224.
    margin = max(1, round(side / 56))
    padded = ImageOps.expand(image.resize((side, side), Image.Resampling.BILINEAR), margin)
    left, top = (int(start) for start in generator.integers(2 * margin + 1, size=2))
    return as_tensor(picture.maybe_mirrored(padded.crop((left, top, left + side, top + side)), generator))


def _dino(picture: Picture, generator: np.random.Generator, number: int) -> Tensor:
    """Return one of DINO's two kinds of global crops: the first is always blurred, the second rarely, but solarised."""
    box, side = crop_box(picture.whole.size, generator), picture.preprocessing.image_size
    image = picture.whole.crop(box).resize((side, side), Image.Resampling.BICUBIC)
    image = picture.maybe_mirrored(image, generator)
    if generator.random() < 0.8:
        for choice in generator.permutation(len(_JITTER)):
            change, most = _JITTER[choice]
            image = change(image, float(generator.uniform(-most, most)))
    if generator.random() < 0.2:
        image = image.convert("L").convert("RGB")
    blurred, solarised = (1.0, 0.0) if number % 2 == 0 else (0.1, 0.2)
    if generator.random() < blurred:
        image = image.filter(ImageFilter.GaussianBlur(float(generator.uniform(0.1, 2))))
    if generator.random() < solarised:
        image = ImageOps.solarize(image)
    return as_tensor(image)


_DRAW: dict[Augmentation, Callable[[Picture, np.random.Generator, int], Tensor]] = {
    "crop": _crop,
    "distorted": _distorted,
    "affine": _affine,
    "randaugment": _rand_augment,
    "dino": _dino,
}


def transformed(
    image: Image.Image,
    *,
    angle: float,
    shear: float,
    scale: float,
    shift: np.ndarray[tuple[int], np.dtype[np.floating]],
) -> Image.Image:
    """Return the image turned (degrees, clockwise), sheared along x (degrees), scaled about its middle and shifted.

    Nearest pixels, black outside: what torchvision's `affine` gives.
    """
    turn, slant = math.radians(angle), math.tan(math.radians(shear))
    turning = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    back = np.linalg.inv(scale * turning @ [[1, -slant], [0, 1]])
    middle = np.array(image.size) / 2
    start = middle - back @ (middle + shift)
    return _mapped(image, (*back[0], start[0], *back[1], start[1]))


def crop_box(size: tuple[int, int], generator: np.random.Generator) -> tuple[int, int, int, int]:
    """Return a random part of an image, 0.4 to 1 of its area and 3:4 to 4:3 wide (torchvision's RandomResizedCrop)."""
    width, height = size
    for _ in range(10):
        area = width * height * generator.uniform(0.4, 1)
        aspect = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(generator.integers(width - w + 1)), int(generator.integers(height - h + 1))
            return left, top, left + w, top + h
    # Long strips have no such part: the middle, as wide as may be.
    w, h = min(width, max(1, round(height * 4 / 3))), min(height, max(1, round(width * 4 / 3)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def turned_hue(image: Image.Image, change: float) -> Image.Image:
    """Return the image with its hues moved round the circle of colours by a fraction of it."""
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point(lambda level: (level + int(change * 255)) % 256)
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def _mapped(image: Image.Image, back: tuple[float, ...]) -> Image.Image:
    """Return the image whose pixels come from where the affine map says, black where that is outside."""
    return image.transform(image.size, Image.Transform.AFFINE, back)


def _either(amount: float, generator: np.random.Generator) -> float:
    """Return an amount or its negative."""
    return -amount if generator.random() < 0.5 else amount


def _cut_out(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    """Return the image with a grey square whose middle is somewhere in the image."""
    left, top = (int(max(0, generator.uniform(0, length) - CUT / 2)) for length in image.size)
    image = image.copy()
    ImageDraw.Draw(image).rectangle((left, top, min(image.width, left + CUT), min(image.height, top + CUT)), GREY)
    return image
