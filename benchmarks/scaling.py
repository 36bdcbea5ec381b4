"""How time and memory grow with the images, up to a million: what clusters, prepares training, assigns and writes.

python benchmarks/scaling.py --assert
python benchmarks/scaling.py --short --threads 1
python benchmarks/scaling.py --stages writing,assignment
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # has no types
from torch import Tensor

from measuring import Target, end, parser_with_targets, seconds
from nngcd.backbones.backbone import feature_backbone
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import torch_generator
from nngcd.data.split import Split, Truth
from nngcd.datasets.arrays import from_arrays
from nngcd.methods.neighbours import MAX_CANDIDATES, Neighbours
from nngcd.metrics.cooccurrence import cooccurrence_statistics
from nngcd.results.calibrating import calibrate
from nngcd.results.result_tables import Fitted, name_clusters
from nngcd.runs import writing as run_files
from nngcd.runs.views import whitened_views
from nngcd.settings import resolve
from nngcd.training.bank import MemoryBank
from nngcd.training.model import Blueprint, Model

SIZES, SHORT_SIZES = (10_000, 100_000, 1_000_000), (1_000, 10_000, 100_000)
N_FEATURES, N_CLUSTERS, N_OLD, N_MOVES = 384, 200, 100, 5
N_DIRECTIONS, N_VIEWS, N_NEIGHBOURS = 256, 4, 5
N_ROUNDS, N_SHORT_ROUNDS = 3, 1
GROWTH_LIMIT = 1.2
"""Ten times the images may take twelve times the time and memory: linear, with room for caches that grow too small."""
LINEAR_FROM = {"neighbours": MAX_CANDIDATES}
"""From how many images on a stage's time is linear, where it is not from the first."""
MEMORY_LIMIT = 12
Measured = dict[str, float]


