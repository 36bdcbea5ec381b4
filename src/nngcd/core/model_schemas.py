"""Schemas of a model's files, which are checked against them when they are read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from nngcd.core.run_schemas import Count, Positive, Share, Stored, Text


class StoredBlueprint(Stored):
    """model/config.json: what a network is built from. A newer format may have other names."""

    format: Positive
    backbone: Text
    effort: Text
    tail_blocks: Annotated[int, Field(ge=1, le=10_000)]
    image_size: Annotated[int, Field(ge=1, le=16_384)] | None
    method: Text
    loss: dict[str, Any]
    n_features: Positive | None
    n_clusters: Positive
    n_old: Count
    whitened_features: Positive | None
    sizes: Annotated[list[Annotated[float, Field(gt=0, le=16)]], Field(min_length=1, max_length=16)]
    tail_norm: bool

    @model_validator(mode="after")
    def _old_are_clusters(self) -> StoredBlueprint:
        if self.n_old > self.n_clusters:
            raise ValueError(f"n_old = {self.n_old} is more than n_clusters = {self.n_clusters}")
        return self


class Categories(Stored):
    """model/categories.json."""

    categories: Annotated[list[Text], Field(min_length=1)]
    n_known: Count

    @model_validator(mode="after")
    def _known_are_there(self) -> Categories:
        if self.n_known > len(self.categories):
            raise ValueError(f"n_known = {self.n_known}, but there are {len(self.categories)} categories")
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("a category appears twice")
        return self


class StoredConfidence(Stored):
    """model/confidence.json."""

    model_config = ConfigDict(extra="forbid")

    temperature: Annotated[float, Field(gt=0)]
    n_held_back: Count
    n_right: Count
    usual_around: float
    unevenness: Annotated[float, Field(ge=0)]
    steadiness: list[Share]
    size: list[Annotated[float, Field(ge=0)]]
    sureness: list[Share]
    sureness_of_all: list[Share]
    familiar: float | None
    unsure: Annotated[float, Field(ge=0, lt=1)]


class Preprocessor(Stored):
    """model/preprocessor.json."""
