"""Labelling new images with the model of a finished run; reads only the run folder and the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import torch

from nngcd.backbones.engines import USUAL, choose_engine
from nngcd.core import digests
from nngcd.core.config import build
from nngcd.core.device import choose_device, choose_workers
from nngcd.core.errors import DataError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sources import Rows, Source, source_of_split
from nngcd.data.split import Problem, Split
from nngcd.metrics.calibration import share_interval
from nngcd.results.confidence import Confidence
from nngcd.results.result_tables import N_ALTERNATIVES, NOT_CALIBRATED, ROWS_PER_BLOCK, prediction_table
from nngcd.review.session import Review
from nngcd.runs.parts import Made, Work
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.model import Model
from nngcd.training.passing import pass_rows
from nngcd.training.prefetch import prefetched

MANY_IMAGES = 1_000_000
"""Stands for the number of images of a source that does not know it."""
MANY_UNLIKE = 0.1
"""More images than this that look like nothing seen in training mean that the data are of another kind."""
UNLIKE = "unlike_training"
"""Counts the images that look like nothing seen in training."""
_TEXT = "string"


class Block(NamedTuple):
    """The rows of some images, and how many of these images look like nothing seen in training."""

    table: pd.DataFrame
    n_unlike: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorter:
    """A model that can label images: where it computes, its categories, and how sure it may be."""

    model: Model
    categories: Sequence[str]
    confidence: Confidence = NOT_CALIBRATED
    names: Mapping[str, str] = field(default_factory=dict)
    """Names that a person gave to categories in a review; the others are called by their id."""
    n_alternatives: int = N_ALTERNATIVES
    """The number of further categories in each row."""
    workers: int | None = None
    """Threads that read images; one per core when absent."""
    engine: str = USUAL
    """The engine of the frozen part of the network (`backbones.engines`)."""

    @classmethod
    def load(
        cls, run: RunFolder, *, device: str = "auto", workers: int | None = None, engine: str = USUAL,
        n_alternatives: int = N_ALTERNATIVES, unsure: float | None = None,
    ) -> Sorter:  # fmt: skip
        """Return the sorter of a finished run, with the names its review gave.

        Args:
            run: the run.
            device: the device it computes on.
            workers: as the attribute.
            engine: as the attribute.
            n_alternatives: as the attribute.
            unsure: the share of known images that is called unsure; as in the run when absent.

        Raises:
            DataError: the run is not finished, or has a damaged model.
        """
        run.check_complete()
        model, categories = Model.load(run.model)
        model, confidence = model.to(choose_device(device)), Confidence.load(run.model).with_unsure(unsure)
        names = reviewed_names(run, categories)
        return cls(
            model=model, categories=categories, confidence=confidence, names=names, n_alternatives=n_alternatives,
            workers=workers, engine=engine,
        )  # fmt: skip

    def prepare(self, source: Source, engine: str | None = None) -> str:
        """Choose the engine for a source, or take a given one, and return its name.

        Raises:
            DataError: the model was made from features and is given images, the other way round, or features of
                another size.
        """
        _refuse_unless(self.model, n_features=source.n_features)
        if source.n_features is None:
            n_images = MANY_IMAGES if source.n_rows is None else source.n_rows
            choose_engine(engine or self.engine, self.model.backbone, n_images=n_images)
        return self.model.backbone.trunk.engine

    def work(self, run: RunFolder) -> Work:
        """Return predicting as work that is done in parts; `run` is what this was loaded from."""
        schema = pa.Schema.from_pandas(self.no_rows(), preserve_index=False).remove_metadata()
        facts = {
            "run": digests.digest_of(json.dumps(digests.read(run.path), sort_keys=True).encode())[:16],
            "names": dict(self.names),
            "unsure": self.confidence.unsure,
            "top": self.n_alternatives,
        }

        def do(rows: Rows, progress: Progress) -> Made:
            table, n_unlike = self.block(rows, progress)
            counts = Counter[str](table["status"])
            counts[UNLIKE] += n_unlike
            return Made(pa.Table.from_pandas(table, schema=schema, preserve_index=False), counts)

        return Work(command="predict", facts=facts, schema=schema, do=do, set_engine=self.prepare, stage="sorting")

    def blocks(self, source: Source, *, progress: Progress | None = None) -> Iterator[Block]:
        """Yield the rows of a source, in order; memory holds one block at a time."""
        self.prepare(source)
        progress = progress or Progress()
        progress.start("sorting", source.n_rows or 0)
        for unit in source.units:
            for rows in prefetched(unit.read()):
                yield self.block(rows, progress)
        progress.finish()

    def block(self, rows: Rows, progress: Progress | None = None) -> Block:
        """Return the table of some rows; those that cannot be read come last."""
        n_workers = choose_workers(self.workers)
        named, features_bd, problems = pass_rows(self.model.backbone, rows, n_workers=n_workers, progress=progress)
        parts = [Block(self._unreadable(problems), 0)] if problems else []
        if len(named) or not parts:
            parts.insert(0, self._sorted(named, features_bd))
        return Block(pd.concat([part.table for part in parts], ignore_index=True), sum(part.n_unlike for part in parts))

    def no_rows(self) -> pd.DataFrame:
        """Return the table of no images, which says what the columns are."""
        return self._unreadable([])

    def _sorted(self, named: pd.DataFrame, features_bd: torch.Tensor) -> Block:
        if not len(named):
            return Block(self.no_rows(), 0)
        scores_bk = self.model.scores(features_bd).cpu()
        predicted = prediction_table(
            scores_bk, list(self.categories), self.model.blueprint.n_old, features_nd=features_bd.cpu(),
            confidence=self.confidence, n_alternatives=self.n_alternatives,
        )  # fmt: skip
        table = pd.concat([named[["file_name", "image_id"]].reset_index(drop=True), predicted], axis=1)
        table = table.assign(label=table["category"].replace(dict(self.names)))
        return Block(self._typed(table), int(self.confidence.is_unlike(scores_bk).sum()))

    def _unreadable(self, problems: Sequence[Problem]) -> pd.DataFrame:
        rows = [(problem.file_name, "unreadable", f"{problem.code}: {problem.reason}") for problem in problems]
        return self._typed(pd.DataFrame(rows, columns=["file_name", "status", "reason"]))

    def _typed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the table with all columns there are, each of one type, so that blocks fit under each other."""
        n_others = min(self.n_alternatives, len(self.categories) - 1)
        others = [name for rank in range(1, n_others + 1) for name in (f"alt_{rank}", f"alt_{rank}_p")]
        columns = ["file_name", "image_id", "category", "label", "status", "confidence", "novelty", *others, "reason"]
        is_number = {name: name in ("confidence", "novelty") or name.endswith("_p") for name in columns}
        return table.reindex(columns=columns).astype({n: "float64" if is_number[n] else _TEXT for n in columns})


