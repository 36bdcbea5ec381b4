"""`CategoryDiscovery`: a scikit-learn style estimator for everything the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from nngcd import pipeline
from nngcd.api.inputs import Source, asked_of, images_of, split_of
from nngcd.core import digests
from nngcd.core.device import choose_device
from nngcd.core.errors import ConfigError, DataError, UserError, warn
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_results
from nngcd.data.sources import source_of_split
from nngcd.datasets.opening import open_source
from nngcd.finished_run import Run
from nngcd.report import MAX_IMAGES, findings_from_fit, write_report
from nngcd.results.confidence import Confidence
from nngcd.results.moves import move_facts
from nngcd.results.result_tables import category_table, describe, results_of
from nngcd.review.edit_block import EditBlock
from nngcd.review.reviewed import reviewed_results
from nngcd.runs.prediction import Sorter, features_of, reading_of, reviewed_names
from nngcd.runs.writing import MODEL_FILES, read_estimate
from nngcd.settings import resolve, to_values
from nngcd.training.model import Model


class CategoryDiscovery(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Sort partly labelled images, or features of images, into known and newly discovered categories.

    It follows scikit-learn's conventions, and can be copied and pickled. To store or share a model, use `save`: a
    saved model contains no code.

    Examples:
        >>> import numpy as np
        >>> from nngcd import CategoryDiscovery
        >>> X = np.random.default_rng(0).normal(size=(60, 8)) + 5 * np.eye(8)[np.arange(60) % 3]
        >>> y = np.where(np.arange(60) % 3 == 0, 0, -1)  # -1 = unlabelled
        >>> discovery = CategoryDiscovery(n_categories=3, method="kmeans").fit(X, y)
        >>> discovery.categories_["kind"].tolist()
        ['known', 'new', 'new']

    Args:
        n_categories: K, known and new together: a number, "auto" (estimated) or "A..B" (estimated within that range).
            None: the published number for a benchmark data set, otherwise auto.
        method: name of a file in `nngcd/methods`.
        preset: default, paper or official.
        effort: quick, normal or full; features always use quick.
        backbone: name of a file in `nngcd/backbones` or of a timm model; None: the recipe's, for most methods
            efficientnet_lite0. Not used for features.
        settings: any other settings, nested as in config.yaml, for example `{"training": {"epochs": 50}}`.
        random_state: the seed.
        device: auto, cpu, cuda or mps.
        out: the run folder that `fit` creates for a path or data set; needed for `edit`, `export` and `evaluate`.
            None: everything stays in memory.
        cache: folder that keeps the features of images for later fits.
        progress: receives the stages of the work.
    """

    def __init__(  # noqa: PLR0913 (scikit-learn: all settings in the constructor)
        self,
        n_categories: int | str | None = None,
        *,
        method: str = "nngcd",
        preset: str = "default",
        effort: str = "quick",
        backbone: str | None = None,
        settings: dict[str, Any] | None = None,
        random_state: int = 0,
        device: str = "auto",
        out: str | Path | None = None,
        cache: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.method = method
        self.preset = preset
        self.effort = effort
        self.backbone = backbone
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.out = out
        self.cache = cache
        self.progress = progress

    def fit(self, X: Source, y: ArrayLike | None = None) -> CategoryDiscovery:  # noqa: N803 (as scikit-learn)
        """Learn the categories.

        Args:
            X: features (n, d), uint8 images (n, h, w[, 3]), an `ImageTable`, a `Split`, or a path as for `nngcd fit`.
            y: labels of any kind, with -1, None, NaN or "" for unlabelled; only with arrays.
        """
        if self.out is not None:
            return self._fit_run(X, y)
        split = split_of(self, X, y, is_fit=True)
        settings = resolve(asked_of(self, effort="quick" if split.images is None else self.effort))
        fitted = pipeline.fit(split, settings, cache=Path(self.cache) if self.cache else None, progress=self.progress)
        self._keep(fitted.model, fitted.categories, fitted.confidence)
        self.k_estimate_ = fitted.k_estimate
        self.result_ = results_of(split, fitted)
        self._facts = describe(split, self.result_, fitted.features_nd) | move_facts(split, fitted)
        self.categories_ = category_table(self.result_, split, fitted.categories, self._facts)
        # A labelled image keeps its label, whatever its scores.
        self.labels_: NDArray[np.int64] = np.where(split.is_labelled, split.labels, fitted.scores_nk.argmax(-1).numpy())
        self._seen = split, fitted.features_nd.numpy(), to_values(settings) | {"k": len(fitted.categories)}
        return self

    def fit_predict(self, X: Source, y: ArrayLike | None = None) -> NDArray[np.int64]:  # noqa: N803 (as scikit-learn)
        """Learn the categories and return `labels_`: the given label of labelled images, the cluster of the others."""
        return self.fit(X, y).labels_

    def predict(self, X: Source) -> NDArray[np.int64]:  # noqa: N803 (as scikit-learn)
        """Return the cluster of each image: an index into `classes_`, known categories first."""
        clusters: NDArray[np.int64] = self.predict_proba(X).argmax(-1)
        return clusters

    def predict_proba(self, X: Source) -> NDArray[np.float64]:  # noqa: N803 (as scikit-learn)
        """Return the probability of each category (columns as in `classes_`)."""
        check_is_fitted(self, "model_")
        scores_nk = torch.cat([self.model_.scores(features_bd).cpu() for features_bd in self._features(X)])
        probabilities: NDArray[np.float64] = self.confidence_.probabilities(scores_nk).numpy()
        return probabilities

    def novelty_score(self, X: Source) -> NDArray[np.float64]:  # noqa: N803 (as scikit-learn)
        """Return the probability that each image belongs to no known category; NaN if there are no known categories."""
        check_is_fitted(self, "model_")
        features_nd = torch.cat([features_bd.cpu() for features_bd in self._features(X)])
        scores_nk, n_old = self.model_.scores(features_nd.to(self.model_.device)).cpu(), self.model_.blueprint.n_old
        novelty: NDArray[np.float64] = self.confidence_.judge(scores_nk, features_nd, n_old=n_old).novel_b.numpy()
        return novelty

    def predict_table(self, X: Source) -> pd.DataFrame:  # noqa: N803 (as scikit-learn)
        """Return one row per image, as `nngcd predict` writes it: category, name given in a review, confidence."""
        check_is_fitted(self, "model_")
        model = self.model_.to(choose_device(self.device))
        run: RunFolder | None = getattr(self, "run_", None)
        names = reviewed_names(run, list(self.classes_)) if run else {}
        sorter = Sorter(model=model, categories=list(self.classes_), confidence=self.confidence_, names=names)
        if isinstance(X, (str, Path)):
            # As `nngcd predict` does, file by file: other batches would differ in the last digit.
            source = open_source(str(X), reading=reading_of(run) if run else None, use_labels=False)
        else:
            source = source_of_split(images_of(self, X))
        blocks = sorter.blocks(source, progress=self.progress)
        return pd.concat([sorter.no_rows(), *(block.table for block in blocks)], ignore_index=True)

    def transform(self, X: Source) -> NDArray[np.float32]:  # noqa: N803 (as scikit-learn)
        """Return the learned features."""
        check_is_fitted(self, "model_")
        features: NDArray[np.float32] = torch.cat([part.cpu() for part in self._features(X)]).numpy()
        return features

    def report(self, path: str | Path | None = None, *, max_images: int = MAX_IMAGES) -> Path:
        """Write one HTML page about the result of `fit` (see `nngcd report`) and return its path.

        Args:
            path: the page; by default report.html in the run folder, or in the current folder without one.
            max_images: the most images it shows.

        Raises:
            DataError: the model was loaded without its run, so its images are not known.
        """
        check_is_fitted(self, "model_")
        if hasattr(self, "run_"):
            return Run(self.run_).report(path, max_images=max_images, progress=self.progress)
        if not hasattr(self, "_seen"):
            raise DataError("a loaded model does not have the images it was fitted on. Use `nngcd report RUN`.")
        split, features_nd, settings = self._seen
        found = findings_from_fit(
            split, self.result_, self.categories_, features_nd, settings=settings, k_estimate=self.k_estimate_,
            facts=self._facts,
        )  # fmt: skip
        return write_report(found, Path(path or "report.html"), max_images=max_images, progress=self.progress).path

    def edit(self, *, user: str | None = None) -> EditBlock:
        """Correct the categories. Every edit is kept in the run folder (docs/guides/review.md) and can be undone.

        Make edits in a block, `with discovery.edit() as e:`; `result_` and `categories_` are updated when it ends.

        Raises:
            UserError: there is no run folder for the edits.
        """
        run = self._run("edits are kept in").folder
        return EditBlock(run, user=user, on_end=lambda: self._show_review(run))

    def export(self, to: str = "csv", out: str | Path = "export", **options: Any) -> list[Path]:  # noqa: ANN401
        """Export the results for other programs, as `nngcd export` does, and return the files (see `Run.export`).

        Raises:
            UserError: there is no run folder, or a file cannot be written.
        """
        return self._run("exports are made from").export(to, out, progress=self.progress, **options)

    def evaluate(self, truth: str | Path | None = None) -> dict[str, Any]:
        """Return the scores of the run, edits included; `truth` is a table (see `Run.evaluate`)."""
        return self._run("scores need").evaluate(truth)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model (safetensors and JSON, no pickle) into a folder."""
        check_is_fitted(self, "model_")
        folder = Path(folder)
        digests.forget(folder)
        self.model_.save(folder, list(self.classes_))
        self.confidence_.save(folder)
        digests.record(folder, MODEL_FILES)

    @classmethod
    def load(cls, folder: str | Path) -> CategoryDiscovery:
        """Return an estimator that can predict and transform.

        A run folder, unlike a saved model, also provides `labels_`, and `result_`, `categories_` and `edit` with the
        edits made since.

        Raises:
            NoSuchDataError: there is no such folder.
            DataError: the run is not finished, or the model is missing or damaged.
        """
        folder = Path(folder)
        if not folder.is_dir() or RunFolder(folder).config.is_file():
            run = RunFolder.open(folder)
            run.check_complete()
            return cls._of(run.model)._show_run(run)
        return cls._of(folder)

    @classmethod
    def _of(cls, model_folder: Path) -> CategoryDiscovery:
        model, categories = Model.load(model_folder)
        blueprint = model.blueprint
        estimator = cls(
            blueprint.n_clusters, method=blueprint.method, effort=blueprint.effort, backbone=blueprint.backbone
        )
        estimator._keep(model, categories, Confidence.load(model_folder))
        return estimator

    def _fit_run(self, X: Source, y: ArrayLike | None) -> CategoryDiscovery:  # noqa: N803 (as scikit-learn)
        if not isinstance(X, (str, Path)) or y is not None:
            reason = (
                "a run folder needs data that can be opened again: give a path or the name of a data set "
                "(arrays: np.savez('mine.npz', X=X, y=y), then fit('mine.npz'))"
            )
            raise ConfigError("out", str(self.out), reason)
        run = pipeline.run(
            X, asked_of(self, effort=self.effort), out=self.out, report=False, cache=self.cache, progress=self.progress
        ).folder
        self._keep(*Model.load(run.model), Confidence.load(run.model))
        self.k_estimate_ = read_estimate(run) if run.k.is_file() else None
        return self._show_run(run)

    def _run(self, what: str) -> Run:
        """Return the run that `what` needs."""
        if not hasattr(self, "run_"):
            raise UserError(
                f"{what} a run folder, and this estimator has none. Create one with "
                'CategoryDiscovery(out="RUN").fit("my_images/"), or open one with CategoryDiscovery.load("RUN").'
            )
        return Run(self.run_)

    def _show_run(self, run: RunFolder) -> CategoryDiscovery:
        self.run_ = run
        # Not from `result_`: edits add categories that `classes_` and the model do not have.
        found = read_results(run)["category"]
        self.labels_ = pd.Index(self.classes_).get_indexer(found).astype(np.int64)
        self._show_review(run)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # whatever goes in, the network's features come out
        return tags

    def _show_review(self, run: RunFolder) -> None:
        reviewed = reviewed_results(run)
        self.result_, self.categories_ = reviewed.table, reviewed.categories

    def _keep(self, model: Model, categories: list[str], confidence: Confidence) -> None:
        self.model_ = model
        self.confidence_ = confidence
        self.classes_ = np.array(categories, dtype=object)
        self.n_categories_ = len(categories)

    def _features(self, X: Source) -> list[torch.Tensor]:  # noqa: N803 (as scikit-learn)
        split = images_of(self, X)
        if split.problems:
            text = f"{len(split.problems)} files cannot be read and have no row here; predict_table lists them"
            warn(text)
        return list(features_of(self.model_, split, progress=self.progress))
