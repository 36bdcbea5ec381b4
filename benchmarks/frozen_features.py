r"""Frozen features of the centre view: for benchmarks that import this, or as a file that several of them read.

python benchmarks/frozen_features.py PATH/TO/CUB_200_2011 --dataset cub --set backbone=vit_base_patch16_224 \
    --set weights=VIT.safetensors --set image_size=224 --out FEATURES.npz

The file holds X (features), y (labels, -1 for unlabelled) and truth (true classes, old ones first).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from torch import Tensor

from nngcd.core.config import merge, parse_assignments
from nngcd.core.progress import Progress
from nngcd.data.split import Split, Truth
from nngcd.datasets.opening import open_dataset
from nngcd.runs.preparing import prepare
from nngcd.runs.views import Views
from nngcd.settings import resolve


def data_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser that asks for the data; a benchmark adds its own options."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder, or digits")
    parser.add_argument("--dataset", help="how the folder is to be read, for example cub")
    parser.add_argument("--cache", type=Path, help="folder in which features are kept for the next time")
    return parser


def frozen_features(arguments: argparse.Namespace) -> tuple[Split, Truth | None, Tensor]:
    """Return the data and the pre-trained features of the centre view of each image."""
    split, truth = open_dataset(arguments.data, dataset=arguments.dataset)
    # k-means has no preset that makes more of the features than the backbone gives.
    asked = {"data": arguments.data, "dataset": arguments.dataset, "k": "auto", "method": "kmeans"}
    settings = resolve(merge(asked, parse_assignments(getattr(arguments, "set", []))))
    job = prepare(split, settings, only_centre=True)
    views = Views.of(job, cache=arguments.cache, progress=Progress())
    return split, truth, views.centre_features()


def main() -> None:
    """Write the features of a benchmark, whose true classes are known."""
    parser = data_parser(__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as of fit")
    parser.add_argument("--out", type=Path, required=True, help="the .npz to write")
    arguments = parser.parse_args()
    split, truth, features_nd = frozen_features(arguments)
    assert truth is not None, "only a benchmark has true classes"
    np.savez(arguments.out, X=features_nd.float().numpy(), y=split.labels, truth=truth.classes)
    print(f"{arguments.out}: {features_nd.shape[1]} features of {len(split):,} images")


if __name__ == "__main__":
    main()
