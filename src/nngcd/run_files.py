"""What a run writes into its folder, file by file; the summary comes last and marks the run as complete."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from nngcd import settings as settings_module
from nngcd.clustering.estimate_k import KEstimate
from nngcd.core.environment import environment, now
from nngcd.core.errors import DataError
from nngcd.core.files import read_json, read_table, write_json, write_table, write_tensors, write_text, write_yaml
from nngcd.core.memory import peak_gb
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.split import Split, Truth
from nngcd.figures.k_curve import k_curve
from nngcd.results import Scored, category_table, describe, result_table, score
from nngcd.settings import Settings
from nngcd.training.model import Model


def write_inputs(run: RunFolder, split: Split, settings: Settings) -> None:
    """Write settings, data and environment before the long work begins.

    Raises:
        DataError: the folder holds an unfinished run on other images or labels.
    """
    if run.environment.is_file() and (before := read_json(run.environment)["split_hash"]) != split.fingerprint:
        raise DataError(
            f"cannot resume {run.path}: its images or labels have changed since it was started "
            f"(split hash {before[:8]}, now {split.fingerprint[:8]}). Start a new run."
        )
    write_yaml(run.config, settings_module.to_values(settings))
    names = np.array([*split.class_names, None], dtype=object)
    manifest = split.table.assign(label_given=pd.Series(names[split.labels], dtype="string"))
    write_table(run.manifest, manifest)
    write_table(run.split, manifest[["image_id", "file_name", "label_given"]])
    columns = [field.name for field in dataclasses.fields(split.problems[0])] if split.problems else ["file_name"]
    write_table(run.problems, pd.DataFrame([dataclasses.asdict(p) for p in split.problems], columns=columns))
    if run.environment.is_file():
        before = read_json(run.environment)
        write_json(run.environment, before | {"resumed": [*before.get("resumed", []), now()]})
    else:
        write_json(run.environment, environment() | {"split_hash": split.fingerprint})


def write_estimate(folder: Path, estimate: KEstimate) -> None:
    """Write how the number of categories was found: the curve as a picture (k.svg), and the numbers (k.json)."""
    write_text(folder / "k.svg", k_curve(estimate))
    write_json(folder / "k.json", dataclasses.asdict(estimate))


def read_estimate(run: RunFolder) -> KEstimate:
    """Return how the number of categories was found when the run was begun."""
    facts = read_json(run.k)
    try:
        return KEstimate(**{**facts, "curve": tuple((int(k), float(score)) for k, score in facts["curve"])})
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{run.k} is damaged ({error}). Remove it: the number is then estimated again.") from error


def write_outputs(
    run: RunFolder, split: Split, model: Model, categories: list[str], features_nd: Tensor, scores_nk: Tensor
) -> None:
    """Write results, categories, features and the model."""
    results = result_table(split, scores_nk, categories)
    write_table(run.results, results)
    write_table(run.results_csv, results)
    write_table(run.categories, category_table(results, split, categories))
    write_tensors(run.features, {"features_nd": features_nd.half()})
    model.save(run.model, categories)


def write_summary(  # noqa: PLR0913 (everything a summary speaks of)
    run: RunFolder,
    split: Split,
    truth: Truth | None,
    settings: Settings,
    scores_nk: Tensor,
    estimate: KEstimate | None,
    *,
    seconds: float,
) -> None:
    """Write the final numbers with the protocol they belong to."""
    summary: dict[str, object] = {
        "method": settings.method,
        "preset": settings.preset,
        "effort": settings.effort,
        "backbone": "features" if split.images is None else settings.backbone,
        "seed": settings.seed,
        "k": scores_nk.shape[1],
        "k_estimate": None
        if estimate is None
        else {
            name: getattr(estimate, name) for name in ("low", "high", "method", "confidence", "reason", "is_at_edge")
        },
        "split_hash": split.fingerprint,
        **describe(split, read_table(run.results)),
        "seconds": round(seconds, 1),
        "peak_gb": peak_gb(),
        "finished": now(),
    }
    if truth is not None:
        scored, reading = ~split.is_labelled & truth.is_known, settings.reading
        cluster = scores_nk.argmax(-1).numpy()[scored]
        part: Scored = "hidden" if reading.hide_classes else "train"
        summary["scores"] = score(truth.classes[scored], cluster, truth.is_old[scored], part=part, draw=reading.draw)
    write_json(run.summary, summary)
