"""Schemas of the JSON files of a run; other names are allowed. The schemas of its tables are in `run_reading`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=10_000)]
Trust = Literal["good", "fair", "low"]


class Stored(BaseModel):
    """A file that we wrote: numbers are numbers and finite."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class StoredAccuracy(Stored):
    """Shares in per cent; None where there is nothing to score."""

    all: float | None
    old: float | None
    new: float | None


class StoredCalled(Stored):
    """Scores for calling images known, or new: shares in per cent; None where there is nothing to score."""

    share: float | None
    true_share: float | None
    precision: float | None
    recall: float | None


class Scores(Stored):
    """Scores of a run where the truth is known."""

    accuracy: StoredAccuracy
    accuracy_v1: StoredAccuracy
    balanced_accuracy: StoredAccuracy
    by_name: StoredAccuracy
    called_known: StoredCalled
    called_new: StoredCalled
    nmi: float
    ari: float
    n_scored: Count
    protocol: Text


class HeldBack(Stored):
    """Accuracy of a run on held-back labels."""

    n: Positive
    n_right: Count
    accuracy: float
    low: float
    high: float


class Expected(Stored):
    """Which share of some rows is right, as the confidence says."""

    n: Positive
    share: Share
    low: Share
    high: Share


class StoredHiddenGroup(Stored):
    """A known category that may hide another one."""

    category: Text
    n_group: Positive
    n_images: Positive
    n_labelled: Count


class StoredMixedCategory(Stored):
    """A new category that may be several things."""

    category: Text
    n_images: Positive
    expected: Share


class StoredAlikePair(Stored):
    """Two new categories that may be one."""

    first: Text
    second: Text
    cost: Annotated[float, Field(ge=0)]


class Interval(Stored):
    """Estimate of the number of categories, and confidence in it."""

    k: Positive
    low: Count
    high: Count
    method: Text
    confidence: Trust
    reason: Text
    is_at_edge: bool


class StoredKnownSplit(Stored):
    """A known category that was split in training."""

    category: Text
    epoch: Count
    n_part: Count
    n_images: Count
    n_labelled_in_part: Count
    n_labelled: Count
    p_value: Share


class StoredNewSplit(Stored):
    """A new cluster that was split in training."""

    epoch: Count
    n_part: Count
    n_images: Count
    gain: Annotated[float, Field(ge=0)]
    limit: Annotated[float, Field(ge=0)]


class StoredMerge(Stored):
    """Two new clusters that became one in training."""

    epoch: Count
    n_kept: Count
    n_freed: Count
    cost: Annotated[float, Field(ge=0)]
    limit: Annotated[float, Field(ge=0)]


class StoredLabelCheck(Stored):
    """Whether the labelled images of known categories differ from others."""

    n_tested: Count
    n_apart: Count
    is_doubtful: bool
    way_out: Text


class StoredSummary(Stored):
    """summary.json."""

    method: Text
    preset: Text
    effort: Text
    backbone: Text
    weights: Text | None
    n_sizes: Positive
    whitened_features: Positive | None
    seed: int
    k: Positive
    k_estimate: Interval | None
    known_splits: list[StoredKnownSplit]
    new_splits: list[StoredNewSplit]
    merges: list[StoredMerge]
    split_hash: Text
    n_images: Count
    n_labelled: Count
    n_unlabelled: Count
    n_known_categories: Count
    n_unlabelled_known: Count
    n_unlabelled_new: Count
    n_unsure: Count
    n_new_categories: Count
    n_categories_used: Count
    largest_new: Text | None
    largest_new_size: Count
    smallest_new: Text | None
    smallest_new_size: Count
    largest_share: Share
    expected_right: dict[Literal["known", "new"], Expected | None]
    hidden_groups: list[StoredHiddenGroup]
    mixed_categories: list[StoredMixedCategory]
    alike_pairs: list[StoredAlikePair]
    label_check: StoredLabelCheck | None
    n_possible_label_errors: Count
    n_unreadable: Count
    held_back: HeldBack | None
    not_calibrated: Text | None
    n_unchecked_categories: Count
    seconds: Annotated[float, Field(ge=0)]
    processor_seconds: dict[Literal["views", "fit"], float]
    peak_gb: dict[Literal["ram", "gpu"], float]
    finished: Text
    scores: Scores = cast(Scores, None)
    """Absent where the truth is not known, but never null."""


class RunConfig(Stored):
    """config.yaml: the part that is read apart from the settings themselves, which `settings.resolve` checks."""

    data: Text
    dataset: Text | None
    method: Text
    preset: Text
    effort: Text
    weights: Text | None
    reading: dict[str, Any]


class Environment(Stored):
    """environment.json."""

    split_hash: Text
    started: Text
    resumed: list[Text] = []
    """Absent from a run that was never resumed."""
    command: list[Text]
    versions: dict[str, Any]
    machine: dict[str, Any]
    engine: dict[str, Any]


class Estimate(Stored):
    """k.json."""

    model_config = ConfigDict(extra="forbid")

    k: Positive
    low: Positive
    high: Positive
    curve: Annotated[list[tuple[int, float]], Field(max_length=10**6)]
    method: Text
    confidence: Trust
    reason: Text
    is_at_edge: bool


class Epoch(RootModel[dict[str, float]]):
    """A line of metrics.jsonl: numbers by name."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_epoch(self) -> Epoch:
        epoch = self.root.get("epoch", -1.0)
        if not epoch.is_integer() or not 0 <= epoch < 2**31:
            raise ValueError("it lacks 'epoch'")
        return self
