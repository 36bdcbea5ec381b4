"""PIM: a linear classifier on GCD's features, trained by mutual information (Chiaroni et al., ICCV 2023).

The features are trained as in GCD and then fixed. The classifier starts at the centres of semi-supervised k-means and
minimises  lambda * H(cluster | unlabelled image) - H(cluster) + cross-entropy of the labelled images.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import AtLeastOne, NotNegative, Positive
from nngcd.methods import gcd
from nngcd.methods.contract import Overview
from nngcd.metrics.accuracy import split_accuracy

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.ClusterConfig):
    """PIM's settings; defaults are those of its paper."""

    conditional_weight: NotNegative | None = None
    """Weight of the conditional entropy (lambda); searched when absent. Values near 0 suit balanced classes, 1 suits a
    few large and many small ones."""
    n_candidates: AtLeastOne = 20
    """Number of candidate values of lambda, evenly spaced up to 1; the smallest is never chosen."""
    search_steps: AtLeastOne = 1000
    """Steps of each trial."""
    trials_continue: bool = False
    """Whether a trial starts where the previous one ended (authors' code, whose trials share one tensor) instead of at
    the centres of k-means."""
    n_steps: AtLeastOne = 1000
    """Steps of the final classifier."""
    learning_rate: Positive = 1e-3
    """Learning rate of Adam, which trains only the classifier."""
    weight_decay: NotNegative = 1e-2
    """Weight decay of the classifier."""
    scale: Positive = 25.0
    """Factor on the product of classifier and feature."""


class Method(gcd.Method):
    """PIM. `centres_kd` holds the classifier's weights."""

    config: Config

    def settle(self, overview: Overview) -> None:
        """Find lambda, then the classifier."""
        c = self.config
        unit_nd, labels_n = F.normalize(overview.features_nd, dim=-1), overview.labels_n.to(overview.features_nd.device)
        chosen = c.conditional_weight
        if chosen is None:
            start_kd = KMeans(self.task.n_clusters, random_state=overview.seed).fit(unit_nd).cluster_centers_
            chosen = search_lambda(start_kd, unit_nd, labels_n, c)
        start_kd = gcd.cluster_centres(overview, self.task, c)
        self.centres_kd.copy_(maximise_information(start_kd, unit_nd, labels_n, chosen, c, is_trial=False))

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the classifier's logits."""
        return self.config.scale * F.normalize(features_nd, dim=-1) @ self.centres_kd.T


def search_lambda(start_kd: Tensor, unit_nd: Tensor, labels_n: Tensor, config: Config) -> float:
    """Return the lambda whose classifier, trained without cross-entropy, matches the labelled images best.

    The labels only say over which images the conditional entropy is taken: the unlabelled ones. The smallest candidate
    is never chosen, and accuracies count in hundredths of a percent, the smaller lambda going first: all as in the
    authors' code. Without labels to match lambda is 1, which makes PIM the mutual information itself.
    """
    is_labelled_n = labels_n >= 0
    if config.n_candidates == 1 or not is_labelled_n.any():
        return 1.0
    label_m = labels_n[is_labelled_n].cpu().numpy()
    candidates = np.linspace(1 / config.n_candidates, 1, config.n_candidates)
    percents = []
    for candidate in candidates[0 if config.trials_continue else 1 :].tolist():
        weight_kd = maximise_information(start_kd, unit_nd, labels_n, candidate, config, is_trial=True)
        cluster_m = (unit_nd[is_labelled_n] @ weight_kd.T).argmax(-1).cpu().numpy()
        percents.append(round(100 * split_accuracy(label_m, cluster_m, label_m >= 0).all, 2))
        start_kd = weight_kd if config.trials_continue else start_kd
    best = float(candidates[1:][np.argmax(percents[-len(candidates) + 1 :])])
    _LOG.info("PIM: lambda %.2f of %d tried", best, len(percents))
    return best


def maximise_information(
    start_kd: Tensor, unit_nd: Tensor, labels_n: Tensor, conditional_weight: float, config: Config, *, is_trial: bool
) -> Tensor:
    """Return the weights of the classifier after full-batch Adam from `start_kd`: PIM, Eq. (6)."""
    weight_kd = start_kd.detach().clone().requires_grad_()
    optimiser = torch.optim.Adam([weight_kd], config.learning_rate, weight_decay=config.weight_decay)
    with torch.enable_grad():
        for _ in range(config.search_steps if is_trial else config.n_steps):
            logits_nk = config.scale * unit_nd @ weight_kd.T
            loss = information_loss(logits_nk, labels_n, conditional_weight, learns_labels=not is_trial)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call] # torch has no type here
            optimiser.step()
    return weight_kd.detach()


def information_loss(
    logits_nk: Tensor, labels_n: Tensor, conditional_weight: float, *, learns_labels: bool = True
) -> Tensor:
    """Return  lambda * mean H(p_i) over unlabelled images - H(mean p_i over all) + cross-entropy of labelled ones.

    Without `learns_labels` the cross-entropy is left out.
    """
    logp_nk = logits_nk.log_softmax(-1)
    p_nk = logp_nk.exp()
    is_labelled_n = labels_n >= 0
    entropy_n = -(p_nk * logp_nk).sum(-1)
    mean_k = p_nk.mean(0)
    loss = (mean_k * mean_k.clamp_min(torch.finfo(mean_k.dtype).tiny).log()).sum()
    if not is_labelled_n.all():
        loss = loss + conditional_weight * entropy_n[~is_labelled_n].mean()
    if learns_labels and is_labelled_n.any():
        loss = loss + F.nll_loss(logp_nk[is_labelled_n], labels_n[is_labelled_n])
    return loss
