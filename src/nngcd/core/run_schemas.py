"""What every JSON file of a run holds; names not listed here are let through. `run_tables` is about its tables.

A name that older versions did not write has a default.
"""

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


class Accuracy(Stored):
    """Shares in per cent; None where there is nothing to score."""

    all: float | None
    old: float | None
    new: float | None


class Called(Stored):
    """How well images are called known, or new: shares in per cent; None where there is nothing to score."""

    share: float | None
    true_share: float | None
    precision: float | None
    recall: float | None


class Scores(Stored):
    """How right a run is where the truth is known."""

    accuracy: Accuracy
    accuracy_v1: Accuracy = cast(Accuracy, None)
    balanced_accuracy: Accuracy = cast(Accuracy, None)
    by_name: Accuracy = cast(Accuracy, None)
    called_known: Called = cast(Called, None)
    called_new: Called = cast(Called, None)
    nmi: float
    ari: float
    n_scored: Count
    protocol: Text


class HeldBack(Stored):
    """How right a run is on labels it did not know."""

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


class HiddenGroup(Stored):
    """A known category that may hide another one."""

    category: Text
    n_group: Positive
    n_images: Positive
    n_labelled: Count


class MixedCategory(Stored):
    """A new category that may be several things."""

    category: Text
    n_images: Positive
    expected: Share


class AlikePair(Stored):
    """Two new categories that may be one."""

    first: Text
    second: Text
    cost: Annotated[float, Field(ge=0)]


class Interval(Stored):
    """How the number of categories was estimated, and how sure it is."""

    k: Positive | None = None
    low: Count
    high: Count
    method: Text
    confidence: Trust
    reason: Text
    is_at_edge: bool


class Peak(Stored):
    """The most memory a run needed, in GB."""

    ram: float
    gpu: float = 0.0


class KnownSplit(Stored):
    """A known category that was split in training."""

    category: Text
    epoch: Count
    n_part: Count
    n_images: Count
    n_labelled_in_part: Count
    n_labelled: Count
    p_value: Annotated[float, Field(ge=0, le=1)] = 1.0


class NewSplit(Stored):
    """A new cluster that was split in training."""

    epoch: Count
    n_part: Count
    n_images: Count
    gain: Annotated[float, Field(ge=0)]
    limit: Annotated[float, Field(ge=0)]


class Merge(Stored):
    """Two new clusters that became one in training."""

    epoch: Count
    n_kept: Count
    n_freed: Count
    cost: Annotated[float, Field(ge=0)]
    limit: Annotated[float, Field(ge=0)]


class Summary(Stored):
    """summary.json: what every version wrote."""

    method: Text
    preset: Text
    effort: Text
    backbone: Text
    seed: int
    k: Positive
    split_hash: Text
    n_images: Count
    n_labelled: Count
    seconds: Annotated[float, Field(ge=0)]
    k_estimate: Interval | None = None
    held_back: HeldBack | None = None
    scores: Scores = cast(Scores, None)
    """Absent where the truth is not known, but never null."""
    peak_gb: Peak | None = None
    not_calibrated: Text | None = None
    weights: Text | None = None
    n_sizes: Positive = 1
    whitened_features: Positive | None = None
    n_unsure: Count = 0
    n_unreadable: Count = 0
    n_possible_label_errors: Count = 0
    n_unchecked_categories: Count = 0
    known_splits: list[KnownSplit] = []
    new_splits: list[NewSplit] = []
    merges: list[Merge] = []
    expected_right: dict[Literal["known", "new"], Expected | None] = {}
    hidden_groups: list[HiddenGroup] = []
    mixed_categories: list[MixedCategory] = []
    alike_pairs: list[AlikePair] = []
    finished: Text = ""


class WholeSummary(Summary):
    """The same with all that the words at the end of a run speak of."""

    n_unlabelled: Count
    n_known_categories: Count
    n_unlabelled_known: Count
    n_unlabelled_new: Count
    n_new_categories: Count
    n_categories_used: Count
    largest_new: Text | None
    largest_new_size: Count
    smallest_new: Text | None
    smallest_new_size: Count
    largest_share: Share
    n_unreadable: Count


class RunConfig(Stored):
    """config.yaml: what is read of it beside the settings themselves, which `settings.resolve` checks."""

    data: Text
    dataset: Text | None = None
    method: Text = ""
    preset: Text = ""
    effort: Text = ""
    weights: Text | None = None
    reading: dict[str, Any] | None = None


class Environment(Stored):
    """environment.json."""

    split_hash: Text
    started: Text = ""
    resumed: list[Text] = []
    command: list[Text] = []
    versions: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    engine: dict[str, Any] = {}


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
