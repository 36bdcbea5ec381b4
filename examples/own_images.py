"""Sort a folder of images into known and new categories.

    python examples/own_images.py               # draws a small folder, shapes/, and sorts it
    python examples/own_images.py my_images/    # sorts yours: sub-folders are known categories, _unlabelled/ is sorted

How many categories there are is estimated. Everything that was found is in the run folder; open its report.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import nngcd
from shapes import draw_shapes


def main(images: Annotated[Path, typer.Argument()] = Path("shapes"), out: Path = Path("runs/own-images")) -> None:
    """Sort IMAGES and show what was found."""
    if not images.exists():
        draw_shapes(images)
    print(nngcd.ImageTable.from_folder(images).check())  # unreadable files, duplicates, contradicting labels

    run = nngcd.run(images, out=out)

    print(run.categories[["name", "kind", "size"]])
    least_certain = run.results.sort_values("confidence").head()  # look at these first
    print(least_certain[["file_name", "label", "status", "confidence"]])
    print("Open", run.path / "report.html")


if __name__ == "__main__":
    typer.run(main)
