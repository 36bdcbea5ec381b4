"""What a run writes into its folder, file by file; the summary comes last and marks the run as complete."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd import settings as settings_module
from nngcd.clustering.estimate_k import KEstimate
from nngcd.core.environment import environment, now
from nngcd.core.errors import DataError
from nngcd.core.files import read_json, read_table, write_json, write_table, write_tensors, write_text, write_yaml
from nngcd.core.memory import peak_gb
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.holding_back import n_unchecked, why_nothing
from nngcd.datasets.split import Split, Truth
from nngcd.figures.k_curve import k_curve
from nngcd.results import Fitted, Scored, category_table, describe, held_back_facts, results_of, score
from nngcd.settings import Settings


def write_inputs(run: RunFolder, split: Split, is_held_back: NDArray[np.bool_], settings: Settings) -> None:
    """Write settings, data and environment before the long work begins.

    Raises:
        DataError: the folder holds an unfinished run on other images or labels, or with other labels held back.
    """
    if run.environment.is_file():
        _check_unchanged(run, split, is_held_back)
    write_yaml(run.config, settings_module.to_values(settings))
    names = np.array([*split.class_names, None], dtype=object)
    manifest = split.table.assign(label_given=pd.Series(names[split.labels], dtype="string"))
    write_table(run.manifest, manifest)
    write_table(run.split, manifest[["image_id", "file_name", "label_given"]].assign(held_back=is_held_back))
    columns = [field.name for field in dataclasses.fields(split.problems[0])] if split.problems else ["file_name"]
    write_table(run.problems, pd.DataFrame([dataclasses.asdict(p) for p in split.problems], columns=columns))
    if run.environment.is_file():
        before = read_json(run.environment)
        write_json(run.environment, before | {"resumed": [*before.get("resumed", []), now()]})
    else:
        write_json(run.environment, environment() | {"split_hash": split.fingerprint})


def _check_unchanged(run: RunFolder, split: Split, is_held_back: NDArray[np.bool_]) -> None:
    """Raise `DataError` when a run that is to be resumed was begun on other data, saying what has changed."""
    before = read_json(run.environment)["split_hash"]
    if before != split.fingerprint:
        changes = _changes(run, split)
        raise DataError(
            f"T10: cannot resume {run.path}: its images or labels have changed since it was started "
            f"({changes}split hash {before[:8]}, now {split.fingerprint[:8]}). Start a new run."
        )
    was_held_back = _split_file(run).get("held_back", pd.Series(False, range(len(split)))).to_numpy(dtype=bool)
    if not np.array_equal(was_held_back, is_held_back):
        raise DataError(
            f"T10: cannot resume {run.path}: it held back {was_held_back.sum()} labels, and now {is_held_back.sum()} "
            f"would be, not all the same; its accuracy would be measured on labels it has seen. Start a new run."
        )


def _changes(run: RunFolder, split: Split) -> str:
    """Return how many images and labels are different, as the beginning of a list in brackets."""
    names = np.array([*split.class_names, None], dtype=object)
    now_ = dict(zip(split.table["file_name"], names[split.labels], strict=True))
    table = _split_file(run)
    then = dict(zip(table["file_name"], table["label_given"].astype(object).where(table["label_given"].notna(), None),
                    strict=True))  # fmt: skip
    counts = {
        "images added": len(now_.keys() - then.keys()),
        "images gone": len(then.keys() - now_.keys()),
        "labels changed": sum(then[name] != now_[name] for name in then.keys() & now_.keys()),
    }
    return "".join(f"{n:,} {what}, " for what, n in counts.items() if n)


def _split_file(run: RunFolder) -> pd.DataFrame:
    try:
        return pd.read_csv(run.split, dtype={"file_name": str, "label_given": str}, keep_default_na=False,
                           na_values={"label_given": [""]})  # fmt: skip
    except (OSError, ValueError) as error:
        raise DataError(f"cannot resume {run.path}: {run.split} cannot be read ({error}). Start a new run.") from error


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


def write_outputs(run: RunFolder, split: Split, fitted: Fitted) -> None:
    """Write results, categories, features and the model with its confidence."""
    categories = fitted.categories
    results = results_of(split, fitted)
    write_table(run.results, results)
    write_table(run.results_csv, results)
    write_table(run.categories, category_table(results, split, categories))
    write_tensors(run.features, {"features_nd": fitted.features_nd.half()})
    fitted.model.save(run.model, categories)
    fitted.confidence.save(run.model)


def write_summary(  # noqa: PLR0913 (everything a summary speaks of)
    run: RunFolder,
    split: Split,
    truth: Truth | None,
    settings: Settings,
    fitted: Fitted,
    *,
    is_held_back: NDArray[np.bool_],
    seconds: float,
) -> None:
    """Write the final numbers with the protocol they belong to."""
    scores_nk, estimate = fitted.scores_nk, fitted.k_estimate
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
        "k": scores_nk.shape[1],
        "k_estimate": None
        if estimate is None
        else {
            name: getattr(estimate, name) for name in ("low", "high", "method", "confidence", "reason", "is_at_edge")
        },
        "split_hash": split.fingerprint,
        **describe(split, read_table(run.results)),
        "held_back": held_back_facts(scores_nk, split.labels, is_held_back, fitted.confidence),
        "not_calibrated": None if is_held_back.any() else why_nothing(split, share=settings.hold_back),
        "n_unchecked_categories": n_unchecked(split, is_held_back),
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
