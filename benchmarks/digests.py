"""Cost of verification: the share of a command's time that goes into sha256, which everything written and read passes.

`predict` sorts many small images, where hashing weighs most beside decoding and the network; `fit` computes and keeps
the views of CUB, if its folder is given. Both read images in their own process, so that nothing escapes the clock.
Hashes that give images their ids are counted as well: the numbers are upper bounds of what verification adds.

python benchmarks/digests.py [--cub FOLDER]    # 100,000 images, and CUB
python benchmarks/digests.py --short           # 2,000 images
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from measuring import Target, begin, end, parser_with_targets
from predict_stream import SIDE, link, make_originals, nngcd

N_IMAGES, N_SHORT = 100_000, 2_000
LARGEST_SHARE = 0.03
CLOCK = """
import hashlib, time
sha256, spent, started = hashlib.sha256, [0.0], time.perf_counter()
class Clocked:
    digest_size = 32
    def __init__(self, content=b"", **options):
        self._timed(lambda: setattr(self, "own", sha256(content, **options)))
    def _timed(self, do):
        began = time.perf_counter()
        found = do()
        spent[0] += time.perf_counter() - began
        return found
    def update(self, content): self._timed(lambda: self.own.update(content))
    def digest(self): return self._timed(self.own.digest)
    def hexdigest(self): return self._timed(self.own.hexdigest)
hashlib.sha256 = Clocked
import sys
from nngcd.cli import main
from nngcd.training import bank_files
seal_digest = bank_files._digest
def clocked_seal(*arguments):
    began, before = time.perf_counter(), spent[0]
    found = seal_digest(*arguments)
    spent[0] = before + time.perf_counter() - began
    return found
bank_files._digest = clocked_seal
try:
    main()
except SystemExit as stop:
    print(spent[0], time.perf_counter() - started)
    sys.exit(stop.code)
"""


def main() -> None:
    """Print the share of each command."""
    parser = parser_with_targets(__doc__)
    parser.add_argument("--cub", type=Path, help="the folder CUB_200_2011")
    arguments = parser.parse_args()
    begin(arguments, n_rounds=1)
    n_images = N_SHORT if arguments.short else N_IMAGES
    targets = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals = make_originals(folder / "training")
        options = ["--k", "4", "--method", "kmeans", "--image-size", str(SIDE), "--workers", "0", "--quiet"]
        nngcd("fit", folder / "training", "--out", folder / "run", *options)
        link(originals, folder / "images", n_images)
        predict = ["predict", folder / "run", folder / "images", "--out", folder / "p.parquet", "--workers", "0", "-q"]
        targets.append(measured(f"predict, {n_images:,} images of {SIDE} px", *predict))
        if arguments.cub:
            fit = ["fit", arguments.cub, "--dataset", "cub", "--k", "200", "--effort", "quick", "--quiet"]
            targets.append(measured("fit of CUB", *fit, "--workers", "0", "--out", folder / "cub"))
    end(arguments, targets)


def measured(what: str, *arguments: object) -> Target:
    """Run a command under the clock and return how much longer hashing makes it."""
    hashing, whole = map(float, nngcd(*arguments, child=CLOCK).splitlines()[-1].split())
    print(f"{what}: {hashing:.2f} of {whole:.1f} s in sha256", flush=True)
    return Target(f"{what}: sha256 over everything else", hashing / (whole - hashing), LARGEST_SHARE)


if __name__ == "__main__":
    main()
