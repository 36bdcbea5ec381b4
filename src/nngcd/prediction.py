"""Labelling new images with the model of a finished run; reads only the run folder and the images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd
import torch

from nngcd.core.device import choose_device, choose_workers
from nngcd.core.errors import DataError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.split import Split
from nngcd.results import ROWS_PER_BLOCK, prediction_table
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.model import Model


def predict(
    run: RunFolder, split: Split, *, device: str = "auto", workers: int | None = None, progress: Progress | None = None
) -> pd.DataFrame:
    """Return one row per image of the split, its given labels ignored; unreadable files follow with that status.

    Raises:
        DataError: the run was made from features and is given images, or the other way round.
    """
    model, categories = Model.load(run.model)
    return predict_with(model, categories, split, device=device, workers=workers, progress=progress)


def predict_with(
    model: Model,
    categories: list[str],
    split: Split,
    *,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the predictions of a model in memory; images stream through it, so memory does not grow with them."""
    model = model.to(choose_device(device))
    tables = [
        prediction_table(model.scores(features_bd).cpu(), categories, model.blueprint.n_old)
        for features_bd in features_of(model, split, workers=workers, progress=progress)
    ]
    named = split.table[["file_name", "image_id"]].reset_index(drop=True)
    predicted = pd.concat([named, pd.concat(tables, ignore_index=True)], axis=1)
    unreadable = pd.DataFrame({"file_name": [p.file_name for p in split.problems], "status": "unreadable"})
    return pd.concat([predicted, unreadable], ignore_index=True) if len(unreadable) else predicted


def features_of(
    model: Model, split: Split, *, workers: int | None = None, progress: Progress | None = None
) -> Iterable[torch.Tensor]:
    """Return the trained features of a split's images or features, in pieces and in order."""
    wants_features = model.blueprint.n_features is not None
    if wants_features != (split.features_nvd is not None):
        needs, given = ("features", "images") if wants_features else ("images", "features")
        raise DataError(f"this model was made from {needs} and cannot label {given}.")
    if split.features_nvd is not None:
        features_nd = torch.from_numpy(split.features_nvd[:, 0])
        if features_nd.shape[-1] != model.blueprint.n_features:
            raise DataError(f"the model takes {model.blueprint.n_features} features, got {features_nd.shape[-1]}.")
        return _adapted(model, features_nd)
    assert split.images is not None
    n_workers = choose_workers(workers)
    return centre_features(model.backbone, split.images, n_workers=n_workers, progress=progress or Progress())


@torch.no_grad()
def _adapted(model: Model, features_nd: torch.Tensor) -> Iterator[torch.Tensor]:
    for features_bd in torch.split(features_nd, ROWS_PER_BLOCK):
        yield run_tail(model.backbone, model.backbone.trunk(features_bd.to(model.device)))
