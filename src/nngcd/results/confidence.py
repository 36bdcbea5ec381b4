"""Confidence of a model: the probability that a row is right whatever the image really is, novelty, and "unsure".

A held-back label shows how often an image *of a known category* is put into the right one. It cannot show how often a
known category swallows images of a new one, because no held-back image is of a new one. Two things show that without
any label: how many labelled images there are around an image in its cluster (`clustering.surroundings`), and how far a
cluster stays together in a plain k-means. How much each says was learnt once, on tasks whose answers are known
(`benchmarks/open_world.py --fit`); docs/guides/confidence.md has how right it is on others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.clustering.surroundings import Surroundings
from nngcd.core import model_schemas
from nngcd.core.errors import ConfigError
from nngcd.core.files import write_json
from nngcd.core.verified_files import read_json
from nngcd.metrics.calibration import Z_95

FILE = "confidence.json"
UNSURE = 0.05
MOST_UNSURE = 4
"""At most this many times the requested share of the unlabelled images are unsure, however strange they are."""

KNOWN_IS_RIGHT = (0.14, 1.8, 0.41, 0.49, -2.96, -2.46)
"""Log odds that a row called known is right: a constant, and the weights of `KnownEvidence`."""
KNOWN_IS_KNOWN = (1.53, 1.84, 0.77, 0.07, -4.6, -2.5)
"""The same for being of some known category."""
NEW_IS_RIGHT = (-0.09, 0.8, 0.37, -0.04, -0.97)
"""Log odds that a row called new is of the class that most of its cluster is of: a constant, and the weights of
`NewEvidence`."""
NEW_IS_NEW = (0.25, -0.62, 0.22, 1.55, -0.01)
"""The same for not belonging to a known category."""
SPREAD = 0.07
"""Deviation of the mean confidence from the share that is right, from task to task."""
FEWEST_KNOWN = 5
"""Known categories of the tasks on which that was measured, all but one of them."""
LEAST_ODDS, MOST_ODDS = -5.0, 15.0
"""Log odds beyond these say no more."""
EXTREME = 0.02
"""Shares are kept this far from 0 and 1, whose log odds are infinite."""


class KnownEvidence(NamedTuple):
    """Evidence for a row that is called known."""

    around_b: Tensor
    """By how much the labelled share around the image is above that of all known clusters, in log odds."""
    odds_b: Tensor
    """Log odds of its category against all new ones."""
    margin_b: Tensor
    """Log odds of its category against the next best one."""
    usual_around_b: Tensor
    """Mean of `around_b` over held-back images, which are of known categories; the same for all rows."""
    uneven_b: Tensor
    """The deviation of `around_b` among the run's rows called known; the same for all rows. Where labelled images lie
    unevenly in known clusters, these hold more of other categories."""


class NewEvidence(NamedTuple):
    """Evidence for a row that is called new."""

    odds_b: Tensor
    """Log odds of its category against all others."""
    steadiness_b: Tensor
    """Share of its cluster that stays together in a plain k-means, in log odds."""
    against_known_b: Tensor
    """Log odds of its category against all known ones."""
    size_b: Tensor
    """Size of its cluster over that of a usual known one, as a logarithm: two classes in one make it large."""


class Judgement(NamedTuple):
    """Calibrated confidence in a model's rows."""

    right_b: Tensor
    """The probability that the best category is right, whatever the image really is: of this category, if it is a known
    one; of the class that most images of the cluster are of, if it is a new one."""
    novel_b: Tensor
    """The probability that the image is of none of the known categories; NaN where none is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """Turns scores and features into confidence and novelty; saved with the model as confidence.json."""

    temperature: float = 1.0
    """The scores are divided by it; 1 leaves the model's own probabilities."""
    n_held_back: int = 0
    """Labelled images that training did not know the labels of; 0 when nothing could be calibrated."""
    n_right: int = 0
    """Number of them that were put into the category they were labelled with."""
    usual_around: float = 0.0
    """`KnownEvidence.around_b` of held-back images that are called known, on average."""
    unevenness: float = 0.4
    """Its deviation among all unlabelled images that are called known."""
    steadiness: tuple[float, ...] = ()
    """Share of each cluster's pairs of images that stay together in a plain k-means."""
    size: tuple[float, ...] = ()
    """Size of each cluster over that of the median known cluster."""
    sureness: tuple[float, ...] = ()
    """The confidence of held-back images, or else of unlabelled ones, rising: the least sure are called unsure."""
    sureness_of_all: tuple[float, ...] = ()
    """The confidence of the unlabelled images, rising: it bounds how many of them are unsure."""
    familiar: float | None = None
    """An image whose best score is lower looks like nothing seen in training; so do 2 % of the training images."""
    unsure: float = 0.0
    """The share of known images that is called unsure."""
    surroundings: Surroundings | None = None
    """The images of the known clusters, in a file of their own; None where nothing is known of them."""

    def __post_init__(self) -> None:
        check_unsure(self.unsure)

    @property
    def is_calibrated(self) -> bool:
        """Whether held-back labels said how far the confidence can be trusted."""
        return self.n_held_back > 0

    @property
    def unsure_below(self) -> float:
        """The confidence below which an image is unsure; 0 when none is."""
        if not self.unsure or not self.sureness:
            return 0.0
        limit = float(np.quantile(self.sureness, self.unsure))
        of_all, share = self.sureness_of_all or self.sureness, min(1.0, MOST_UNSURE * self.unsure)
        # Lower: between two images the limit would call one more unsure than that share.
        most = float(np.quantile(of_all, share, method="lower"))
        return min(limit, most)

    def with_unsure(self, share: float | None) -> Confidence:
        """Return the same with another share of unsure images, if one is given."""
        return self if share is None else dataclasses.replace(self, unsure=share)

    def probabilities(self, scores_bk: Tensor) -> Tensor:
        """Return the probability of each category, for an image that is of one of them."""
        return (scores_bk.double() / self.temperature).softmax(-1)

    def judge(self, scores_bk: Tensor, features_bd: Tensor, *, n_old: int) -> Judgement:
        """Return how likely the best category of each image is right, and how likely the image is of no known one."""
        best_b = self.probabilities(scores_bk).max(-1)
        if self.surroundings is None:
            novel_b = self.probabilities(scores_bk)[:, n_old:].sum(-1)
            return Judgement(best_b.values, novel_b if n_old else torch.full_like(novel_b, math.nan))
        right_b, novel_b = torch.empty_like(best_b.values), torch.full_like(best_b.values, math.nan)
        is_known_b = scores_bk.argmax(-1) < n_old
        if is_known_b.any():
            evidence = self.known_evidence(scores_bk[is_known_b], features_bd[is_known_b], n_old=n_old)
            right_b[is_known_b] = probability(KNOWN_IS_RIGHT, evidence)
            novel_b[is_known_b] = 1 - probability(KNOWN_IS_KNOWN, evidence)
        evidence_of_new = self.new_evidence(scores_bk[~is_known_b], n_old=n_old)
        right_b[~is_known_b] = probability(NEW_IS_RIGHT, evidence_of_new)
        if n_old:
            novel_b[~is_known_b] = probability(NEW_IS_NEW, evidence_of_new)
        return Judgement(right_b, novel_b)

    def known_evidence(self, scores_bk: Tensor, features_bd: Tensor, *, n_old: int) -> KnownEvidence:
        """Return what speaks for rows whose best category is a known one."""
        assert self.surroundings is not None
        top = scores_bk.topk(min(2, scores_bk.shape[1]), dim=-1)
        margin_b = (top.values[:, 0] - top.values[:, -1]) / self.temperature
        around_b = self.surroundings.evidence(features_bd, top.indices[:, 0])
        odds_b = self._odds(scores_bk, slice(n_old, None))
        usual = (torch.full_like(odds_b, value) for value in (self.usual_around, self.unevenness))
        return KnownEvidence(around_b, odds_b, margin_b.clamp(max=MOST_ODDS), *usual)

    def new_evidence(self, scores_bk: Tensor, *, n_old: int) -> NewEvidence:
        """Return what speaks for rows whose best category is a new one."""
        best_b = self.probabilities(scores_bk).max(-1)
        steadiness_b = torch.tensor(self.steadiness or [0.5] * scores_bk.shape[1])[best_b.indices]
        against_known_b = self._odds(scores_bk, slice(0, n_old))
        size_b = torch.tensor(self.size or [1.0] * scores_bk.shape[1])[best_b.indices].clamp(0.1, 10).log()
        return NewEvidence(_log_odds(best_b.values), _log_odds(steadiness_b), against_known_b, size_b)

    def _odds(self, scores_bk: Tensor, others: slice) -> Tensor:
        """Return the log odds of the best category against some others together."""
        sharp_bk = scores_bk.double() / self.temperature
        odds_b = sharp_bk.max(-1).values - sharp_bk[:, others].logsumexp(-1)
        return odds_b.clamp(LEAST_ODDS, MOST_ODDS)

    def is_unlike(self, scores_bk: Tensor) -> NDArray[np.bool_]:
        """Return which images look like nothing seen in training."""
        if self.familiar is None:
            return np.zeros(len(scores_bk), dtype=np.bool_)
        is_unlike: NDArray[np.bool_] = (scores_bk.max(-1).values < self.familiar).cpu().numpy()
        return is_unlike

    def save(self, folder: Path) -> None:
        """Write it into the folder of a model."""
        names = (field.name for field in dataclasses.fields(self) if field.name != "surroundings")
        write_json(folder / FILE, {name: getattr(self, name) for name in names})
        if self.surroundings is not None:
            self.surroundings.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Confidence:
        """Return what is saved with a model."""
        values = read_json(folder / FILE, model_schemas.StoredConfidence)
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**plain, surroundings=Surroundings.load(folder))