def reviewed_names(run: RunFolder, categories: Sequence[str]) -> dict[str, str]:
    """Return what each category is called now. The model knows nothing of a split: its parts are all named."""
    if not run.edits.is_file():
        return {}
    state = Review(run).state
    now = {id_: state.became(id_) for id_ in categories if id_ in state.categories}
    return {id_: " or ".join(state.categories[other].name for other in others) for id_, others in now.items()}


def predict(
    run: RunFolder, split: Split, *, device: str = "auto", workers: int | None = None, progress: Progress | None = None
) -> pd.DataFrame:
    """Return one row per image of the split, its given labels ignored; unreadable files follow with that status."""
    return predict_with(Sorter.load(run, device=device, workers=workers), split, progress=progress)


def predict_with(sorter: Sorter, split: Split, *, progress: Progress | None = None) -> pd.DataFrame:
    """Return the predictions of a model in memory as one table."""
    blocks = sorter.blocks(source_of_split(split), progress=progress)
    return pd.concat([sorter.no_rows(), *(block.table for block in blocks)], ignore_index=True)


def reading_of(run: RunFolder) -> ReadingSettings:
    """Return how the pixels of a run's images were read; what it says about their labels does not hold for others."""
    pixels = ("max_pixels", "grey16")
    there = read_config(run).get("reading", {})
    return build(ReadingSettings, {name: there[name] for name in pixels if name in there})


def unlike_words(n_unlike: int, n: int) -> str | None:
    """Return a warning when more images than chance allows look like nothing seen in training, None otherwise."""
    if share_interval(n_unlike, n)[0] <= MANY_UNLIKE:
        return None
    return (
        f"S03: {n_unlike / n:.0%} of these images are unlike any training image (expected < {MANY_UNLIKE:.0%}). "
        f"Their categories are guesses. Check for another camera, crop or kind of image."
    )


def features_of(
    model: Model,
    split: Split,
    *,
    workers: int | None = None,
    engine: str = USUAL,
    progress: Progress | None = None,
) -> Iterable[torch.Tensor]:
    """Return the trained features of a split's images or features, in pieces and in order."""
    _refuse_unless(model, n_features=None if split.features_nvd is None else split.features_nvd.shape[-1])
    if split.features_nvd is not None:
        features_nd = torch.from_numpy(split.features_nvd[:, 0])
        return _adapted(model, features_nd)
    assert split.images is not None
    choose_engine(engine, model.backbone, n_images=len(split))
    n_workers = choose_workers(workers)
    return centre_features(model.backbone, split.images, n_workers=n_workers, progress=progress or Progress())


def _refuse_unless(model: Model, *, n_features: int | None) -> None:
    wanted = model.blueprint.n_features
    if (wanted is None) != (n_features is None):
        needs, given = ("images", "features") if wanted is None else ("features", "images")
        raise DataError(f"this model was trained on {needs} and cannot label {given}. Give {needs}.")
    if wanted != n_features:
        raise DataError(f"the model needs {wanted} features per image, got {n_features}.")


@torch.no_grad()
def _adapted(model: Model, features_nd: torch.Tensor) -> Iterator[torch.Tensor]:
    for features_bd in torch.split(features_nd, ROWS_PER_BLOCK):
        yield run_tail(model.backbone, model.backbone.trunk(features_bd.to(model.device)))
