"""Which share of the images is of a labelled class, judged by how images of hidden classes look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from nngcd.clustering.points import Ids
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.counting.scores import Flags, Floats, bootstrap_draws

N_FOLDS = 10
HELD_BACK = 1 / 3
"""Share of the labelled images of a class that its centre is not made of."""


class Fold(NamedTuple):
    """One fold: some labelled classes hidden, and some images of the others held back."""

    is_hidden_c: Flags
    is_hidden_n: Flags
    is_held_back_n: Flags
    is_seen_n: Flags


class Looks(NamedTuple):
    """Scores from 0 to 1: likeness of images to the classes that a fold knows."""

    fold: Fold
    score_n: Floats


class KnownShare(NamedTuple):
    """The mean share of a labelled class among all images, with the standard errors of its parts."""

    share: float
    error_of_new: float
    """From which classes happened to be labelled: others may look more like known ones, or less."""
    error_of_old: float
    """From the number of images held back."""


def known_share(x_nd: Tensor, class_n: Ids, rng: np.random.Generator) -> KnownShare | None:
    """Return the share of the images that a labelled class has on average; None if it cannot be determined.

    Every fold hides some of the labelled classes. With p the mean score of all images, p_old that of images held back
    from classes that are not hidden and p_new that of hidden classes, a share (p - p_new) / (p_old - p_new) of the
    images is of the classes that are not hidden. No assumption is made on sizes of new classes, and where all classes
    are labelled, there is little to be wrong about.
    """
    looks = _looks(x_nd, class_n, rng)
    n_images, n_old = len(class_n), int(class_n.max()) + 1
    new_c, n_new_c = np.zeros(n_old), np.zeros(n_old)
    for fold, score_n in looks:
        new_c += np.bincount(class_n[fold.is_hidden_n], score_n[fold.is_hidden_n], minlength=n_old)
        n_new_c += np.bincount(class_n[fold.is_hidden_n], minlength=n_old)
    draw_sc = bootstrap_draws(n_old, rng)
    new_s = (draw_sc @ new_c) / (draw_sc @ n_new_c)
    up_s, down_s, old_variance = np.zeros(len(draw_sc)), np.zeros(len(draw_sc)), 0.0
    for fold, score_n in looks:
        old, n_seen, n_known = score_n[fold.is_held_back_n].mean(), fold.is_seen_n.sum(), (~fold.is_hidden_c).sum()
        up_s += (score_n[~fold.is_seen_n].sum() - (n_images - n_seen) * new_s) + n_seen * (old - new_s)
        down_s += n_images * n_known * (old - new_s)
    if down_s[0] <= 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        share_s = up_s / down_s
    if share_s[0] <= 0 or not np.isfinite(share_s).all():
        return None
    for fold, score_n in looks:
        n_others = share_s[0] * n_images * (~fold.is_hidden_c).sum() - fold.is_seen_n.sum()
        old_variance += n_others**2 * _variance_within(score_n, class_n, fold.is_held_back_n)
    # Held-back images serve in several folds, so that the folds' errors are not independent.
    old_error = float((old_variance * len(looks)) ** 0.5 / down_s[0])
    return KnownShare(float(share_s[0]), float(share_s[1:].std()), old_error)


def _looks(x_nd: Tensor, class_n: Ids, rng: np.random.Generator) -> list[Looks]:
    """Return each fold's scores, by a rule that was learnt from the other folds: its own classes would fit too well."""
    folds = list(make_folds(class_n, rng))
    facts = [_similarities(x_nd, class_n, fold) for fold in folds]
    looks = []
    for own, (fold, fact_nf) in enumerate(zip(folds, facts, strict=True)):
        rest = [(other, facts[j]) for j, other in enumerate(folds) if j != own]
        old_mf = np.concatenate([fact[other.is_held_back_n] for other, fact in rest])
        new_mf = np.concatenate([fact[other.is_hidden_n] for other, fact in rest])
        rule = LogisticRegression(class_weight="balanced")
        rule.fit(np.concatenate([old_mf, new_mf]), np.repeat([1, 0], [len(old_mf), len(new_mf)]))
        looks.append(Looks(fold, rule.predict_proba(fact_nf)[:, 1]))
    return looks


def make_folds(class_n: Ids, rng: np.random.Generator) -> Iterator[Fold]:
    """Yield folds that together hide every class once; each class that is not hidden has seen and held-back images."""
    n_old = int(class_n.max()) + 1
    n_folds, order_c = min(N_FOLDS, n_old), rng.permutation(n_old)
    rank_n, size_n = np.full(len(class_n), -1), np.ones(len(class_n), dtype=np.int64)
    for class_ in range(n_old):
        row_m = rng.permutation(np.flatnonzero(class_n == class_))
        rank_n[row_m], size_n[row_m] = np.arange(len(row_m)), len(row_m)
    n_back_n = np.maximum(np.floor(size_n * HELD_BACK), 1)
    for f in range(n_folds):
        is_hidden_c = np.isin(np.arange(n_old), order_c[f::n_folds])
        is_labelled_n = class_n >= 0
        is_hidden_n = is_labelled_n & is_hidden_c[class_n]
        is_back_n = is_labelled_n & ~is_hidden_n & ((rank_n + f * n_back_n) % size_n < n_back_n)
        yield Fold(is_hidden_c, is_hidden_n, is_back_n, is_labelled_n & ~is_hidden_n & ~is_back_n)


def _similarities(x_nd: Tensor, class_n: Ids, fold: Fold) -> Floats:
    """Return as nf the similarity to the nearest class centre and its lead over the second, in units of old images."""
    unit_nd = whitened_within_classes(x_nd, np.where(fold.is_seen_n, class_n, -1)).numpy().astype(np.float64)
    is_member_mc = class_n[fold.is_seen_n][:, None] == np.flatnonzero(~fold.is_hidden_c)
    centre_cd = is_member_mc.T.astype(np.float64) @ unit_nd[fold.is_seen_n]
    centre_cd /= np.maximum(np.linalg.norm(centre_cd, axis=1, keepdims=True), 1e-12)
    similarity_nc = unit_nd @ centre_cd.T
    best_n2 = np.partition(similarity_nc, -2, axis=1)[:, -2:]
    fact_nf = np.stack([best_n2[:, 1], best_n2[:, 1] - best_n2[:, 0]], axis=1)
    old_mf = fact_nf[fold.is_held_back_n]
    scaled_nf: Floats = (fact_nf - old_mf.mean(0)) / np.maximum(old_mf.std(0), 1e-9)
    return scaled_nf


def _variance_within(score_n: Floats, class_n: Ids, is_chosen_n: Flags) -> float:
    """Return the squared standard error of the mean score of chosen images, of which only those of a class vary."""
    score_m, class_m = score_n[is_chosen_n], class_n[is_chosen_n]
    n_c = np.bincount(class_m)
    rest_m = score_m - (np.bincount(class_m, score_m) / np.maximum(n_c, 1))[class_m]
    freedom = max(len(score_m) - int((n_c > 0).sum()), 1)
    return float((rest_m**2).sum() / freedom / len(score_m))