class Images(NamedTuple):
    """Synthetic images: unit features of overlapping classes, the first half of them old and half labelled."""

    x_nd: Tensor
    class_n: Tensor
    label_n: Tensor

    @classmethod
    def draw(cls, n_images: int) -> Images:
        """Return that many images, made in place so that making them is not the peak that is measured."""
        generator = torch_generator(0, "scaling")
        x_nd = torch.randn(n_images, N_FEATURES, generator=generator)
        number_n = torch.arange(n_images)
        class_n = number_n % N_CLUSTERS
        centre_kd = 0.1 * torch.randn(N_CLUSTERS, N_FEATURES, generator=generator)
        for x_bd, class_b in zip(x_nd.split(4096), class_n.split(4096), strict=True):
            x_bd += centre_kd[class_b]
            F.normalize(x_bd, dim=-1, out=x_bd)
        is_labelled_n = (class_n < N_OLD) & (number_n // N_CLUSTERS % 2 == 0)
        return cls(x_nd, class_n, torch.where(is_labelled_n, class_n, -1))

    def split(self) -> Split:
        """Return them as the pipeline gets them."""
        # Names of one length sort as their numbers do, so that old class k is cluster k.
        names = np.array([*(f"class-{k:03d}" for k in range(N_OLD)), None], dtype=object)
        return from_arrays(self.x_nd.numpy(), names[self.label_n.numpy()])

    def truth(self) -> Truth:
        """Return the true classes as the pipeline gets them."""
        names = tuple(f"class-{k:03d}" for k in range(N_CLUSTERS))
        return Truth(classes=self.class_n.numpy(), class_names=names, n_old=N_OLD)


def main() -> None:
    """Measure every stage at every size, each in a fresh process, and print a table and one line per target."""
    parser = parser_with_targets(__doc__)
    parser.add_argument("--stages", default=",".join(STAGES), help="some of them, with commas between")
    arguments = parser.parse_args()
    sizes, n_rounds = (SHORT_SIZES, N_SHORT_ROUNDS) if arguments.short else (SIZES, N_ROUNDS)
    machine = f"{os.cpu_count()} cores, {arguments.threads} threads, {platform.machine()}, torch {torch.__version__}"
    print(f"{machine}; each in a fresh process, best of {n_rounds}")
    print(f"{N_FEATURES} features, {N_CLUSTERS} clusters, {N_MOVES} moves of all centres", flush=True)
    print(f"\n{'stage':<24}{'images':>12}{'seconds':>10}{'µs per image':>13}{'peak GB':>9}{'grown by':>12}")
    targets = [
        target for stage in arguments.stages.split(",") for target in growth(stage, sizes, n_rounds, arguments.threads)
    ]
    end(arguments, targets)


def growth(stage: str, sizes: tuple[int, ...], n_rounds: int, threads: int) -> Iterator[Target]:
    """Measure one stage at all sizes, which take turns, and compare the two largest."""
    rounds = [[in_fresh_process(stage, n_images, threads) for n_images in sizes] for _ in range(n_rounds)]
    best = [{name: min(one[name] for one in same) for name in same[0]} for same in zip(*rounds, strict=True)]
    for n_images, found in zip(sizes, best, strict=True):
        added = found["peak"] - found["before"]
        print(f"{stage:<24}{n_images:>12,}{found['seconds']:>10.2f}{1e6 * found['seconds'] / n_images:>13.1f}"
              f"{found['peak']:>9.2f}{added:>12.2f}", flush=True)  # fmt: skip
    (few, less), (many, more) = zip(sizes[-2:], best[-2:], strict=True)
    added = [(found["peak"] - found["before"]) / n_images for n_images, found in ((few, less), (many, more))]
    spent = [found["seconds"] / n_images for n_images, found in ((few, less), (many, more))]
    if few >= LINEAR_FROM.get(stage, 0):
        yield Target(f"{stage}: time per image, {many:,} / {few:,}", spent[1] / spent[0], GROWTH_LIMIT)
    yield Target(f"{stage}: memory per image, {many:,} / {few:,}", added[1] / added[0], GROWTH_LIMIT)
    yield Target(f"{stage}: peak resident memory in GB, {many:,}", more["peak"], MEMORY_LIMIT)


def in_fresh_process(stage: str, n_images: int, threads: int) -> Measured:
    """Return what a process of its own measures: its peak memory is that of nothing else."""
    # A fork of this process, which has done nothing but import: importing takes longer than the small sizes.
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as processes:
        return processes.submit(measured, stage, n_images, threads).result()


def measured(stage: str, n_images: int, threads: int) -> Measured:
    """Return seconds, and the peak resident memory in GB before the images are made and at the end."""
    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        before = peak_gigabytes()
        work = STAGES[stage](Images.draw(n_images))
        return {"seconds": seconds(work), "before": before, "peak": peak_gigabytes()}


def peak_gigabytes() -> float:
    """Return the most memory this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def k_means(images: Images) -> Callable[[], object]:
    """Return a fixed number of moves from rows as given centres."""
    return lambda: KMeans(N_CLUSTERS, init=images.x_nd[:N_CLUSTERS], max_iter=N_MOVES, tol=0).fit(images.x_nd)


def semi_supervised_k_means(images: Images) -> Callable[[], object]:
    """Return the same with labels, and k-means++ before it; a matched start takes as many moves as it takes."""
    fit = SemiSupervisedKMeans(N_CLUSTERS, init="published", n_init=1, max_iter=N_MOVES, tol=0)
    return lambda: fit.fit(images.x_nd, images.label_n)


def whitening(images: Images) -> Callable[[], object]:
    """Return what comes before training: the map from the centre views, and through it all kept views."""
    # All views are the same numbers, so that what is measured is not their size but what is made of them.
    bank = MemoryBank(images.x_nd[:, None].expand(-1, N_VIEWS, -1))
    backbone, labels = feature_backbone(N_FEATURES), images.label_n.numpy()
    return lambda: whitened_views(backbone, bank, images.x_nd, labels, N_DIRECTIONS)


def neighbours(images: Images) -> Callable[[], object]:
    """Return one search for the neighbours that images learn from."""
    found, generator = Neighbours(N_NEIGHBOURS), torch_generator(0, "neighbours")
    return lambda: found.see(images.x_nd, find=True, generator=generator)


def assignment(images: Images) -> Callable[[], object]:
    """Return what the pipeline does after training: scores of all images, names of the clusters."""
    model, split = centre_model(images), images.split()
    return lambda: name_clusters(model.scores(images.x_nd).argmax(-1).numpy(), split, N_CLUSTERS)


def cooccurrence(images: Images) -> Callable[[], object]:
    """Return the statistics of all similarities."""
    class_n = images.class_n.numpy()
    return lambda: cooccurrence_statistics(images.x_nd.numpy(), class_n, class_n < N_OLD)


def writing(images: Images) -> Callable[[], object]:
    """Return the writing of a whole run folder; its model, 200 centres, is next to nothing."""
    model, split, truth = centre_model(images), images.split(), images.truth()
    settings = resolve({"method": "kmeans", "k": N_CLUSTERS, "data": "synthetic"})
    scores_nk = torch.empty(len(images.x_nd), N_CLUSTERS)
    for score_bk, x_bd in zip(scores_nk.split(4096), images.x_nd.split(4096), strict=True):
        score_bk.copy_(model.scores(x_bd))
    categories = name_clusters(scores_nk.argmax(-1).numpy(), split, N_CLUSTERS)
    is_held_back = split.is_labelled & (np.arange(len(split)) % 5 == 0)

    def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder.create(Path(folder) / "run")
            run_files.write_inputs(run, split, is_held_back, settings)
            confidence = calibrate(scores_nk, split.labels, is_held_back, n_old=split.n_old)
            fitted = Fitted(model, categories, images.x_nd, scores_nk, None, confidence)
            run_files.write_outputs(run, split, fitted)
            run_files.write_summary(run, split, truth, settings, fitted, is_held_back=is_held_back, seconds=0)

    return write


def centre_model(images: Images) -> Model:
    """Return a k-means model as if fitted: its centres are the means of a few images of each class."""
    blueprint = Blueprint(
        backbone="features", effort="quick", tail_blocks=1, image_size=None, method="kmeans", loss={},
        n_features=N_FEATURES, n_clusters=N_CLUSTERS, n_old=N_OLD,
    )  # fmt: skip
    model = Model.assemble(blueprint, feature_backbone(N_FEATURES), seed=0)
    few = slice(100 * N_CLUSTERS)
    is_class_kb = torch.arange(N_CLUSTERS)[:, None] == images.class_n[few]
    mean_kd = is_class_kb.float() @ images.x_nd[few] / is_class_kb.sum(1, keepdim=True).clamp_min(1)
    model.method.load_state_dict({"centres_kd": mean_kd})
    return model


STAGES: dict[str, Callable[[Images], Callable[[], object]]] = {
    "k-means": k_means,
    "semi-supervised k-means": semi_supervised_k_means,
    "whitening": whitening,
    "neighbours": neighbours,
    "assignment": assignment,
    "co-occurrence": cooccurrence,
    "writing": writing,
}


if __name__ == "__main__":
    main()
