"""Labelled images that look like another category, for a person to check."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nngcd.metrics.calibration import best_temperature

SURE = 0.7
"""Least probability of another category; high, so that most of the reported labels are wrong."""


def possible_label_errors(features_nd: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which labelled images are much nearer to the mean of another category than to that of their own.

    Each image is left out of its own category's mean, so a label cannot speak for itself. Distances become
    probabilities by the temperature under which the labels, left out in turn, are most probable. A category with a
    single image has no mean without it, and is not judged.

    Args:
        features_nd: the features of all images.
        labels: (n,) the label of each image, -1 for unlabelled.
    """
    is_doubted = np.zeros(len(labels), dtype=np.bool_)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    rows = np.flatnonzero((labels >= 0) & (sizes[np.maximum(labels, 0)] > 1))
    categories, label_m = np.unique(labels[rows], return_inverse=True)
    if len(categories) < 2:
        return is_doubted
    likeness_mc = _left_out_likeness(features_nd[rows], label_m, len(categories))
    probability_mc = softmax(likeness_mc / best_temperature(likeness_mc, label_m), axis=1)
    is_doubted[rows] = (probability_mc.argmax(1) != label_m) & (probability_mc.max(1) >= SURE)
    return is_doubted


def _left_out_likeness(
    features_md: NDArray[np.float32], label_m: NDArray[np.int64], n_categories: int
) -> NDArray[np.float64]:
    """Return the cosine of each image and each category's mean, of its own category's without itself."""
    unit_md = features_md / np.maximum(np.linalg.norm(features_md, axis=-1, keepdims=True), 1e-12)
    sum_cd = np.zeros((n_categories, unit_md.shape[1]))
    np.add.at(sum_cd, label_m, unit_md)
    dot_mc = unit_md @ sum_cd.T
    length_c = np.maximum(np.linalg.norm(sum_cd, axis=-1), 1e-12)
    likeness_mc: NDArray[np.float64] = dot_mc / length_c
    # x (S - x) / |S - x| for a unit x, without an array of all S - x.
    own_m = np.take_along_axis(dot_mc, label_m[:, None], axis=1)[:, 0]
    rest_m = np.sqrt(np.maximum(length_c[label_m] ** 2 - 2 * own_m + 1, 1e-12))
    np.put_along_axis(likeness_mc, label_m[:, None], ((own_m - 1) / rest_m)[:, None], axis=1)
    return likeness_mc
