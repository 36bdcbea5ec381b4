"""Speed of k-means: against scikit-learn, against loops as in published code, and at twice the size.

python benchmarks/clustering.py --assert
python benchmarks/clustering.py --short
python benchmarks/clustering.py --cub ../shared/data/cub --cache runs/.nngcd-cache
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.cluster import KMeans as ScikitLearnKMeans
from sklearn.cluster import kmeans_plusplus

from frozen_features import frozen_features
from measuring import Target, begin, end, fastest, parser_with_targets, seconds
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.points import ONE_PROCESS, prepare
from nngcd.clustering.seeding import add_centres
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans

Array = NDArray[Any]
N_MOVES, N_MORE_MOVES = 5, 25


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Rows, features and clusters (n, d, k) of each measurement."""

    speed: tuple[int, int, int] = (50_000, 768, 200)
    memory: tuple[int, int, int] = (1_000_000, 384, 1_000)
    growth: tuple[int, int, int] = (20_000, 256, 100)
    semi_supervised: tuple[int, int, int] = (5_994, 1_280, 200)
    reference_rows: int = 2_000
    """Rows the loops of published code are run on; their time is scaled up to all rows."""


SHORT = Sizes(speed=(8_000, 768, 50), memory=(100_000, 384, 200), growth=(10_000, 128, 50),
              semi_supervised=(2_000, 640, 60), reference_rows=500)  # fmt: skip


def main() -> None:
    """Measure everything and print one line per target."""
    parser = parser_with_targets(__doc__)
    parser.add_argument("--cub", type=Path, metavar="FOLDER", help="CUB-200-2011, instead of a stand-in")
    parser.add_argument("--cache", type=Path, help="folder in which its features are kept")
    arguments = parser.parse_args()
    sizes = SHORT if arguments.short else Sizes()
    begin(arguments, scikit_learn=sklearn.__version__)
    semi_supervised = cub_features(arguments.cub, arguments.cache) if arguments.cub else stand_in(sizes)
    targets = [
        moves_beside_others(sizes),
        *seeds_beside_others(sizes),
        memory(sizes),
        *growth(sizes),
        semi_supervised_fit(*semi_supervised),
    ]
    end(arguments, targets)


def blobs(n_rows: int, n_features: int, n_classes: int) -> tuple[Array, Array]:
    """Return unit features of overlapping classes, and the class of each row."""
    rng = np.random.default_rng(0)
    class_n = rng.integers(n_classes, size=n_rows)
    x_nd = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    x_nd += (0.1 * rng.standard_normal((n_classes, n_features), dtype=np.float32))[class_n]
    return x_nd / np.linalg.norm(x_nd, axis=1, keepdims=True), class_n


def moves_beside_others(sizes: Sizes) -> Target:
    """Compare a few moves of all centres from the same start with scikit-learn's, and with a loop over the rows."""
    n_rows, n_features, n_clusters = sizes.speed
    x_nd, _ = blobs(*sizes.speed)
    few = sizes.reference_rows
    start: dict[str, Any] = {"init": x_nd[:n_clusters].copy(), "n_init": 1, "tol": 0}
    ours, ours_more, theirs, theirs_more, loop = fastest(
        lambda: KMeans(n_clusters, max_iter=N_MOVES, **start).fit(x_nd),
        lambda: KMeans(n_clusters, max_iter=N_MORE_MOVES, **start).fit(x_nd),
        lambda: ScikitLearnKMeans(n_clusters, algorithm="lloyd", max_iter=N_MOVES, **start).fit(x_nd),
        lambda: ScikitLearnKMeans(n_clusters, algorithm="lloyd", max_iter=N_MORE_MOVES, **start).fit(x_nd),
        lambda: one_move_by_loops(x_nd[:few], start["init"]),
    )
    # The difference leaves out what is done once: checks, a centred copy, the labels at the end.
    our_move, their_move = ((more - some) / (N_MORE_MOVES - N_MOVES)
                            for some, more in ((ours, ours_more), (theirs, theirs_more)))  # fmt: skip
    print(f"\nMoves of all centres, {n_rows:,} x {n_features} rows, {n_clusters} clusters")
    print(f"  one more: nngcd {our_move:.3f} s, scikit-learn {their_move:.3f} s")
    print(f"  loop over rows and clusters {loop * n_rows / few:.1f} s (scaled from {few:,} rows)")
    print(f"  a fit of {N_MORE_MOVES}: nngcd {ours_more:.2f} s, scikit-learn {theirs_more:.2f} s", flush=True)
    return Target("one move of all centres: our time / scikit-learn's", our_move / their_move, 1)


def one_move_by_loops(x_nd: Array, centres_kd: Array) -> Array:
    """Return the moved centres, one row and one cluster after the other."""
    cluster_n = np.array([((x_d - centres_kd) ** 2).sum(1).argmin() for x_d in x_nd])
    is_used = [np.any(cluster_n == k) for k in range(len(centres_kd))]
    return np.stack([x_nd[cluster_n == k].mean(0) if is_used[k] else centres_kd[k] for k in range(len(centres_kd))])


