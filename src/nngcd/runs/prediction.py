"""Labelling new images with the model of a finished run; reads only the run folder and the images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd
import torch

from nngcd.backbones.engines import USUAL, choose_engine
from nngcd.core.components import find_component
from nngcd.core.config import build
from nngcd.core.device import choose_device, choose_workers
from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress, Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.data.image_files import ImageFiles, check_files
from nngcd.data.listed import Listed, warn_of_notes
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import EMPTY_FOLDER, Problem, Split, image_table
from nngcd.datasets.opening import locate, open_images
from nngcd.metrics.calibration import share_interval
from nngcd.results.confidence import Confidence
from nngcd.results.result_tables import N_ALTERNATIVES, NOT_CALIBRATED, ROWS_PER_BLOCK, prediction_table
from nngcd.review.session import Review
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.model import Model

FILES_PER_BLOCK = 1024
"""Files that are checked, passed through the network and written before the next ones are looked at."""
MANY_UNLIKE = 0.1
"""More images than this that look like nothing seen in training mean that the data are of another kind."""
_TEXT = "string"


class Block(NamedTuple):
    """The rows of some images, and how many of these images look like nothing seen in training."""

    table: pd.DataFrame
    n_unlike: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A model that can label images: where it computes, its categories, and how sure it may be."""

    model: Model
    categories: Sequence[str]
    confidence: Confidence = NOT_CALIBRATED
    names: Mapping[str, str] = field(default_factory=dict)
    """Names that a person gave to categories in a review; the others are called by their id."""
    n_alternatives: int = N_ALTERNATIVES
    """The number of further categories in each row."""
    workers: int | None = None
    """Image-reading processes; one per core when absent."""
    engine: str = USUAL
    """The engine of the frozen part of the network (`backbones.engines`)."""

    @classmethod
    def load(
        cls, run: RunFolder, *, device: str = "auto", workers: int | None = None, engine: str = USUAL
    ) -> Predictor:
        """Return the predictor of a finished run, with the names its review gave.

        Raises:
            DataError: the run is not finished, or has a damaged model.
        """
        run.check_complete()
        model, categories = Model.load(run.model)
        model, confidence = model.to(choose_device(device)), Confidence.load(run.model)
        names = reviewed_names(run, categories)
        return cls(
            model=model, categories=categories, confidence=confidence, names=names, workers=workers, engine=engine
        )  # fmt: skip

    def blocks(self, split: Split, *, progress: Progress | None = None) -> Iterator[Block]:
        """Yield the rows of a split's images, in order; files that cannot be read come last.

        Raises:
            DataError: the model was made from features and is given images, or the other way round.
        """
        start = 0
        found = features_of(self.model, split, workers=self.workers, engine=self.engine, progress=progress)
        for features_bd in found:
            yield self._block(split.table.iloc[start : start + len(features_bd)], features_bd)
            start += len(features_bd)
        if split.problems:
            yield Block(self._unreadable(split.problems), 0)

    def file_blocks(self, listed: Listed, reading: ReadingSettings, *, progress: Progress) -> Iterator[Block]:
        """Yield the rows of listed image files, a thousand at a time: memory holds all names, and little else.

        Raises:
            DataError: the model was made from features.
        """
        _refuse_unless(self.model, gets_features=False)
        names, decoding = listed.file_names, reading.decoding
        choose_engine(self.engine, self.model.backbone, n_images=len(names))
        progress.start("sorting", len(names))
        for start in range(0, len(names), FILES_PER_BLOCK):
            some = names[start : start + FILES_PER_BLOCK]
            checks = check_files(listed.folder, some, decoding=decoding)
            found = list(zip(some, checks, strict=True))
            good = [(name, check.content_hash) for name, check in found if check.reason is None]
            if good:
                file_names, hashes = zip(*good, strict=True)
                images = ImageFiles(listed.folder, file_names, hashes, decoding)
                yield from self._image_blocks(images, image_table(file_names, hashes))
            bad = [Problem(name, check.code, check.reason) for name, check in found if check.reason is not None]
            if bad:
                yield Block(self._unreadable(bad), 0)
            progress.advance(len(some))
        if others := [problem for problem in (*listed.problems, *listed.missing) if problem.code != EMPTY_FOLDER]:
            yield Block(self._unreadable(others), 0)
        progress.finish()

    def _image_blocks(self, images: ImageFiles, table: pd.DataFrame) -> Iterator[Block]:
        n_workers = choose_workers(self.workers)
        features = centre_features(self.model.backbone, images, n_workers=n_workers, progress=Progress())
        yield self._block(table, torch.cat(list(features)))

    def _block(self, named: pd.DataFrame, features_bd: torch.Tensor) -> Block:
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
    """Return one row per image of the split, its given labels ignored; unreadable files follow with that status.

    Raises:
        DataError: the run was made from features and is given images, or the other way round.
    """
    return predict_with(Predictor.load(run, device=device, workers=workers), split, progress=progress)


def predict_with(predictor: Predictor, split: Split, *, progress: Progress | None = None) -> pd.DataFrame:
    """Return the predictions of a model in memory as one table."""
    return pd.concat([block.table for block in predictor.blocks(split, progress=progress)], ignore_index=True)


def stream(
    predictor: Predictor,
    data: str,
    *,
    dataset: str | None = None,
    reading: ReadingSettings,
    on_progress: OnProgress | None = None,
    progress: Progress,
) -> Iterator[Block]:
    """Yield the rows of whatever the user points at; files of a folder or table are read as they are needed.

    Args:
        predictor: the model.
        data: as for `open_images`.
        dataset: as for `open_images`.
        reading: how images are decoded; as those of the training were.
        on_progress: called by data sets that are read as a whole.
        progress: receives the stages of the work.

    Raises:
        DataError: nothing is there, or it cannot be used with this model.
    """
    # The first rows, if only of none, say which columns there are.
    yield Block(predictor._unreadable([]), 0)
    name, root, settled = locate(data, dataset, reading)
    module = find_component("nngcd.datasets", name, "load")
    if hasattr(module, "find"):
        listed = module.find(root, settled, use_labels=False)
        warn_of_notes(listed)
        yield from predictor.file_blocks(listed, settled, progress=progress)
    else:
        split = open_images(data, dataset=dataset, reading=reading, on_progress=on_progress)
        yield from predictor.blocks(split, progress=progress)


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
    _refuse_unless(model, gets_features=split.features_nvd is not None)
    if split.features_nvd is not None:
        features_nd = torch.from_numpy(split.features_nvd[:, 0])
        if features_nd.shape[-1] != model.blueprint.n_features:
            raise DataError(
                f"the model needs {model.blueprint.n_features} features per image, got {features_nd.shape[-1]}."
            )
        return _adapted(model, features_nd)
    assert split.images is not None
    choose_engine(engine, model.backbone, n_images=len(split))
    n_workers = choose_workers(workers)
    return centre_features(model.backbone, split.images, n_workers=n_workers, progress=progress or Progress())


def _refuse_unless(model: Model, *, gets_features: bool) -> None:
    wants_features = model.blueprint.n_features is not None
    if wants_features != gets_features:
        needs, given = ("features", "images") if wants_features else ("images", "features")
        raise DataError(f"this model was trained on {needs} and cannot label {given}. Give {needs}.")


@torch.no_grad()
def _adapted(model: Model, features_nd: torch.Tensor) -> Iterator[torch.Tensor]:
    for features_bd in torch.split(features_nd, ROWS_PER_BLOCK):
        yield run_tail(model.backbone, model.backbone.trunk(features_bd.to(model.device)))
