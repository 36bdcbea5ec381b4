"""Drawing finished runs: gathers what figures ask for from run folders, and writes the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.backbones.attention import check_has_attention, class_token_attention
from nngcd.core.components import component_names, find_component
from nngcd.core.errors import ConfigError, DataError, UserError, did_you_mean
from nngcd.core.files import write_bytes
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_categories, read_config, read_environment, read_features, read_results
from nngcd.core.seeds import numpy_generator
from nngcd.data.split import Split
from nngcd.methods.heads import ACTIVATIONS, ProjectionHead
from nngcd.research.figures.page import FORMATS, FigurePage, check_matplotlib, plain_style
from nngcd.research.figures.subject import Activations, AttentionMaps, Grouping, UndrawableError, chosen_classes
from nngcd.runs.evaluation import open_data
from nngcd.training.model import ROWS_PER_PIECE, Model

MOST_ACTIVATIONS = 20_000
"""Images whose activations are drawn; of more, a seeded sample."""


@dataclass(slots=True)
class Drawn:
    """Figures that were written, and those that were skipped."""

    written: list[Path] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why each figure that is missing could not be drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """Which figures, of what, and as which files."""

    names: tuple[str, ...] = ()
    """Figures by name; empty: all."""
    formats: tuple[str, ...] = ("svg", "png")
    dpi: int = 150
    """Pixels per inch of PNG files, and of what is made of pixels in the others."""
    classes: tuple[str, ...] = ()
    """Classes to be shown where a figure shows only some; empty: the largest."""

    def __post_init__(self) -> None:
        for name in self.names:
            find_component("nngcd.research.figures", name, "draw")
        for form in self.formats:
            if form not in FORMATS:
                hint = did_you_mean(form, FORMATS)
                raise ConfigError("--format", form, f"unknown format.{hint} Choose from: {', '.join(FORMATS)}")


def draw_figures(runs: Sequence[RunFolder], out: Path, wishes: Wishes, progress: Progress | None = None) -> Drawn:
    """Draw one finished run, or several side by side, into a folder; figures that are there already are replaced.

    Raises:
        DataError: a run is not finished, the runs are of different images, a wanted class does not exist, or nothing at
            all could be drawn.
        ResourceError: matplotlib is missing, or the folder cannot be written.
    """
    check_matplotlib()
    subjects = _subjects(runs, wishes.classes)
    for subject in subjects if wishes.classes else ():
        chosen_classes(subject.grouping, wishes.classes, 0)  # a wrong name is reported before anything is drawn
    names = wishes.names or component_names("nngcd.research.figures", "draw")
    drawn, progress = Drawn(), progress or Progress()
    progress.start("figures", len(names))
    for name in names:
        try:
            with plain_style():
                page: FigurePage = find_component("nngcd.research.figures", name, "draw").draw(subjects)
                files = {out / f"{name}.{form}": page.render(form, wishes.dpi) for form in wishes.formats}
        except UndrawableError as reason:
            drawn.skipped[name] = str(reason)
            files = {}
        for path, content in files.items():
            write_bytes(path, content)
        drawn.written += files
        progress.advance(note=name)
    progress.finish()
    if not drawn.written:
        raise DataError("nothing was drawn. " + "; ".join(f"{name}: {why}" for name, why in drawn.skipped.items()))
    return drawn


def _subjects(runs: Sequence[RunFolder], classes: tuple[str, ...]) -> list[Subject]:
    for run in runs:
        run.check_complete()
    if len({read_environment(run)["split_hash"] for run in runs}) > 1:
        raise DataError("the runs have different images or labels. Only runs on the same data can share a figure.")
    methods = [str(run.read_summary()["method"]) for run in runs]
    is_clear = len(set(methods)) == len(methods)
    data = RunData(runs[0])
    return [
        Subject(run, data, method if is_clear else run.path.resolve().name, classes)
        for run, method in zip(runs, methods, strict=True)
    ]


@dataclass(slots=False)
class RunData:
    """The data set of runs, opened once and only if a figure needs it."""

    run: RunFolder

    @cached_property
    def opened(self) -> tuple[Split | None, NDArray[np.object_] | None, str]:
        """Images and true class names if available, and otherwise the reason."""
        try:
            return *open_data(self.run), ""
        except UserError as error:
            return None, None, str(error)


class Subject:
    """A run folder as figures see it; what costs time is computed when a figure first asks for it."""

    def __init__(self, run: RunFolder, data: RunData, name: str, wanted_classes: tuple[str, ...]) -> None:
        self.run, self.data, self.name, self.wanted_classes = run, data, name, wanted_classes

    @cached_property
    def facts(self) -> str:
        """Method, preset, effort, backbone, data, seed, K, images and scores in one line."""
        summary, settings = self.run.read_summary(), read_config(self.run)
        parts = [f"{name} {summary[name]}" for name in ("method", "preset", "effort", "backbone")]
        if settings.get("weights"):
            parts[-1] += f" with the weights {Path(str(settings['weights'])).name}"
        data = settings.get("dataset") or Path(str(settings["data"])).name
        parts += [f"data {data}", f"seed {summary['seed']}", f"K = {summary['k']}"]
        parts.append(f"{summary['n_images']:,} images, {summary['n_labelled']:,} of them labelled")
        accuracy = summary.get("scores", {}).get("accuracy")
        if accuracy:
            shares = [f"{part} {value:.1f}" for part, value in accuracy.items() if value is not None]
            parts.append(f"accuracy of the unlabelled: {', '.join(shares)}")
        return f"{self.name}: {', '.join(parts)}."

    @cached_property
    def grouping(self) -> Grouping:
        """The true classes where they are known, otherwise the found ones."""
        results = read_results(self.run)
        true_name = self.data.opened[1]
        # Not the labels that were given: an old class may have no labelled image.
        categories, n_known = read_categories(self.run.model)
        old = sorted(categories[:n_known])
        name = np.asarray(results["category"] if true_name is None else true_name, dtype=object)
        names = [*old, *sorted(set(name) - set(old))]
        number = {name: index for index, name in enumerate(names)}
        class_n = np.array([number[one] for one in name], dtype=np.int64)
        return Grouping(class_n, tuple(str(one) for one in names), len(old), true_name is not None)

    @cached_property
    def features_nd(self) -> NDArray[np.float32]:
        """The learned feature of each image."""
        n_images = len(read_results(self.run))
        features_nd: NDArray[np.float32] = read_features(self.run, n_images).float().numpy()
        return features_nd

    @cached_property
    def activations(self) -> Activations:
        """The projections of the images, or their features where the method has no projection."""
        rows = numpy_generator(0, "activations").permutation(len(self.features_nd))[:MOST_ACTIVATIONS]
        features_nd = torch.from_numpy(self.features_nd[np.sort(rows)])
        heads = (part for part in self._model.method.modules() if isinstance(part, ProjectionHead))
        head = next(heads, None)
        if head is None:
            return Activations(features_nd.numpy(), "features; the method has no projection")
        with torch.no_grad():
            projected = torch.cat([head(piece) for piece in torch.split(features_nd, ROWS_PER_PIECE)])
        function = next(name for name, function in ACTIVATIONS.items() if function is head.activation)
        return Activations(projected.numpy(), f"projection with {function}")

    @cached_property
    def epochs(self) -> list[dict[str, Any]]:
        """Records of training, one per epoch."""
        return self.run.read_metrics()

    def check_attention(self) -> None:
        """Raise `UndrawableError` if the backbone has no attention; asked first, because opening images takes time."""
        if self._model.blueprint.n_features is not None:
            raise UndrawableError(f"{self.name} was made from features, so it has no network to show")
        try:
            check_has_attention(self._model.backbone.network)
        except UserError as error:
            raise UndrawableError(f"{self.name}: {error}") from error

    def attention(self, rows: Sequence[int]) -> AttentionMaps:
        """Return the attention of the class token in the last block for some images."""
        split, _, reason = self.data.opened
        if split is None or split.images is None:
            raise UndrawableError(f"it needs the images: {reason}")
        backbone = self._model.backbone
        prepare = backbone.preprocessing
        views = torch.stack(
            [prepare.centre_view(prepare.resized(split.images.open(row, prepare.short_side))) for row in rows]
        )
        # The parts that were loaded, trunk and tail, share their weights with the whole network.
        maps_bhpp = class_token_attention(backbone.network, prepare.normalise(views))
        return AttentionMaps(views.permute(0, 2, 3, 1).numpy(), maps_bhpp.numpy())

    @cached_property
    def _model(self) -> Model:
        return Model.load(self.run.model)[0]
