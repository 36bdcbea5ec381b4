"""How sure a model is, calibrated on labels it has not seen: confidence, novelty, and when to say "unsure"."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.core import digests, run_schemas
from nngcd.core.config import build, to_values
from nngcd.core.errors import ConfigError
from nngcd.core.files import write_json
from nngcd.core.reading import read_json
from nngcd.metrics.calibration import best_temperature

FILE = "confidence.json"
UNSURE = 0.05
MOST_UNSURE = 4
"""At most so many times the share asked for of the unlabelled images are unsure, however strange they are."""
TEMPERATURE_SPREAD = 0.12
"""Prior scale of the logarithm of the temperature: the deviation of the best temperatures of six runs, on folders made
of other species than those of the measurements in docs/results.md. Some thirty held-back images say less than that."""
TEMPERATURE_TAIL = 3
"""Degrees of freedom of the prior, a Student's t: scores that are far off, as of some methods, are still corrected."""
LEAST_FAMILIAR = 0.02
"""Share of the training images that are less familiar than the limit of what counts as seen in training."""
N_KEPT = 200
"""Of more reference values than this, as many quantiles are kept."""
ROWS_PER_BLOCK = 8192


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """What turns scores into confidence and novelty; it lies beside the model as confidence.json."""

    temperature: float = 1.0
    """The scores are divided by it; 1 leaves the model's own probabilities."""
    n_held_back: int = 0
    """Labelled images that training did not know the labels of; 0 when nothing could be calibrated."""
    n_right: int = 0
    """How many of them were put into the category they were labelled with."""
    sureness: tuple[float, ...] = ()
    """The confidence of held-back images, or else of unlabelled ones, rising: the least sure are called unsure."""
    sureness_of_all: tuple[float, ...] = ()
    """The confidence of the unlabelled images, rising: it bounds how many of them are unsure."""
    known_novelty: tuple[float, ...] = ()
    """The raw novelty of held-back images, or else of all labelled ones, rising."""
    familiar: float | None = None
    """An image whose best score is lower looks like nothing seen in training; so do 2 % of the training images."""
    unsure: float = 0.0
    """The share of known images that is called unsure."""

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
        """Return the probability of each category."""
        return (scores_bk.double() / self.temperature).softmax(-1)

    def novelty(self, scores_bk: Tensor, n_old: int) -> NDArray[np.float64]:
        """Return how far each image is from all known categories: the share of known images that are less far, 0 to 1.

        The steps between the reference images are smoothed, so that images beyond all of them can still be ordered.
        NaN where no category is known.
        """
        if not self.known_novelty:
            return np.full(len(scores_bk), math.nan)
        raw_b, known_r = self._raw_novelty(scores_bk, n_old), np.array(self.known_novelty)
        width = max(float(np.std(known_r)), 1e-6) * len(known_r) ** -0.2
        smooth_br = 0.5 * (1 + np.tanh((raw_b[:, None] - known_r) / (2 * width)))
        novelty: NDArray[np.float64] = smooth_br.mean(-1)
        return novelty

    def is_unlike(self, scores_bk: Tensor) -> NDArray[np.bool_]:
        """Return which images look like nothing seen in training."""
        if self.familiar is None:
            return np.zeros(len(scores_bk), dtype=np.bool_)
        is_unlike: NDArray[np.bool_] = (scores_bk.max(-1).values < self.familiar).cpu().numpy()
        return is_unlike

    def _raw_novelty(self, scores_bk: Tensor, n_old: int) -> NDArray[np.float64]:
        """Return the log odds of "a new category, or none of all" against "a known category"."""
        sharp_bk = scores_bk.double() / self.temperature
        none_b1 = sharp_bk.new_full((len(sharp_bk), 1), (self.familiar or 0.0) / self.temperature)
        other_b = torch.cat([sharp_bk[:, n_old:], none_b1], dim=1).logsumexp(-1)
        raw: NDArray[np.float64] = (other_b - sharp_bk[:, :n_old].logsumexp(-1)).cpu().numpy()
        return raw

    def save(self, folder: Path) -> None:
        """Write it into the folder of a model."""
        write_json(folder / FILE, to_values(self))

    @classmethod
    def load(cls, folder: Path) -> Confidence:
        """Return what lies beside a model; a model of an older version has nothing, and is not calibrated.

        Raises:
            DataError: the file is damaged.
        """
        if digests.was_never_written(folder / FILE):
            return cls()
        return build(cls, read_json(folder / FILE, run_schemas.Confidence))


def check_unsure(share: float) -> None:
    """Raise `ConfigError` for a share that cannot be."""
    if not 0 <= share < 1:
        raise ConfigError("--unsure", share, "must be in [0, 1): the share of known images that is called unsure")


def calibrate(
    scores_nk: Tensor,
    labels: NDArray[np.int64],
    is_held_back: NDArray[np.bool_],
    *,
    n_old: int,
    unsure: float = UNSURE,
) -> Confidence:
    """Return the confidence of a model, from its scores of the images it was fitted on.

    Args:
        scores_nk: the scores of all images.
        labels: (n,) all labels given, -1 for unlabelled.
        is_held_back: (n,) which of them training did not know.
        n_old: the number of known categories.
        unsure: the share of known images to call unsure.
    """
    scores_nk = scores_nk.cpu()
    held, label_m = torch.from_numpy(np.flatnonzero(is_held_back)), labels[is_held_back]
    temperature = fitted_temperature(scores_nk[held], label_m) if len(held) else 1.0
    familiar = float(np.quantile(scores_nk.max(-1).values.numpy(), LEAST_FAMILIAR))
    plain = Confidence(temperature=temperature, familiar=familiar)
    # In blocks: the probabilities of all images would be several copies of the scores, in double precision.
    blocks = torch.split(scores_nk, ROWS_PER_BLOCK)
    sure_n = torch.cat([plain.probabilities(block_bk).max(-1).values for block_bk in blocks]).numpy()
    is_open = labels < 0
    reference = torch.from_numpy(np.flatnonzero(is_held_back if len(held) else ~is_open))
    return dataclasses.replace(
        plain,
        n_held_back=len(held),
        n_right=int((scores_nk[held].argmax(-1).numpy() == label_m).sum()),
        sureness=_kept(sure_n[is_held_back if len(held) else is_open]),
        sureness_of_all=_kept(sure_n[is_open]),
        known_novelty=_kept(plain._raw_novelty(scores_nk[reference], n_old)) if n_old else (),
        unsure=unsure,
    )


def fitted_temperature(scores_mk: Tensor, label_m: NDArray[np.int64]) -> float:
    """Return the temperature under which the labels are most probable, drawn towards 1 (see TEMPERATURE_SPREAD).

    Guo et al. (2017) fit the temperature alone; with few labels, all of them right, that makes every image certain.
    """

    def prior(log_temperature: float) -> float:
        squared = (log_temperature / TEMPERATURE_SPREAD) ** 2
        return (TEMPERATURE_TAIL + 1) / 2 * math.log1p(squared / TEMPERATURE_TAIL)

    return best_temperature(scores_mk.double().numpy(), label_m, prior)


def _kept(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, ...]:
    """Return the values rising, or so many of their quantiles; rounded, one could lie above what it came from."""
    rising = np.sort(np.asarray(values, dtype=np.float64))
    if len(rising) > N_KEPT:
        rising = np.quantile(rising, np.linspace(0, 1, N_KEPT))
    return tuple(rising.tolist())