def check_unsure(share: float) -> None:
    """Raise `ConfigError` for an impossible share."""
    if not 0 <= share < 1:
        raise ConfigError("--unsure", share, "must be in [0, 1): the share of known images to call unsure")


def probability(weights: Sequence[float], evidence: Sequence[Tensor]) -> Tensor:
    """Return the probability whose log odds are a constant and the weighted evidence (logistic regression)."""
    constant, *rest = weights
    parts = [weight * part_b.double() for weight, part_b in zip(rest, evidence, strict=True)]
    return (torch.stack(parts).sum(0) + constant).sigmoid()


def expected_right(confidence: Sequence[float] | NDArray[np.float64], n_known: int) -> dict[str, float] | None:
    """Return which share of some rows is right as their confidence says, with a 95 % interval; None without any row.

    The interval is that of the mean over tasks (`SPREAD`): chance among the rows themselves adds little to it. It is
    twice as wide with fewer known categories than any of these tasks had.
    """
    if not len(confidence):
        return None
    mean = float(np.mean(confidence))
    half = Z_95 * SPREAD * (1 if n_known >= FEWEST_KNOWN else 2)
    low, high = max(mean - half, 0.0), min(mean + half, 1.0)
    return {"n": len(confidence), "share": round(mean, 4), "low": round(low, 4), "high": round(high, 4)}


def _log_odds(share_b: Tensor) -> Tensor:
    return share_b.clamp(EXTREME, 1 - EXTREME).logit()
