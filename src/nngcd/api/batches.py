"""Functions of batches for engines such as Ray Data and Spark: small to pickle, and loaded where they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from PIL import Image

from nngcd.core.errors import ConfigError, DataError
from nngcd.core.run_folder import RunFolder
from nngcd.data.decoding import DEFAULT, Decoding, UnreadableError, decode_rgb, to_rgb
from nngcd.data.sources import Rows, Source, Unit
from nngcd.runs.embedding import Features, embedding_backbone
from nngcd.runs.parts import FEATURE
from nngcd.runs.prediction import Sorter, reading_of
from nngcd.training.passing import pass_rows

Loaded = TypeVar("Loaded")
Batch = Mapping[str, Any]
"""Columns by name, each with one value per row: arrays as Ray gives them, or lists."""


class OnBatches(ABC):
    """A function of batches that is pickled by its settings alone; it loads what it needs at its first batch."""

    column: str

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Return the batch without its images, and with the columns that were computed.

        Args:
            batch: columns by name. Images are uint8 arrays, all of one size or not, or the content of image files.

        Raises:
            DataError: the batch has no such column of images or features.
            ConfigError: the batch already has a column of that name.
        """
        if self.column not in batch:
            raise DataError(f"the batch has no column '{self.column}' (found: {', '.join(batch)}); name it: column=...")
        rest = {name: values for name, values in batch.items() if name != self.column}
        computed = self._computed(batch[self.column])
        if twice := rest.keys() & computed.keys():
            name = min(twice)
            raise ConfigError("prefix", "", f"the batch already has a column '{name}'; give prefix='nngcd_'")
        return {**rest, **computed}

    @abstractmethod
    def _computed(self, values: Sequence[Any]) -> dict[str, Any]: ...

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_loaded"}


class Predictor(OnBatches):
    """Sorts the images of batches into the categories of a finished run; for `map_batches` of Ray and the like.

    Rows keep their order. An image that cannot be read has the status `unreadable`.

    Args:
        run: the run folder, which every worker must be able to read.
        column: the column of images, or of features if the run was made from features.
        top: the number of further candidate categories for each image.
        unsure: the share of known images to call unsure; by default as in the run.
        prefix: put before the names of new columns.
        device: auto, cpu, cuda or mps.
        engine: the engine of frozen networks; with one engine, all workers give the same numbers.
        workers: threads that decode images, for each worker of the engine.

    Example:
        >>> import nngcd
        >>> predictor = nngcd.Predictor("runs/trees")  # doctest: +SKIP
        >>> predictor({"image": [Path("leaf.jpg").read_bytes()]})["category"]  # doctest: +SKIP
    """

    def __init__(  # noqa: PLR0913 (everything but the run has a default)
        self, run: str | Path, *, column: str = "image", top: int = 3, unsure: float | None = None, prefix: str = "",
        device: str = "auto", engine: str = "torch", workers: int = 1,
    ) -> None:  # fmt: skip
        self.run, self.column, self.top, self.unsure, self.prefix = str(run), column, top, unsure, prefix
        self.device, self.engine, self.workers = device, engine, workers

    def _computed(self, values: Sequence[Any]) -> dict[str, Any]:
        sorter, decoding = self._load()
        n_features = sorter.model.blueprint.n_features
        rows = _image_rows(values, decoding) if n_features is None else _feature_rows(values)
        sorter.prepare(_many(rows))
        table = sorter.block(rows).table.set_index("file_name").loc[list(rows.file_names)].drop(columns="image_id")
        return {f"{self.prefix}{name}": _as_numpy(table[name]) for name in table}

    def _load(self) -> tuple[Sorter, Decoding]:
        if "_loaded" not in self.__dict__:
            folder = RunFolder.open(Path(self.run))
            sorter = Sorter.load(
                folder, device=self.device, workers=self.workers, engine=self.engine, n_alternatives=self.top,
                unsure=self.unsure,
            )  # fmt: skip
            self._loaded = sorter, reading_of(folder).decoding
        return self._loaded


