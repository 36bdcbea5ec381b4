"""The one way to read a run folder: a function for every file of it, each with its schema (`run_schemas`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import ValidationError

from nngcd.core import config, digests, model_schemas, run_schemas
from nngcd.core.errors import ConfigError
from nngcd.core.run_folder import RunFolder
from nngcd.core.verified_files import Kind, damaged_file, first_reason, read_csv, read_json, read_table, read_tensors

if TYPE_CHECKING:
    from torch import Tensor

FEATURES = "features_nd"
ROWS_PER_BLOCK = 8192
CATEGORIES, PREPROCESSOR = "categories.json", "preprocessor.json"

# Columns that are not listed are let through.
RESULTS: dict[str, Kind] = {
    "file_name": "text",
    "image_id": "text",
    "label_given": "text or none",
    "category": "text",
    "status": "text",
    "label": "text or none",
    "confidence": "share",
    "novelty": "number or none",
    "possible_label_error": "flag",
}
_ALTERNATIVES = tuple(f"alt_{rank}" for rank in range(1, 10))
"""Columns that each come with a probability, `alt_1_p` and so on."""
_OF_ALTERNATIVES: dict[str, Kind] = {
    **dict.fromkeys(_ALTERNATIVES, "text or none"),
    **{f"{name}_p": "number or none" for name in _ALTERNATIVES},
}
_MANIFEST: dict[str, Kind] = {"file_name": "text", "image_id": "text", "label_given": "text or none"}
_SPLIT: dict[str, Kind] = {"image_id": "text", "file_name": "text", "label_given": "text", "held_back": "text"}
_PROBLEMS: dict[str, Kind] = {"file_name": "text"}


def read_config(run: RunFolder) -> config.Values:
    """Return the settings of a run as plain values. A person may change those that name a place, and no others.

    Raises:
        ConfigError: they are missing, damaged, or not those the run was made with.
    """
    values = config.read_yaml(run.config)
    digest = digests.expected(run.config)
    if digest is not None and digests.settings_digest(config.flatten(values)) != digest:
        reason = "R03: was changed after the run. Restore it from a backup"
        raise ConfigError("config file", str(run.config), f"{reason}, or start a new run: nngcd fit --config")
    try:
        run_schemas.RunConfig.model_validate(values)
    except ValidationError as error:
        reason = f"R03: is damaged ({first_reason(error)}). {config.RESTORE}"
        raise ConfigError("config file", str(run.config), reason) from None
    return values


def read_environment(run: RunFolder) -> dict[str, Any]:
    """Return versions, machine, times and the hash of the split."""
    return read_json(run.environment, run_schemas.Environment)


def read_results(run: RunFolder) -> pd.DataFrame:
    """Return the result table: one row per image."""
    results = read_table(run.results, RESULTS, _OF_ALTERNATIVES)
    if not len(results):
        raise damaged_file(run.results, "it has no rows")
    if not results["image_id"].is_unique:
        raise damaged_file(run.results, "an image appears twice")
    for name in _ALTERNATIVES:
        if (name in results.columns) != (f"{name}_p" in results.columns):
            raise damaged_file(run.results, f"one of the columns '{name}' and '{name}_p' is missing")
    return results.reset_index(drop=True)


def read_manifest(run: RunFolder) -> pd.DataFrame:
    """Return the images that were used and the labels given."""
    return read_table(run.manifest, _MANIFEST).reset_index(drop=True)


def read_split(run: RunFolder) -> pd.DataFrame:
    """Return the images, the labels given (empty for none) and which of them were held back."""
    table = read_csv(run.split, _SPLIT)
    if not table["held_back"].isin(["True", "False"]).all():
        raise damaged_file(run.split, "the column 'held_back' must hold True and False")
    return table


def read_problems(run: RunFolder) -> pd.DataFrame:
    """Return the files that were not used, and why."""
    return read_csv(run.problems, _PROBLEMS)


def read_features(run: RunFolder, n_images: int) -> Tensor:
    """Return the learned feature of each image."""
    from torch import split  # here: torch takes seconds

    tensors, _ = read_tensors(run.features)
    features_nd = tensors.get(FEATURES)
    if features_nd is None or features_nd.ndim != 2 or not features_nd.is_floating_point():
        raise damaged_file(run.features, f"it has no matrix '{FEATURES}'")
    if len(features_nd) != n_images or not features_nd.shape[1]:
        raise damaged_file(run.features, f"it has {len(features_nd):,} rows, but the run has {n_images:,} images")
    if not all(block_bd.isfinite().all() for block_bd in split(features_nd, ROWS_PER_BLOCK)):
        raise damaged_file(run.features, "some features are not finite numbers")
    return features_nd


def read_categories(model: Path) -> tuple[list[str], int]:
    """Return the category of each output of a model in its folder, known ones first, and how many are known."""
    facts = read_json(model / CATEGORIES, model_schemas.Categories)
    return facts["categories"], facts["n_known"]


def read_preprocessor(model: Path) -> dict[str, Any]:
    """Return how an image becomes the input of a model in its folder."""
    return read_json(model / PREPROCESSOR, model_schemas.Preprocessor)
