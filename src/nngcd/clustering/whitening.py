"""Features in which images of one class differ as little as they can: what labelled classes teach about new ones."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf
from torch import Tensor

from nngcd.clustering.points import WIDE, Points, Rows, as_rows, prepare
from nngcd.core.errors import DataError

MAX_FEATURES = 128
LEAST_VARIANCE = 1e-6
"""Share of the mean variance within classes that a direction is taken to have at least: none is blown up for ever."""


def whitened_within_classes(features_nd: Rows, labels_n: Rows) -> Tensor:
    """Return unit rows in which the images of a labelled class spread the same in all directions.

    Directions in which images of one class differ (pose, light, handwriting) are no help in telling classes apart, and
    much the same ones are no help for new classes; here they count for less. Within-class covariance normalisation
    (Hatch, Kajarekar & Stolcke, Interspeech 2006), with Ledoit & Wolf's shrinkage because labelled images are few, on
    the main directions of the unit features.

    Args:
        features_nd: (n, d) features; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.

    Returns:
        (n, at most MAX_FEATURES) rows of length 1. With fewer than 2 classes of 2 labelled images, there is nothing to
        learn from: then it is `main_directions`.

    Raises:
        DataError: the features hold NaN or infinite values.
    """
    x_nd = main_directions(features_nd)
    map_de = whitening_map(x_nd, labels_n)
    return x_nd.float() if map_de is None else F.normalize(x_nd @ map_de).float()


def main_directions(features_nd: Rows) -> Tensor:
    """Return the unit features less their mean in their MAX_FEATURES main directions (all, if there are fewer)."""
    mean_d, direction_de = _main_directions(features_nd, MAX_FEATURES)
    centred_nd = F.normalize(as_rows(features_nd).double()) - mean_d
    return centred_nd if direction_de is None else torch.mm(centred_nd, direction_de)


def whitening(features_nd: Rows, labels_n: Rows, n_directions: int) -> tuple[Tensor, Tensor]:
    """Return mean_d and map_de: (unit feature - mean) @ map is whitened within the labelled classes.

    The map that `whitened_within_classes` applies, for features that come later. Where the labels teach nothing, it
    only turns to the main directions.

    Args:
        features_nd: (n, d) features of all images; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.
        n_directions: e, at most d.

    Raises:
        DataError: the features hold NaN or infinite values.
    """
    mean_d, direction_de = _main_directions(features_nd, n_directions)
    if direction_de is None:
        direction_de = torch.eye(len(mean_d), dtype=mean_d.dtype)
    x_ne = (F.normalize(as_rows(features_nd).double()) - mean_d) @ direction_de
    map_ee = whitening_map(x_ne, labels_n)
    return mean_d, direction_de if map_ee is None else direction_de @ map_ee


def _main_directions(features_nd: Rows, n_directions: int) -> tuple[Tensor, Tensor | None]:
    """Return the mean of the unit features and their main directions; None when all directions are wanted."""
    unit_nd = F.normalize(as_rows(features_nd).double())
    if not torch.isfinite(unit_nd.sum(0)).all():
        raise DataError("the features hold NaN or infinite values; leave those rows out or mend them")
    mean_d = unit_nd.mean(0)
    if unit_nd.shape[1] <= n_directions:
        return mean_d, None
    centred_nd = unit_nd - mean_d
    return mean_d, torch.linalg.eigh(centred_nd.T @ centred_nd).eigenvectors[:, -n_directions:]


def whitening_map(x_nd: Tensor, labels_n: Rows) -> Tensor | None:
    """Return the inverse root of the covariance of labelled rows about the means of their classes; None if unknown."""
    rest_md = _rest_within_classes(x_nd.numpy(), np.asarray(torch.as_tensor(labels_n).cpu()))
    return None if rest_md is None or not rest_md.any() else _inverse_root(rest_md)


def _inverse_root(rest_md: NDArray[np.float64]) -> Tensor:
    covariance_dd, _ = ledoit_wolf(rest_md, assume_centered=True)
    variance_e, direction_de = np.linalg.eigh(covariance_dd)
    variance_e = np.maximum(variance_e, LEAST_VARIANCE * variance_e.mean())
    return torch.from_numpy(direction_de / np.sqrt(variance_e))


def _rest_within_classes(x_nd: NDArray[np.float64], labels_n: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return the labelled rows less the mean of their class, without classes of one row; None with under 2 classes."""
    x_md, class_m = x_nd[labels_n >= 0], np.unique(labels_n[labels_n >= 0], return_inverse=True)[1]
    size_c = np.bincount(class_m)
    if (size_c > 1).sum() < 2:
        return None
    sum_cd = np.zeros((len(size_c), x_md.shape[1]))
    np.add.at(sum_cd, class_m, x_md)
    rest_md: NDArray[np.float64] = (x_md - (sum_cd / size_c[:, None])[class_m])[size_c[class_m] > 1]
    return rest_md


def whitened_points(points: Points, mean_cd: Tensor) -> Points | None:
    """Return the points in unit rows as `whitened_within_classes` has them, over all shards; None with under 2 classes.

    Args:
        points: the rows, which here need not be of length 1, but lose what their length tells.
        mean_cd: the mean of the labelled rows of each class.
    """
    is_labelled_n = points.label_n >= 0
    map_de = _main_map(points)
    rest_md = (points.x_nd[is_labelled_n] - mean_cd[points.label_n[is_labelled_n]]).to(WIDE) @ map_de
    n_most = int(points.shards.gather(map_de.new_tensor(len(rest_md))).max())
    rest_md = points.shards.gather(F.pad(rest_md, (0, 0, 0, n_most - len(rest_md)))).flatten(0, 1)
    rest_md = rest_md[rest_md.any(1)]  # a class of one row tells nothing, nor does what fills a shard up
    if len(mean_cd) < 2 or not len(rest_md):
        return None
    map_de = (map_de @ _inverse_root(rest_md.cpu().numpy()).to(map_de)).to(points.x_nd)
    unit_nd = torch.cat([F.normalize(x_bd @ map_de) for _, x_bd in points.blocks()])
    return prepare(unit_nd, points.label_n, points.block_size, points.shards)


def _main_map(points: Points) -> Tensor:
    """Return the MAX_FEATURES main directions of the rows of all shards, or all as they are, if there are fewer."""
    n_features = len(points.mean_d)
    if n_features <= MAX_FEATURES:
        return torch.eye(n_features, dtype=WIDE, device=points.x_nd.device)
    product_dd = torch.zeros(n_features, n_features, dtype=WIDE, device=points.x_nd.device)
    for _, x_bd in points.blocks():
        product_dd += x_bd.T @ x_bd
    direction_de: Tensor = torch.linalg.eigh(points.shards.all_reduce(product_dd)).eigenvectors[:, -MAX_FEATURES:]
    return direction_de
