"""Correct a run, then start a second one that learns from the corrections.

    python examples/correct_and_learn.py

`nngcd review RUN` does the same corrections by mouse and keyboard.
"""

from __future__ import annotations

from pathlib import Path

import typer

import nngcd
from shapes import draw_shapes


def main(images: Path = Path("shapes"), out: Path = Path("runs/corrected")) -> None:
    """Sort IMAGES, correct the result, and sort them again with what was corrected."""
    if not images.exists():
        draw_shapes(images)
    first = nngcd.run(images, {"k": 5}, out=out)  # one category too many, so that there is something to correct
    print("found:", *first.categories["name"])

    with first.edit() as e:  # every edit is logged in the run folder, and e.undo() takes it back
        for shape, same in drawn_shapes(first).items():
            category = e.merge(same) if len(same) > 1 else same[0]
            if category != shape:
                e.rename(category, shape)
    print("corrected:", *first.categories["name"])

    second = nngcd.run(from_review=first.path, out=f"{out}-2")  # stars and triangles are labels now
    print(second.categories[["name", "kind", "size"]])
    print("One row per image, for other programs:", *second.export("csv", f"{out}-exported"))


def drawn_shapes(run: nngcd.Run) -> dict[str, list[str]]:
    """Return the categories of each shape. You would look at the images; here the file names tell: star-07.png."""
    shapes = run.results["file_name"].str.extract(r"(\w+)-\d+\.png$")[0]
    most_common = shapes.groupby(run.results["category"]).agg(lambda names: names.mode()[0])
    return {shape: list(found) for shape, found in most_common.groupby(most_common).groups.items()}


if __name__ == "__main__":
    typer.run(main)
