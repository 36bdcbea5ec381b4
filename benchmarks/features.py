"""Frozen features: torch against OpenVINO in one run, how photographs are decoded, and whole fits from nothing.

python benchmarks/features.py [--short] [--assert] [--only ROW] [--photos 1000] [--cub PATH/TO/cub]

Rows: `lite0, one size`, `lite0, three sizes`, `ViT-S/16`, `ViT-B/16`, `decoding`, `photos`, `cub`. A whole fit is
compared with the plain way: torch, and every JPEG decoded whole each time that it is needed.
"""

from __future__ import annotations

import nngcd  # noqa: F401 (before torch: it says how torch's threads wait)  # isort: skip

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from measuring import Target, begin, end, parser_with_targets
from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import CPU_BATCH, Backbone, frozen
from nngcd.backbones.compiled import Compiled
from nngcd.backbones.engines import openvino_version
from nngcd.backbones.sizes import with_sizes
from nngcd.data.decoding import decode_rgb

SIZES = (1.0, 1.286, 1.429)
NETWORKS = {"lite0, one size": ("efficientnet_lite0", (1.0,)), "lite0, three sizes": ("efficientnet_lite0", SIZES),
            "ViT-S/16": ("vit_small_patch16_224", (1.0,)), "ViT-B/16": ("vit_base_patch16_224", (1.0,))}  # fmt: skip
ROWS = (*NETWORKS, "decoding", "photos", "cub")
N_ROUNDS = 5
LEAST_PHOTOS = 1000
"""Photographs from which on a fit has targets: of fewer, most of the time is the start."""
BUSY = [sys.executable, "-c", "while True: pass"]
PLAIN = """
import sys
from PIL import JpegImagePlugin
from nngcd.data import sightings
JpegImagePlugin.JpegImageFile.draft = lambda self, mode, size: None
sightings.LARGE = float("inf")
from nngcd.cli import program
program()
"""
"""The command line without what makes large photographs quick to read: decoded whole, and nothing of them is kept."""
NOW, BEFORE = ("auto", ["-m", "nngcd"]), ("torch", ["-c", PLAIN])
"""Both ways of a whole fit: the engine, and how Python starts the command line."""


def network(name: str) -> Backbone:
    """Return a network of effort quick; the weights of a ViT are random, which costs the same time."""
    model, sizes = NETWORKS[name]
    backbone = frozen(load_backbone(model, pretrained=model.startswith("efficientnet")))
    return with_sizes(backbone, sizes) if len(sizes) > 1 else backbone


@torch.no_grad()
def compare(name: str, n_rounds: int) -> dict[str, float]:
    """Return seconds on the wall and of the processor for both engines, in turns, and how far outputs differ."""
    backbone = network(name)
    side = backbone.preprocessing.image_size
    images = torch.randn(CPU_BATCH, 3, side, side, generator=torch.Generator().manual_seed(0))
    core = backbone.trunk.network
    engines: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"torch": core, "openvino": Compiled(core)}
    expected, found = (run(images) for run in engines.values())
    best = dict.fromkeys([f"{name} {clock}" for name in engines for clock in ("wall", "processor")], float("inf"))
    for _ in range(n_rounds):
        for engine, run in engines.items():
            wall, processor = time.perf_counter(), time.process_time()
            run(images)
            best[f"{engine} wall"] = min(best[f"{engine} wall"], time.perf_counter() - wall)
            best[f"{engine} processor"] = min(best[f"{engine} processor"], time.process_time() - processor)
    return best | {"difference": float((expected - found).abs().max() / expected.abs().max())}


def memory(name: str, engine: str) -> float:
    """Return the largest memory in GB of a fresh process that computes features of 64 images."""
    command = [sys.executable, __file__, "--memory-of", name, "--engine", engine]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


