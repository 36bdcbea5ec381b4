"""`--to onnx`: the whole model from pixels to scores as one file that runs without nngcd and without torch."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nngcd import __version__
from nngcd.core.atomic import atomic, writing
from nngcd.core.errors import ResourceError, TrainingError
from nngcd.core.files import write_json
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_preprocessor
from nngcd.export.source import ExportSource, WrittenExport
from nngcd.export.tree import whole_folder
from nngcd.review.state import State
from nngcd.training.model import Model

FOLDER, MODEL, PREPROCESSOR, CATEGORIES = "onnx", "model.onnx", "preprocessor.json", "categories.json"
TARGETS = (FOLDER,)
NEEDED = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-3
"""Largest difference of a probability between torch and onnxruntime; rounding alone stays far below."""
STEPS = (
    "decode to 8-bit RGB, upright by the EXIF tag, transparent parts on white",
    "resize so that the short side has int(image_size / crop_fraction) pixels, with the interpolation named here and "
    "smoothing when shrinking (Pillow's resize)",
    "cut image_size x image_size pixels out of the centre",
    "give them as uint8, channels first; dividing by 255, mean and std are part of the model",
)


def check(source: ExportSource, out: Path) -> None:
    """Look for the packages that this needs."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise ResourceError(f"the ONNX export needs {', '.join(missing)}. Run: pip install 'nngcd[onnx]'")


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write model, preprocessing and categories; the model is compared with torch before it gets its name.

    Raises:
        TrainingError: the exported model gives other probabilities than torch.
    """
    model, ids = Model.load(source.run.model)
    facts = {
        "nngcd": __version__,
        "input": _input_facts(model),
        "outputs": {"scores": "(n, categories) before softmax", "probabilities": "softmax of the scores"},
        "categories": _categories(ids, model.blueprint.n_old, source.state),
    }
    source.progress.start("model", 2)
    with whole_folder(out / FOLDER) as folder:
        _export(WholeModel(model), _examples(model), folder / MODEL, facts)
        source.progress.advance()
        difference = largest_difference(folder / MODEL, model, _examples(model, n=3))
        if not difference <= TOLERANCE:
            raise TrainingError(f"the ONNX model differs from torch by {difference:.2g} in a probability; not written.")
        write_json(folder / PREPROCESSOR, _preprocessor(source.run, model))
        write_json(folder / CATEGORIES, facts["categories"])
    source.progress.finish()
    return [
        WrittenExport(
            out / FOLDER, f"{MODEL} ({len(ids)} outputs; probabilities differ from torch by {difference:.1g})"
        )
    ]


class WholeModel(nn.Module):
    """Images as uint8 (n, 3, side, side), or features (n, d), to scores and probabilities of all categories."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        # Without the autocast that `Trunk` brings for training: here everything is float32.
        self.trunk, self.tail, self.method = model.backbone.trunk.network, model.backbone.tail, model.method
        self.takes_features = model.blueprint.n_features is not None
        preprocessing = model.backbone.preprocessing
        self.register_buffer("mean", torch.tensor(preprocessing.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(preprocessing.std).view(3, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and probabilities."""
        normalised = images if self.takes_features else (images.float() / 255 - self.mean) / self.std
        scores_nk = self.method.assign(self.tail(self.trunk(normalised)))
        return scores_nk, scores_nk.softmax(-1)


def largest_difference(path: Path, model: Model, examples: Tensor) -> float:
    """Return the largest difference of a probability between the file, run by onnxruntime, and torch."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    _, found = session.run(None, {"images": examples.numpy()})
    with torch.no_grad():
        _, expected = WholeModel(model)(examples)
    difference: NDArray[np.float64] = np.abs(np.asarray(found, dtype=np.float64) - expected.double().numpy())
    return float(difference.max())


def _export(whole: WholeModel, examples: Tensor, path: Path, facts: dict[str, Any]) -> None:
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            whole,
            (examples,),
            input_names=["images"],
            output_names=["scores", "probabilities"],
            dynamic_shapes={"images": {0: torch.export.Dim("n", min=1)}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    for name, value in facts.items():
        program.model.metadata_props[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    with atomic(path) as temporary, writing(path):
        program.save(str(temporary), external_data=False)


def _examples(model: Model, n: int = 2) -> Tensor:
    """Return input of the right shape; more than one example, because torch takes a batch of 1 for a constant."""
    generator = torch.Generator().manual_seed(n)
    if model.blueprint.n_features is not None:
        return torch.randn(n, model.blueprint.n_features, generator=generator)
    side = model.backbone.preprocessing.image_size
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=generator)


def _input_facts(model: Model) -> str:
    if model.blueprint.n_features is not None:
        return f"images: float32 (n, {model.blueprint.n_features}) features"
    side = model.backbone.preprocessing.image_size
    return f"images: uint8 (n, 3, {side}, {side}), RGB; see {PREPROCESSOR}"


def _preprocessor(run: RunFolder, model: Model) -> dict[str, Any]:
    if model.blueprint.n_features is not None:
        return {"input": "features", "n_features": model.blueprint.n_features}
    return {**read_preprocessor(run.model), "steps": list(STEPS)}


def _categories(ids: list[str], n_known: int, state: State) -> list[dict[str, Any]]:
    """Return what each output means now: the category it was merged into, and its name; several for one split since."""
    found = []
    for output, id_ in enumerate(ids):
        now = state.became(id_)
        names = [state.categories[other].name for other in now]
        kind = "known" if output < n_known else "new"
        found.append({"output": output, "id": id_, "kind": kind, "category": now, "label": names})
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the exporter tells developers off the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
