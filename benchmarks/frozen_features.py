"""What benchmarks on frozen features share: which data, and its features of the centre view."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch import Tensor

from nngcd.core.progress import Progress
from nngcd.datasets import open_dataset
from nngcd.datasets.split import Split, Truth
from nngcd.job import centre_view_features, kept_views, prepare
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
    bank = kept_views(job, cache=arguments.cache, progress=Progress())
    return split, truth, centre_view_features(job, bank, Progress())