@torch.no_grad()
def print_memory(name: str, engine: str) -> None:
    """Print the largest memory of this process in GB."""
    backbone = network(name)
    trunk, side = backbone.trunk, backbone.preprocessing.image_size
    if engine == "openvino":
        trunk.compiled = Compiled(trunk.network)
    for _ in range(8):
        trunk(torch.randn(CPU_BATCH, 3, side, side))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def photograph(seed: int, size: tuple[int, int] = (4000, 3000)) -> bytes:
    """Return a JPEG with the smooth colours and the grain of a photograph; its kind is seed modulo 10."""
    rng, kind = np.random.default_rng(seed), np.random.default_rng(seed % 10)
    coarse = kind.integers(0, 255, (6, 8, 3)) * 0.7 + rng.integers(0, 255, (6, 8, 3)) * 0.3
    image = Image.fromarray(coarse.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
    grain = np.asarray(Image.effect_noise(size, 12))[..., None].astype(np.int16) - 128
    noisy = np.clip(np.asarray(image).astype(np.int16) + grain, 0, 255).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(noisy).save(file, "JPEG", quality=90)
    return file.getvalue()


def decoding() -> tuple[float, float]:
    """Return the processor's seconds from a photograph of 12 megapixels to a view, whole and reduced."""
    data, wanted = photograph(0), with_sizes(frozen(load_backbone("efficientnet_lite0")), SIZES).preprocessing
    best = [float("inf")] * 2
    for _ in range(N_ROUNDS):
        for place, side in enumerate((None, wanted.short_side)):
            started = time.process_time()
            wanted.centre_view(decode_rgb(data, short_side=side))
            best[place] = min(best[place], time.process_time() - started)
    return best[0], best[1]


def fit_seconds(data: Path | str, way: tuple[str, list[str]], *flags: str) -> float:
    """Return the seconds of a whole fit from nothing: no cache, a fresh process."""
    engine, start = way
    with tempfile.TemporaryDirectory() as folder:
        places = ["--out", f"{folder}/run", "--cache", f"{folder}/cache"]
        command = [sys.executable, *start, "fit", str(data), "--engine", engine, *places, "--quiet", *flags]
        started = time.perf_counter()
        subprocess.run(command, check=True, env=os.environ | {"NNGCD_HOME": folder}, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started


def both_ways(name: str, data: Path | str, *flags: str) -> tuple[float, float]:
    """Print and return the seconds of a whole fit, the plain way and as it is."""
    before, now = (fit_seconds(data, way, *flags) for way in (BEFORE, NOW))
    print(f"fit of {name}: {now:.1f} s, {before:.1f} s with torch and JPEGs decoded whole", flush=True)
    return before, now


def write_photograph(folder: Path, seed: int) -> None:
    """Write a photograph of one of 10 kinds, of which 5 are known and half labelled."""
    kind = seed % 10
    place = folder / (f"kind{kind}" if kind < 5 and seed % 20 < 10 else "_unlabelled")
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{seed:05d}.jpg").write_bytes(photograph(seed))


def engine_targets(name: str, n_rounds: int) -> list[Target]:
    """Print both engines on one network, alone and beside two busy processes, and return the targets."""
    alone = compare(name, n_rounds)
    busy = [subprocess.Popen(BUSY) for _ in range(2)]
    try:
        beside = compare(name, n_rounds)
    finally:
        for process in busy:
            process.kill()
    gigabytes = {engine: memory(name, engine) for engine in ("torch", "openvino")}
    wall = alone["torch wall"] / alone["openvino wall"]
    processor = beside["torch processor"] / beside["openvino processor"]
    print(f"{name:<20} images/s {CPU_BATCH / alone['torch wall']:6.1f} {CPU_BATCH / alone['openvino wall']:6.1f}  "
          f"wall x {wall:.2f}  processor beside two busy loops x {processor:.2f}  "
          f"GB {gigabytes['torch']:.2f} {gigabytes['openvino']:.2f}  difference {alone['difference']:.0e}",
          flush=True)  # fmt: skip
    is_wide = name == "lite0, three sizes"
    targets = [
        Target(f"{name}: speed over torch", wall, 1.6 if is_wide else 1.0, is_minimum=True),
        Target(f"{name}: largest difference, in 1e-5", alone["difference"] * 1e5, 1.0),
        Target(f"{name}: memory over torch's", gigabytes["openvino"] / gigabytes["torch"], 1.0),
    ]
    if is_wide:
        targets.append(Target(f"{name}: processor time beside busy loops", processor, 3.0, is_minimum=True))
    return targets


def decoding_targets() -> list[Target]:
    """Print how long a photograph takes to decode, and return the target."""
    whole, reduced = decoding()
    print(f"from 12 megapixels to a view: {1e3 * whole:.0f} ms whole, {1e3 * reduced:.0f} ms reduced", flush=True)
    return [Target("12 megapixels decoded reduced: speed over whole", whole / reduced, 1.8, is_minimum=True)]


def photo_targets(n_photos: int) -> list[Target]:
    """Print whole fits of a quarter of the photographs and of all, and return the targets, which are for many."""
    seconds = []
    for n_images in (n_photos // 4, n_photos):
        with tempfile.TemporaryDirectory() as folder:
            with ProcessPoolExecutor() as pool:
                list(pool.map(partial(write_photograph, Path(folder)), range(n_images)))
            seconds.append(both_ways(f"{n_images:,} photographs", folder, "--k", "10"))
    (_, few), (before, now) = seconds
    return [
        Target(f"fit of {n_photos:,} photographs: speed over the plain way", before / now, 4.0, is_minimum=True),
        Target("four times the photographs: time / time before", now / few, 4.4),
    ] if n_photos >= LEAST_PHOTOS else []  # fmt: skip


def cub_target(folder: Path) -> Target:
    """Print whole fits of CUB, and return the target."""
    before, now = both_ways("CUB", folder, "--dataset", "cub")
    return Target("fit of CUB: speed over the plain way", before / now, 2.0, is_minimum=True)


def main() -> None:
    """Print everything and check the targets."""
    parser = parser_with_targets(__doc__)
    parser.add_argument("--only", action="append", choices=ROWS, help="one row; may be repeated")
    parser.add_argument("--photos", type=int, default=1000, help="photographs of 12 megapixels for whole fits")
    parser.add_argument("--cub", type=Path, help="CUB's folder, for a whole fit")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print_memory(arguments.memory_of, arguments.engine)
        return
    if "cub" in (arguments.only or ()) and not arguments.cub:
        parser.error("the row cub needs --cub PATH/TO/cub")
    begin(arguments, n_rounds=N_ROUNDS, openvino=openvino_version())
    n_rounds, n_photos = (3, min(arguments.photos, 40)) if arguments.short else (N_ROUNDS, arguments.photos)
    rows = arguments.only or [row for row in ROWS if not (arguments.short and row.startswith("ViT"))]
    targets = []
    for row in rows:
        if row in NETWORKS:
            targets += engine_targets(row, n_rounds)
        elif row == "decoding":
            targets += decoding_targets()
        elif row == "photos":
            targets += photo_targets(n_photos)
        elif arguments.cub:
            targets.append(cub_target(arguments.cub))
    end(arguments, targets)


if __name__ == "__main__":
    main()
