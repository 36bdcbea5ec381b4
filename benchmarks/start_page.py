"""Run the commands of a page of the docs on ten species of CUB-200-2011 and put what they print under them.

python benchmarks/start_page.py PATH/TO/CUB_200_2011 docs/start.md

A line that starts with `$ ` in a block of kind `console` is run, in order, in one new folder that holds `birds/`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KNOWN = ("017.Cardinal", "036.Northern_Flicker", "068.Ruby_throated_Hummingbird", "073.Blue_Jay", "087.Mallard",
         "106.Horned_Puffin")  # fmt: skip
NEW = ("016.Painted_Bunting", "047.American_Goldfinch", "100.Brown_Pelican", "192.Downy_Woodpecker")
N_LABELLED = 15
BLOCK = re.compile(r"(?<=```console\n)(\$ .*?)(?=```)", re.DOTALL)


def make_birds(images: Path, folder: Path) -> None:
    """Fill `birds` with a folder per known species and `_unlabelled` for the rest; `birds-truth.csv` has the answer."""
    truth = ["file_name,label"]
    (folder / "birds" / "_unlabelled").mkdir(parents=True)
    for number, species in enumerate(KNOWN + NEW):
        name = species[4:].replace("_", " ")
        for place, image in enumerate(sorted((images / species).iterdir())):
            is_labelled = species in KNOWN and place < N_LABELLED
            file = f"{name}/{image.name}" if is_labelled else f"_unlabelled/IMG_{1000 + 10 * place + number}.jpg"
            (folder / "birds" / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(image, folder / "birds" / file)
            truth.append(f"{file},{name}")
    (folder / "birds-truth.csv").write_text("\n".join(truth), encoding="utf-8")


def with_output(block: str, folder: Path) -> str:
    """Return the commands of a block, each with what it prints."""
    lines = []
    settings = os.environ | {"COLUMNS": "100", "HOME": str(folder)}
    for command in (line for line in block.splitlines() if line.startswith("$ ")):
        run = subprocess.run(command[2:], shell=True, cwd=folder, env=settings, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        print(command, run.stdout, sep="\n", flush=True)
        printed = run.stdout.strip().replace(str(folder), "~").splitlines()
        lines += [command, *(line for line in printed if not line.endswith("s left"))]  # progress of slow machines
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main() -> None:
    """Rewrite the page in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cub", type=Path)
    parser.add_argument("page", type=Path)
    asked = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_birds(asked.cub / "images", folder)
        text = BLOCK.sub(lambda found: with_output(found[1], folder), asked.page.read_text(encoding="utf-8"))
    asked.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
