"""A folder as somebody's own would be, made of 20 species of a CUB copy, and the truth that `nngcd fit` never sees.

Ten species have half of their images in a folder of their own; everything else lies in `_unlabeled/`. Among it are a
truncated JPEG, an empty file, a text file, a 16-bit PNG, a CMYK JPEG, an image under two labels, and names with spaces
and letters of other alphabets. The truth is written beside the folder, as OUT-truth.csv.

python benchmarks/own_images.py --root PATH/TO/cub --out birds
nngcd fit birds --out runs/birds
nngcd evaluate runs/birds --truth birds-truth.csv
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from nngcd.datasets.opening import open_dataset

N_CLASSES, N_KNOWN = 20, 10
STRANGE_NAMES = ("bird with spaces.jpg", "vögel über Köln.jpg", "鳥の写真.jpg", "птица №1.jpg", "🐦 mine (copy).jpg")


def main() -> None:
    """Write the folder and its truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="a CUB-200-2011 copy in the official layout")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--seed", type=int, default=0, help="which species, and which of their images are labelled")
    arguments = parser.parse_args()
    if arguments.out.exists():
        sys.exit(f"{arguments.out} exists; choose another --out")
    truth = write_images(arguments.root, arguments.out, np.random.default_rng(arguments.seed))
    truth += write_oddities(arguments.out, truth)
    path = arguments.out.with_name(f"{arguments.out.name}-truth.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("file_name", "label"), *sorted(truth)])
    print(f"{arguments.out}: {len(truth)} images of {N_CLASSES} species, {N_KNOWN} of them half labelled")
    print(f"{path}: what they really are")


def write_images(root: str, out: Path, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Copy the images of some species, and return the file name and species of each."""
    split, truth = open_dataset(root, dataset="cub")
    assert truth is not None
    assert split.images is not None
    files = [Path(split.images.root / name) for name in split.images.file_names]
    species = rng.choice(len(truth.class_names), N_CLASSES, replace=False)
    rows = []
    for rank, number in enumerate(species):
        name = truth.class_names[number].split(".")[-1].replace("_", " ")
        members = rng.permutation(np.flatnonzero(truth.classes == number))
        n_labelled = len(members) // 2 if rank < N_KNOWN else 0
        for place, member in enumerate(members):
            folder = name if place < n_labelled else "_unlabeled"
            file_name = f"{folder}/img_{member:05d}.jpg"
            if place == 0 and rank < len(STRANGE_NAMES):
                file_name = f"{folder}/{STRANGE_NAMES[rank]}"
            (out / folder).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(files[member], out / file_name)
            rows.append((file_name, name))
    return rows


def write_oddities(out: Path, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Add what real folders have in them, and return those that are images."""
    pile = out / "_unlabeled"
    labelled = [row for row in rows if not row[0].startswith("_unlabeled")]
    unlabelled = [row for row in rows if row[0].startswith("_unlabeled")]
    (pile / "truncated.jpg").write_bytes((out / unlabelled[0][0]).read_bytes()[:4000])
    (pile / "empty.jpg").write_bytes(b"")
    (pile / "notes.txt").write_text("to be sorted before spring\n", encoding="utf-8")
    grey = Image.open(out / unlabelled[1][0]).convert("L")
    Image.fromarray(np.asarray(grey).astype(np.uint16) * 16).save(pile / "microscope 16 bit.png")
    Image.open(out / unlabelled[2][0]).convert("RGB").convert("CMYK").save(pile / "print.jpg")
    twice = labelled[-1]
    other = next(name.split("/")[0] for name, label in labelled if label != twice[1])
    shutil.copyfile(out / twice[0], out / other / "the same image again.jpg")
    return [
        ("_unlabeled/microscope 16 bit.png", unlabelled[1][1]),
        ("_unlabeled/print.jpg", unlabelled[2][1]),
        (f"{other}/the same image again.jpg", twice[1]),
    ]


if __name__ == "__main__":
    main()
