"""Whether a run folder or a cache is sound: every file is read the way the commands read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from nngcd.clustering.surroundings import FILE as SURROUNDINGS
from nngcd.clustering.surroundings import Surroundings
from nngcd.core import digests
from nngcd.core.errors import UserError
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import (
    CATEGORIES,
    PREPROCESSOR,
    read_categories,
    read_config,
    read_environment,
    read_features,
    read_manifest,
    read_preprocessor,
    read_problems,
    read_results,
    read_split,
)
from nngcd.core.verified_files import read_content
from nngcd.results.confidence import FILE as CONFIDENCE
from nngcd.results.confidence import Confidence
from nngcd.review.session import Review
from nngcd.runs.writing import read_estimate
from nngcd.settings import resolve
from nngcd.training.bank_files import is_own_list, is_sealed
from nngcd.training.checkpoint import epochs_done
from nngcd.training.model import Model


class Verdict(NamedTuple):
    """Result of checking one file."""

    file: str
    state: Literal["fine", "not verified", "damaged"]
    """Not verified: it can be read, but has no digest."""
    reason: str = ""


def check_run(run: RunFolder) -> Iterator[Verdict]:
    """Yield the state of every file of a run that is read again; of an unfinished run, of those it has so far."""
    for path, read in _readers(run).items():
        name = path.relative_to(run.path).as_posix()
        try:
            read()
        except UserError as error:
            yield Verdict(name, "damaged", str(error))
        else:
            yield Verdict(name, "fine" if _has_digest(path) else "not verified")


def check_cache(folder: Path) -> Iterator[Verdict]:
    """Yield the state of every file of a cache. What is damaged is never used: the next run computes it again."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".npy", ".keys") or path.name.startswith("."):
            continue
        try:
            is_fine = is_sealed(path) if path.suffix == ".npy" else is_own_list(path)
            reason = "" if is_fine else f"R03: {path} is damaged; the next run computes it again"
        except OSError as error:
            is_fine, reason = False, f"R03: {path} cannot be read ({error.strerror})"
        yield Verdict(path.relative_to(folder).as_posix(), "fine" if is_fine else "damaged", reason)


def _readers(run: RunFolder) -> dict[Path, Callable[[], object]]:
    always: dict[Path, Callable[[], object]] = {
        run.config: lambda: resolve(read_config(run)),
        run.environment: lambda: read_environment(run),
        run.manifest: lambda: read_manifest(run),
        run.split: lambda: read_split(run),
        run.problems: lambda: read_problems(run),
    }
    if_there: dict[Path, Callable[[], object]] = {
        run.k: lambda: read_estimate(run),
        run.moves: lambda: read_content(run.moves),
        run.metrics: run.read_metrics,
        run.checkpoint: lambda: epochs_done(run.checkpoint, resolve(read_config(run)).training.epochs),
        run.edits: lambda: Review(run),
    }
    at_the_end: dict[Path, Callable[[], object]] = {
        run.results: lambda: read_results(run),
        run.results_csv: lambda: read_content(run.results_csv),
        run.categories: lambda: read_content(run.categories),
        run.features: lambda: read_features(run, len(read_results(run))),
        run.model / "model.safetensors": lambda: Model.load(run.model),
        run.model / "config.json": lambda: read_content(run.model / "config.json"),
        run.model / CATEGORIES: lambda: read_categories(run.model),
        run.model / PREPROCESSOR: lambda: read_preprocessor(run.model),
        run.model / CONFIDENCE: lambda: Confidence.load(run.model),
        run.model / SURROUNDINGS: lambda: Surroundings.load(run.model),
        run.summary: run.read_summary,
    }
    there = {path: read for path, read in if_there.items() if path.is_file()}
    is_complete = run.is_complete or run.summary.name in digests.read(run.path)
    return {**always, **there, **(at_the_end if is_complete else {})}


def _has_digest(path: Path) -> bool:
    # Tensors and edits hold their own digests, without which they are not read.
    return path.suffix == ".safetensors" or path.name == "edits.jsonl" or digests.expected(path) is not None
