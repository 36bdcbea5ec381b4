"""Draw a small folder of images, so that the examples need no download.

Half of the circles and squares are labelled (a sub-folder each). All other images, triangles and stars among them, are
unlabelled.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

from PIL import Image, ImageDraw

CORNERS = {"circle": 60, "square": 4, "triangle": 3, "star": 10}


def draw_shapes(folder: Path, n_images: int = 40) -> None:
    """Draw `n_images` of each shape into `folder`; half of the circles and squares get a label."""
    random.seed(0)
    for shape in CORNERS:
        for i in range(n_images):
            is_labelled = shape in ("circle", "square") and i % 2 == 0
            place = folder / (shape if is_labelled else "_unlabelled")
            place.mkdir(parents=True, exist_ok=True)
            _drawing(shape).save(place / f"{shape}-{i:02}.png")


def _drawing(shape: str) -> Image.Image:
    image = Image.new("RGB", (96, 96), tuple(random.choices(range(180, 256), k=3)))
    centre = [48 + random.randint(-10, 10) for _ in "xy"]
    radius, turn = random.randint(22, 34), random.random() * 2 * math.pi
    points = []
    for corner in range(CORNERS[shape]):
        r = radius * (0.45 if shape == "star" and corner % 2 else 1)
        angle = turn + 2 * math.pi * corner / CORNERS[shape]
        points.append((centre[0] + r * math.cos(angle), centre[1] + r * math.sin(angle)))
    ImageDraw.Draw(image).polygon(points, fill=tuple(random.choices(range(130), k=3)))
    return image
