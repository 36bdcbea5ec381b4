"""The files that a run writes into its folder; the summary comes last and marks the run as complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd import settings as settings_module
from nngcd.backbones.backbone import Backbone
from nngcd.backbones.hub_cache import revision_of
from nngcd.core import config, digests
from nngcd.core.environment import environment, now
from nngcd.core.errors import DataError
from nngcd.core.files import json_text, write_json, write_table, write_tensors, write_text, write_yaml
from nngcd.core.memory import peak_gb
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import FEATURES, read_environment, read_split
from nngcd.core.run_schemas import Estimate
from nngcd.core.verified_files import read_json
from nngcd.counting.curve import k_curve
from nngcd.counting.estimate_k import KEstimate
from nngcd.data.holding_back import n_unchecked, why_nothing
from nngcd.data.split import Split, Truth
from nngcd.results.moves import move_facts, move_table
from nngcd.results.result_tables import Fitted, category_table, describe, held_back_facts, results_of
from nngcd.results.scoring import Scored, score
from nngcd.settings import Settings

INPUTS = ("data/manifest.parquet", "data/split.csv", "problems.csv", "environment.json")
MODEL_FILES = ("config.json", "preprocessor.json", "categories.json", "confidence.json")
OUTPUTS = ("results.parquet", "results.csv", "categories.csv", "moves.csv", "metrics.jsonl",
           *(f"model/{name}" for name in MODEL_FILES))  # fmt: skip
"""Files whose digests are written down; the safetensors files hold their own."""


def write_inputs(
    run: RunFolder, split: Split, is_held_back: NDArray[np.bool_], settings: Settings, *, backbone: Backbone
) -> None:
    """Write settings, data and environment before the long work begins.

    Raises:
        DataError: the folder holds an unfinished run on other images or labels, or with other labels held back.
    """
    if run.environment.is_file():
        _check_unchanged(run, split, is_held_back)
    before = read_environment(run) if run.environment.is_file() else None
    digests.forget(run.path, but=("k.json",))
    values = settings_module.to_values(settings)
    write_yaml(run.config, values)
    names = np.array([*split.class_names, None], dtype=object)
    manifest = split.table.assign(label_given=pd.Series(names[split.labels], dtype="string"))
    write_table(run.manifest, manifest)
    write_table(run.split, manifest[["image_id", "file_name", "label_given"]].assign(held_back=is_held_back))
    columns = [field.name for field in dataclasses.fields(split.problems[0])] if split.problems else ["file_name"]
    write_table(run.problems, pd.DataFrame([dataclasses.asdict(p) for p in split.problems], columns=columns))
    if before is not None:
        write_json(run.environment, before | {"resumed": [*before.get("resumed", []), now()]})
    else:
        network = {"name": backbone.name, "revision": revision_of(backbone.name), "weights": backbone.fingerprint}
        facts = {"network": network, "engine": backbone.trunk.engine_facts, "split_hash": split.fingerprint}
        write_json(run.environment, environment() | facts)
    digests.record(run.path, INPUTS, {run.config.name: digests.settings_digest(config.flatten(values))})


def _check_unchanged(run: RunFolder, split: Split, is_held_back: NDArray[np.bool_]) -> None:
    """Raise `DataError` when a run that is to be resumed was begun on other data, saying what has changed."""
    before = read_environment(run)["split_hash"]
    if before != split.fingerprint:
        changes = _changes(run, split)
        raise DataError(
            f"T10: cannot resume {run.path}: its images or labels have changed since it was started "
            f"({changes}split hash {before[:8]}, now {split.fingerprint[:8]}). Start a new run."
        )
    was_held_back = (read_split(run)["held_back"] == "True").to_numpy()
    if not np.array_equal(was_held_back, is_held_back):
        raise DataError(
            f"T10: cannot resume {run.path}: it held back {was_held_back.sum()} labels, but now {is_held_back.sum()} "
            f"different ones would be held back. Start a new run."
        )


def _changes(run: RunFolder, split: Split) -> str:
    """Return how many images and labels are different, as the beginning of a list in brackets."""
    names = np.array([*split.class_names, None], dtype=object)
    now_ = dict(zip(split.table["file_name"], names[split.labels], strict=True))
    table = read_split(run)
    then = dict(zip(table["file_name"], [name or None for name in table["label_given"]], strict=True))
    counts = {
        "images added": len(now_.keys() - then.keys()),
        "images removed": len(then.keys() - now_.keys()),
        "labels changed": sum(then[name] != now_[name] for name in then.keys() & now_.keys()),
    }
    return "".join(f"{n:,} {what}, " for what, n in counts.items() if n)


def write_estimate(folder: Path, estimate: KEstimate) -> None:
    """Write how the number of categories was found: the curve as a picture (k.svg), and the numbers (k.json)."""
    write_text(folder / "k.svg", k_curve(estimate))
    write_json(folder / "k.json", dataclasses.asdict(estimate))


def read_estimate(run: RunFolder) -> KEstimate:
    """Return how the number of categories was found when the run was begun."""
    facts = read_json(run.k, Estimate, way_out="Delete it, and the number is estimated again")
    return KEstimate(**{**facts, "curve": tuple((k, float(score)) for k, score in facts["curve"])})


def write_outputs(run: RunFolder, split: Split, fitted: Fitted) -> dict[str, Any]:
    """Write results, categories, features and the model with its confidence; return the facts for the summary."""
    categories = fitted.categories
    results = results_of(split, fitted)
    facts = describe(split, results, fitted.features_nd)
    write_table(run.results, results)
    write_table(run.results_csv, results)
    write_table(run.categories, category_table(results, split, categories, facts))
    moves = move_table(split, fitted.model.method)
    if len(moves):
        write_table(run.moves, moves)
    half_nd = fitted.features_nd.half()
    # Features that a user brings may be too large for half precision.
    write_tensors(run.features, {FEATURES: half_nd if half_nd.isfinite().all() else fitted.features_nd})
    fitted.model.save(run.model, categories)
    fitted.confidence.save(run.model)
    digests.record(run.path, OUTPUTS)
    return facts


def write_summary(  # noqa: PLR0913 (everything a summary speaks of)
    run: RunFolder,
    split: Split,
    truth: Truth | None,
    settings: Settings,
    fitted: Fitted,
    *,
    facts: Mapping[str, Any],
    is_held_back: NDArray[np.bool_],
    seconds: float,
) -> None:
    """Write the final numbers with the protocol they belong to; `facts` are those of `write_outputs`."""
    summary: dict[str, object] = {
        "method": settings.method,
        "preset": settings.preset,
        "effort": settings.effort,
        "backbone": "features" if split.images is None else settings.backbone,
        "weights": settings.weights,
        # Of the model: features that are given have one size, and few images fewer directions than are asked for.
        "n_sizes": len(fitted.model.blueprint.sizes),
        "whitened_features": fitted.model.blueprint.whitened_features,
        "seed": settings.seed,
        **move_facts(split, fitted),
        "split_hash": split.fingerprint,
        **facts,
        "held_back": held_back_facts(fitted.confidence),
        "not_calibrated": None if is_held_back.any() else why_nothing(split, share=settings.hold_back),
        "n_unchecked_categories": n_unchecked(split, is_held_back),
        "seconds": round(seconds, 1),
        "processor_seconds": {part: round(value, 1) for part, value in fitted.processor_seconds.items()},
        "peak_gb": peak_gb(),
        "finished": now(),
    }
    if truth is not None:
        scored, reading = ~split.is_labelled & truth.is_known, settings.reading
        cluster = fitted.scores_nk.argmax(-1).numpy()[scored]
        part: Scored = "hidden" if reading.hide_classes else "train"
        summary["scores"] = score(truth.classes[scored], cluster, truth.n_old, part=part, draw=reading.draw)
    # Its digest first: the summary is the last file of a run.
    digests.record(run.path, known={run.summary.name: digests.digest_of(json_text(summary).encode())})
    write_json(run.summary, summary)
