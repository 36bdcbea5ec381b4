"""Features in which images of one class differ as little as they can: what labelled classes teach about new ones."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.lloyd import class_sums
from nngcd.clustering.points import WIDE, Points, Rows, UnitRows, prepare

MAX_FEATURES = 128
LEAST_VARIANCE = 1e-6
"""Share of the mean variance within classes that a direction is taken to have at least: none is blown up for ever."""


def whitened_within_classes(features_nd: Rows, labels_n: Rows) -> Tensor:
    """Return unit rows in which the images of a labelled class spread the same in all directions.

    Directions in which images of one class differ (pose, light, handwriting) do not help to tell classes apart, and
    much the same ones are no help for new classes; here they count for less. Within-class covariance normalisation
    (Hatch, Kajarekar & Stolcke, Interspeech 2006), with Ledoit & Wolf's shrinkage because labelled images are few, on
    the main directions of the unit features.

    Args:
        features_nd: (n, d) features; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.

    Returns:
        (n, at most MAX_FEATURES) rows of length 1. With fewer than 2 classes of 2 labelled images, there is nothing to
        learn from: then it is `main_directions`.
    """
    rows = _rows(features_nd, labels_n)
    map_de = whitening_map(rows, MAX_FEATURES)
    if map_de is None:
        return main_directions(features_nd).float()
    return torch.cat([F.normalize(x_bd @ map_de).float() for _, x_bd in rows.blocks()])


def main_directions(features_nd: Rows) -> Tensor:
    """Return the unit features less their mean in their MAX_FEATURES main directions (all, if there are fewer)."""
    rows = UnitRows.of(features_nd)
    direction_de = _main_map(rows, MAX_FEATURES)
    return torch.cat([x_bd @ direction_de for _, x_bd in rows.blocks()])


def whitening(features_nd: Rows, labels_n: Rows, n_directions: int) -> tuple[Tensor, Tensor]:
    """Return mean_d and map_de: (unit feature - mean) @ map is whitened within the labelled classes.

    The map that `whitened_within_classes` applies, for features that come later. Where the labels teach nothing, it
    only turns to the main directions.

    Args:
        features_nd: (n, d) features of all images; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.
        n_directions: e, at most d.
    """
    rows = _rows(features_nd, labels_n)
    map_de = whitening_map(rows, n_directions)
    return rows.mean_d, _main_map(rows, n_directions) if map_de is None else map_de


def _rows(features_nd: Rows, labels_n: Rows) -> UnitRows:
    """Return the rows with their classes numbered 0, 1, 2, ...: sums are kept of every number up to the highest."""
    rows = UnitRows.of(features_nd, labels_n)
    class_c: Tensor = torch.unique(rows.label_n[rows.label_n >= 0])
    label_n = torch.where(rows.label_n >= 0, torch.searchsorted(class_c, rows.label_n), -1)
    return dataclasses.replace(rows, label_n=label_n)


def whitened_points(points: Points) -> Points | None:
    """Return the points in unit rows as `whitened_within_classes` has them, over all shards; None if it is unknown how.

    The points need not be of length 1, but lose what their length tells.
    """
    map_de = whitening_map(points, MAX_FEATURES)
    if map_de is None:
        return None
    map_de = map_de.to(points.x_nd)
    unit_nd = torch.cat([F.normalize(x_bd @ map_de) for _, x_bd in points.blocks()])
    return prepare(unit_nd, points.label_n, points.block_size, points.shards)


def whitening_map(rows: Points | UnitRows, n_directions: int) -> Tensor | None:
    """Return map_de: the main directions of rows, and in them the inverse root of the covariance within classes.

    Args:
        rows: read a block at a time, so that nothing but sums is kept; the rows of all shards count.
        n_directions: e, or d if that is less.

    Returns:
        None with fewer than 2 classes of 2 labelled rows, and where the rows of each class are all equal.
    """
    sum_cd, size_c1 = class_sums(rows).tensor_split([-1], dim=1)
    if (size_c1 > 1).sum() < 2:
        return None
    direction_de = _main_map(rows, n_directions)
    rest = _rest_within_classes(rows, sum_cd / size_c1.clamp_min(1), size_c1[:, 0] > 1, direction_de)
    return direction_de @ _inverse_root(shrunk_covariance(rest)) if rest.product_ee.any() else None


def _main_map(rows: Points | UnitRows, n_directions: int) -> Tensor:
    """Return the main directions of the rows of all shards, or all as they are, if there are no more."""
    n_features, device = len(rows.mean_d), rows.mean_d.device
    if n_features <= n_directions:
        return torch.eye(n_features, dtype=WIDE, device=device)
    product_dd = torch.zeros(n_features, n_features, dtype=WIDE, device=device)
    for _, x_bd in rows.blocks():
        product_dd += x_bd.T @ x_bd
    return _eigenvectors(rows.shards.all_reduce(product_dd))[:, -n_directions:]


def _eigenvectors(symmetric_dd: Tensor) -> Tensor:
    """Return the eigenvectors as columns, that of the least eigenvalue first."""
    try:
        direction_dd: Tensor = torch.linalg.eigh(symmetric_dd).eigenvectors
    except RuntimeError:  # torch.linalg.LinAlgError, which torch does not export to type checkers
        # With several threads torch's solver can give up on a matrix of low rank, as few images give it.
        direction_dd = torch.from_numpy(np.linalg.eigh(symmetric_dd.cpu().numpy())[1]).to(symmetric_dd)
    return direction_dd


class Rest(NamedTuple):
    """Sums over labelled rows less the means of their classes."""

    product_ee: Tensor
    fourth: float
    """The sum of the fourth powers of their lengths."""
    n_rows: int


def _rest_within_classes(rows: Points | UnitRows, mean_cd: Tensor, is_told_c: Tensor, direction_de: Tensor) -> Rest:
    """Return the sums over the classes that are told of by more than one row: a row alone is its own mean."""
    n_directions = direction_de.shape[1]
    product_ee, other_2 = direction_de.new_zeros(n_directions, n_directions), direction_de.new_zeros(2)
    for place, x_bd in rows.blocks():
        label_b = rows.label_n[place]
        row_m = ((label_b >= 0) & is_told_c[label_b]).nonzero().flatten()
        rest_me = (x_bd[row_m] - mean_cd[label_b[row_m]]) @ direction_de
        product_ee += rest_me.T @ rest_me
        other_2 += torch.stack([rest_me.square().sum(1).square().sum(), other_2.new_tensor(len(row_m))])
    fourth, n_rows = rows.shards.all_reduce(other_2).tolist()
    return Rest(rows.shards.all_reduce(product_ee), fourth, int(n_rows))


def shrunk_covariance(rest: Rest) -> Tensor:
    """Return the covariance drawn towards equal variance in all directions, the more the less certain it is.

    Ledoit & Wolf, A well-conditioned estimator for large-dimensional covariance matrices (2004), Section 3, for rows of
    mean 0. How uncertain it is, the mean squared distance of single rows' products from it, the fourth powers tell.
    """
    covariance_ee, n_directions = rest.product_ee / rest.n_rows, len(rest.product_ee)
    mean_variance, size = float(covariance_ee.trace()) / n_directions, float(covariance_ee.square().sum())
    uncertainty, distance = (rest.fourth / rest.n_rows - size) / rest.n_rows, size - n_directions * mean_variance**2
    share = min(max(uncertainty / distance, 0.0), 1.0) if distance > 0 else 0.0
    return (1 - share) * covariance_ee + share * mean_variance * torch.eye(n_directions).to(covariance_ee)


def _inverse_root(covariance_ee: Tensor) -> Tensor:
    variance_f, direction_ef = np.linalg.eigh(covariance_ee.cpu().numpy())
    variance_f = np.maximum(variance_f, LEAST_VARIANCE * variance_f.mean())
    return torch.from_numpy(direction_ef / np.sqrt(variance_f)).to(covariance_ee)