class Embedder(OnBatches):
    """Computes the features of the images of batches, at length 1, as `nngcd embed` does.

    The column `feature` is (n, d) in single precision. For an image that cannot be read it holds NaN, and the column
    `reason` says why.

    Args:
        backbone: the network, as for `nngcd embed`.
        weights: local weights of the network, which every worker must be able to read.
        image_size: side of the crop in pixels; by default the network's own.
        column: the column of images.
        prefix: put before the names of new columns.
        device: auto, cpu, cuda or mps.
        engine: the engine of frozen networks; with one engine, all workers give the same numbers.
        workers: threads that decode images, for each worker of the engine.
    """

    def __init__(  # noqa: PLR0913 (everything has a default)
        self, backbone: str = "efficientnet_lite0", *, weights: str | Path | None = None, image_size: int | None = None,
        column: str = "image", prefix: str = "", device: str = "auto", engine: str = "torch", workers: int = 1,
    ) -> None:  # fmt: skip
        self.backbone, self.weights, self.image_size = backbone, None if weights is None else str(weights), image_size
        self.column, self.prefix, self.device, self.engine, self.workers = column, prefix, device, engine, workers

    def _computed(self, values: Sequence[Any]) -> dict[str, Any]:
        features, rows = self._load(), _image_rows(values, DEFAULT)
        features.prepare(_many(rows))
        named, features_nd, problems = pass_rows(features.backbone, rows, n_workers=features.workers or 0)
        found = np.full((len(rows.file_names), features.backbone.n_features), np.nan, dtype=np.float32)
        found[named["file_name"].astype(int).to_numpy()] = features_nd.float().cpu().numpy()
        reasons: Any = np.full(len(found), None, dtype=object)
        for problem in problems:
            reasons[int(problem.file_name)] = f"{problem.code}: {problem.reason}"
        return {f"{self.prefix}{FEATURE}": found, f"{self.prefix}reason": reasons}

    def _load(self) -> Features:
        if "_loaded" not in self.__dict__:
            weights = None if self.weights is None else Path(self.weights)
            backbone = embedding_backbone(
                self.backbone, weights=weights, image_size=self.image_size, device=self.device
            )  # fmt: skip
            self._loaded = Features(backbone, self.workers, self.engine)
        return self._loaded


def _many(rows: Rows) -> Source:
    """Return a source that stands for all batches there will be."""
    n_features = None if rows.features_nd is None else rows.features_nd.shape[1]
    return Source("the batch", (Unit("batch", lambda: iter((rows,))),), n_features)


def _image_rows(values: Sequence[Any], decoding: Decoding) -> Rows:
    def opened(row: int, short_side: int) -> tuple[Image.Image, str]:
        return _image(values[row], decoding, short_side), ""

    return Rows(file_names=[str(row) for row in range(len(values))], opened=opened)


def _feature_rows(values: Sequence[Any]) -> Rows:
    try:
        features_nd = np.ascontiguousarray(np.stack([np.asarray(value, dtype=np.float32) for value in values]))
    except (ValueError, TypeError) as error:
        raise DataError(f"the run was made from features, and the batch has none ({error}).") from None
    if features_nd.ndim != 2 or not np.isfinite(features_nd).all():
        raise DataError("features must be one vector of finite numbers per row.")
    names = [str(row) for row in range(len(values))]
    return Rows(file_names=names, features_nd=features_nd, image_ids=names)


def _image(value: Any, decoding: Decoding, short_side: int) -> Image.Image:  # noqa: ANN401 (whatever an engine gives)
    """Return one image of a batch: pixels, the content of a file, or a Hugging Face image."""
    if isinstance(value, Mapping):
        value = value.get("bytes")
    if isinstance(value, bytes | bytearray | memoryview):
        return decode_rgb(bytes(value), decoding, short_side=short_side)
    if isinstance(value, Image.Image):
        return to_rgb(value, decoding.grey_range)
    pixels = np.asarray(value)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        raise UnreadableError(f"not an image ({pixels.dtype} of shape {pixels.shape})")
    return to_rgb(Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels))


def _as_numpy(values: pd.Series) -> Any:  # noqa: ANN401 (an array of numbers or of objects)
    if pd.api.types.is_numeric_dtype(values):
        return values.to_numpy(dtype=np.float64)
    return values.astype(object).where(values.notna(), None).to_numpy(dtype=object)
