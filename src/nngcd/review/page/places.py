"""Places for the map of the page: a point for each image, similar images near each other, in a few seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.clustering.kmeans import KMeans
from nngcd.core.errors import ResourceError, UserError
from nngcd.core.files import write_tensors
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_features, read_results
from nngcd.core.seeds import numpy_generator
from nngcd.core.verified_files import read_tensors
from nngcd.results.map import FEWEST_IMAGES, beside_nearest, embed, unit, within_unit_square
from nngcd.review.page.learning import NICENESS
from nngcd.review.page.unit_features import UnitFeatures

Places = NDArray[np.float32]
N_LANDMARKS = 300
MOST_CLUSTERED = 10_000
"""Images from which the landmarks are made; of more images, a seeded sample."""
N_STEPS = 750
"""Of t-SNE, which pulls groups apart only after the first 250."""
SPREAD = 0.3
"""Size of the cloud around a landmark, in distances between neighbouring landmarks."""
PLACES = "places_n2"
PROGRAM = "import sys; from nngcd.review.page.places import make; make(sys.argv[1])"


class PlaceStore:
    """The places of a run's images, computed once and kept in the run folder where that may be written."""

    def __init__(self, run: RunFolder, features: UnitFeatures, *, may_write: bool) -> None:
        self._run, self._path = run, run.edits.parent / "map.safetensors"
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._features, self._may_write = features, may_write
        self._lock, self._found = Lock(), False
        self._places_n2: Places = np.zeros((0, 2), dtype=np.float32)

    def begin(self) -> None:
        """Compute the places in a process that gives way to the page; where none can start, `get` does it later."""
        with self._lock, suppress(OSError):
            if self._may_write and not self._is_closed and not self._found and not self._path.is_file():
                command = [sys.executable, "-c", PROGRAM, str(self._run.path)]
                # One thread: with few cores, several would stall server and browser for all their niceness.
                self._child = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"},
                                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
                if hasattr(os, "setpriority"):
                    os.setpriority(os.PRIO_PROCESS, self._child.pid, NICENESS)

    def close(self) -> None:
        """End what `begin` has begun."""
        self._is_closed = True
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def get(self) -> Places:
        """Return (n, 2) places, each axis from 0 to 1; the first call computes them or reads what another one kept."""
        with self._lock:
            if self._child is not None:
                self._child.wait()
            if not self._found:
                self._places_n2, self._found = self._read_or_make(), True
            return self._places_n2

    def _read_or_make(self) -> Places:
        made_of = self._features.digest
        with suppress(UserError):  # a damaged file is made anew
            if self._path.is_file():
                tensors, facts = read_tensors(self._path)
                if facts.get("made_of") == made_of and tensors[PLACES].shape == (len(self._features), 2):
                    return np.asarray(tensors[PLACES].float().numpy(), dtype=np.float32)
        places_n2 = places(self._features)
        if self._may_write:
            with suppress(ResourceError):  # it only saves time
                write_tensors(self._path, {PLACES: torch.from_numpy(places_n2)}, {"made_of": made_of})
        return places_n2


def make(path: str) -> None:
    """Compute the places of a run and keep them in its folder, if they are not there."""
    run = RunFolder(Path(path))
    features = UnitFeatures(read_features(run, len(read_results(run))))
    PlaceStore(run, features, may_write=True).get()


def places(features: UnitFeatures) -> Places:
    """Return a place for each image: t-SNE lays out a few landmarks, and each image is put near its own.

    Args:
        features: the feature of each image.
    """
    n_images = len(features)
    if n_images < FEWEST_IMAGES:
        return np.stack([np.linspace(0, 1, n_images), np.full(n_images, 0.5)], axis=1).astype(np.float32)
    landmark_kd = _landmarks(features)
    layout_k2 = embed(landmark_kd, n_steps=N_STEPS) if len(landmark_kd) >= FEWEST_IMAGES else _two_axes(landmark_kd)
    axes_d2 = _principal_axes(features, landmark_kd)
    spread = SPREAD * _distance_between_neighbours(layout_k2)
    places_n2 = np.empty((n_images, 2))
    for rows, block_bd in features.blocks():
        own_b = (block_bd @ landmark_kd.T).argmax(axis=1)
        middle_b2 = (layout_k2[own_b] + beside_nearest(block_bd, landmark_kd, layout_k2)) / 2
        places_n2[rows] = middle_b2 + spread * ((block_bd - landmark_kd[own_b]) @ axes_d2)
    return within_unit_square(places_n2).astype(np.float32)


def _landmarks(features: UnitFeatures) -> NDArray[np.float32]:
    """Return the centres of small groups of images at unit length."""
    rows = np.arange(len(features))
    if len(rows) > MOST_CLUSTERED:
        rows = np.sort(numpy_generator(0, "landmarks").choice(rows, MOST_CLUSTERED, replace=False))
    some_md = np.unique(features.of(rows), axis=0)
    n = min(N_LANDMARKS, max(1, len(some_md) // 3))
    if n < FEWEST_IMAGES:
        return some_md
    # Plain k-means++: the greedy kind takes longer than all the rest, and a map gains nothing by it.
    groups = KMeans(n, init="k-means++", n_init=1, max_iter=10, random_state=0).fit(torch.from_numpy(some_md))
    landmark_kd: NDArray[np.float32] = unit(groups.cluster_centers_.cpu().numpy().astype(np.float32))
    return landmark_kd


def _principal_axes(features: UnitFeatures, landmark_kd: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (d, 2) the two directions in which images differ most from their landmark, scaled to about 1."""
    some_md = features.of(numpy_generator(0, "axes").permutation(len(features))[:MOST_CLUSTERED])
    rest_md = some_md - landmark_kd[(some_md @ landmark_kd.T).argmax(axis=1)]
    value_d, axes_dd = np.linalg.eigh(rest_md.T @ rest_md / len(rest_md))
    n_axes = min(2, axes_dd.shape[1])
    axes_d2 = np.zeros((axes_dd.shape[0], 2), dtype=np.float32)
    axes_d2[:, :n_axes] = axes_dd[:, ::-1][:, :n_axes] / np.sqrt(max(float(value_d[-1]), 1e-9))
    return axes_d2


def _two_axes(landmark_kd: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return places for the few landmarks of a tiny run: the first two principal components."""
    centred_kd = landmark_kd - landmark_kd.mean(axis=0)
    left_kk, value_k, _ = np.linalg.svd(centred_kd, full_matrices=False)
    layout_k2 = np.zeros((len(landmark_kd), 2), dtype=np.float32)
    n_axes = min(2, len(value_k))
    layout_k2[:, :n_axes] = (left_kk * value_k)[:, :n_axes]
    return layout_k2


def _distance_between_neighbours(layout_k2: NDArray[np.float32]) -> float:
    if len(layout_k2) < 2:
        return 1.0
    distance_kk = np.linalg.norm(layout_k2[:, None] - layout_k2[None], axis=2)
    np.fill_diagonal(distance_kk, np.inf)
    return float(np.median(distance_kk.min(axis=1)))
