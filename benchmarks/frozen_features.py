"""What benchmarks on frozen features share: which data, and its features of the centre view."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch import Tensor

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
    job = prepare(split, resolve(asked), only_centre=True)
    views = Views.of(job, cache=arguments.cache, progress=Progress())
    return split, truth, views.centre_features()
