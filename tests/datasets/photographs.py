"""Pictures for tests that have to do with near-identical images."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photograph(rng: np.random.Generator, size: tuple[int, int] = (480, 360)) -> Image.Image:
    """Return blobs of several sizes: energy falls with frequency, as in photographs."""
    layers = [Image.fromarray(rng.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
              for n in (3, 6, 12, 48)]  # fmt: skip
    weights = (0.4, 0.3, 0.2, 0.1)
    mixed = sum(weight * np.asarray(layer, dtype=float) for weight, layer in zip(weights, layers, strict=True))
    return Image.fromarray((128 + 1.6 * (mixed - 128)).clip(0, 255).astype(np.uint8))


CHANGES = {
    "saved again": lambda image: encoded(image, quality=40),
    "as PNG": lambda image: encoded(image, "PNG", compress_level=1),
    "half": lambda image: encoded(image.resize((image.width // 2, image.height // 2))),
    "small": lambda image: encoded(image.resize((64, 48))),
    "cropped": lambda image: encoded(image.crop((8, 5, image.width - 8, image.height - 8))),
    "brighter": lambda image: encoded(ImageEnhance.Brightness(image).enhance(1.25)),
    "darker": lambda image: encoded(ImageEnhance.Brightness(image).enhance(0.6)),
    "turned a little": lambda image: encoded(
        image.rotate(1, translate=(3, -2)).crop((10, 10, image.width - 10, image.height - 10))
    ),
}
"""From an image to the bytes of a near-identical one."""


def burst_folder(root: Path, rng: np.random.Generator, *, n_categories: int = 10, n_bursts: int = 6) -> Path:
    """Write labelled categories of bursts of five, and single images to sort; categories have nothing in common.

    Whoever has seen the other images of a burst knows its category; for everyone else it is a guess.
    """
    for category in range(n_categories):
        for burst in range(n_bursts):
            image = photograph(rng, (320, 240))
            for shot, name in enumerate(("saved again", "half", "cropped", "brighter", "turned a little")):
                path = root / f"category {category}" / f"{burst}-{shot}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(CHANGES[name](image))
    (root / "_unlabelled").mkdir()
    for single in range(20):
        (root / "_unlabelled" / f"{single}.jpg").write_bytes(encoded(photograph(rng, (320, 240))))
    return root