def seeds_beside_others(sizes: Sizes) -> Iterator[Target]:
    """Compare k-means++ with published code, which measures all distances to all chosen centres for every new one."""
    n_rows, n_features, n_clusters = sizes.speed
    x_nd, _ = blobs(*sizes.speed)
    few, half_kd = sizes.reference_rows, x_nd[: n_clusters // 2]
    n_candidates = 2 + int(np.log(n_clusters))
    ours, greedy, theirs, product, published = fastest(
        lambda: draw_seeds(x_nd, n_clusters, 1),
        lambda: draw_seeds(x_nd, n_clusters, n_candidates),
        lambda: kmeans_plusplus(x_nd, n_clusters, random_state=0),
        lambda: x_nd @ half_kd.T,
        lambda: [((x_bd[:, None] - half_kd) ** 2).sum(-1) for x_bd in np.array_split(x_nd[:few], few // 100)],
    )
    product, published = product * n_clusters, published * n_clusters * n_rows / few
    print(f"\nk-means++, {n_rows:,} x {n_features} rows, {n_clusters} clusters")
    print(f"  nngcd {ours:.2f} s; best of {n_candidates} draws: nngcd {greedy:.2f} s, scikit-learn {theirs:.2f} s")
    print(f"  all distances for every centre: {published:.0f} s by differences, as published, {product:.1f} s by one")
    print(f"  product (scaled from the middle centre; differences also from {few:,} rows)", flush=True)
    yield Target("k-means++: time of published recomputation / ours", published / ours, 5, is_minimum=True)
    yield Target("k-means++ of several candidates: our time / scikit-learn's", greedy / theirs, 1)


def draw_seeds(x_nd: Array, n_clusters: int, n_candidates: int) -> None:
    """Draw one start's first centres."""
    points = prepare(x_nd, None, 4096, ONE_PROCESS)
    none_rkd = points.x_nd.new_empty(1, 0, x_nd.shape[1])
    add_centres(points, none_rkd, n_clusters, torch.Generator().manual_seed(0), n_candidates=n_candidates)


def memory(sizes: Sizes) -> Target:
    """Measure the peak resident memory of a fit in a fresh process, its rows included."""
    command = [sys.executable, __file__, "fit-large", *map(str, sizes.memory)]
    taken, gigabytes = map(float, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    n_rows, n_features, n_clusters = sizes.memory
    print(f"\nMemory, {n_rows:,} x {n_features} rows, {n_clusters:,} clusters; 2 moves from rows as given centres")
    print(f"  {gigabytes:.1f} GB, {taken:.0f} s", flush=True)
    return Target(f"peak resident memory in GB, {n_rows:,} rows", gigabytes, 8)


def fit_large(n_rows: int, n_features: int, n_clusters: int) -> None:
    """Print the time of a short fit and the peak resident memory in GB."""
    x_nd = torch.randn(n_rows, n_features, generator=torch.Generator().manual_seed(0))
    taken = seconds(lambda: KMeans(n_clusters, init=x_nd[:n_clusters], max_iter=2, tol=0).fit(x_nd))
    unit = 1 if sys.platform == "darwin" else 1024
    print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9)


def growth(sizes: Sizes) -> Iterator[Target]:
    """Measure how the time of a fit of a fixed number of moves grows with rows, clusters and starts."""
    n_rows, n_features, n_clusters = sizes.growth
    x_nd, _ = blobs(2 * n_rows, n_features, n_clusters)
    cases = {"once": (1, 1, 1), "rows": (2, 1, 1), "clusters": (1, 2, 1), "starts": (1, 1, 2)}
    n_starts = 2

    def fit(rows: int, clusters: int, starts: int) -> KMeans:
        k_means = KMeans(clusters * n_clusters, n_init=starts * n_starts, max_iter=N_MOVES, tol=0)
        return k_means.fit(x_nd[: rows * n_rows])

    times = dict(zip(cases, fastest(*(lambda case=case: fit(*case) for case in cases.values())), strict=True))
    print(
        f"\nGrowth from {n_rows:,} x {n_features} rows, {n_clusters} clusters, {n_starts} starts, {N_MOVES} moves each"
    )
    print("  " + ", ".join(f"{name} {taken:.2f} s" for name, taken in times.items()), flush=True)
    for name in ("rows", "clusters", "starts"):
        yield Target(f"twice the {name}: time / time before", times[name] / times["once"], 2.6)


def cub_features(folder: Path, cache: Path | None) -> tuple[str, Array, Array, int]:
    """Return name, unit features of the centre view, labels and number of classes of CUB."""
    where = argparse.Namespace(data=str(folder), dataset="cub", cache=cache)
    split, truth, features_nd = frozen_features(where)
    assert truth is not None, "CUB tells every image's class"
    return "CUB", F.normalize(features_nd, dim=-1).numpy(), np.asarray(split.labels), len(truth.class_names)


def stand_in(sizes: Sizes) -> tuple[str, Array, Array, int]:
    """Return overlapping classes of CUB's shape: half of them old, and half of their rows labelled."""
    n_classes = sizes.semi_supervised[-1]
    x_nd, class_n = blobs(*sizes.semi_supervised)
    is_labelled_n = (class_n < n_classes // 2) & (np.random.default_rng(1).random(len(class_n)) < 0.5)
    return "a synthetic stand-in for CUB", x_nd, np.where(is_labelled_n, class_n, -1), n_classes


def semi_supervised_fit(name: str, x_nd: Array, label_n: Array, n_clusters: int) -> Target:
    """Compare one semi-supervised fit, of which plain k-means is a part, with scikit-learn's plain k-means."""
    ours, plain, theirs = fastest(
        lambda: SemiSupervisedKMeans(n_clusters, n_init=1).fit(x_nd, label_n),
        lambda: KMeans(n_clusters, n_init=1).fit(x_nd),
        lambda: ScikitLearnKMeans(n_clusters, n_init=1, random_state=0).fit(x_nd),
    )
    print(f"\nOne whole fit of one start, {name}: {len(x_nd):,} x {x_nd.shape[1]} rows, {n_clusters} clusters")
    print(f"  nngcd semi-supervised {ours:.2f} s, plain {plain:.2f} s; scikit-learn plain {theirs:.2f} s", flush=True)
    return Target("semi-supervised fit: our time / scikit-learn's plain k-means", ours / theirs, 3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["fit-large"]:
        fit_large(*map(int, sys.argv[2:]))
    else:
        main()
