"""`CategoryDiscovery`: the scikit-learn style door to everything the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nngcd.confidence import Confidence
from nngcd.core import digests
from nngcd.core.device import choose_device
from nngcd.core.errors import ConfigError, DataError, UserError, warn
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_results
from nngcd.datasets import open_dataset, open_images
from nngcd.datasets.arrays import from_arrays, plain_array
from nngcd.datasets.split import Split
from nngcd.image_table import ImageTable
from nngcd.pipeline import fit
from nngcd.prediction import Predictor, features_of, predict_with
from nngcd.report import MAX_IMAGES, findings_from_fit, write_report
from nngcd.results import category_table, describe, move_facts, results_of
from nngcd.review.edit_block import EditBlock
from nngcd.review.reviewed import reviewed_results
from nngcd.run_files import MODEL_FILES
from nngcd.settings import resolve, to_values
from nngcd.training.model import Model

Source = ArrayLike | ImageTable | Split | str | Path


class CategoryDiscovery(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Sorts partly labelled images, or features of images, into known and newly discovered categories.

    It follows scikit-learn's rules, and can be copied and pickled. To keep a model or hand it on, use `save`: loading
    it cannot run code.

    Example:
        >>> import numpy as np
        >>> from nngcd import CategoryDiscovery
        >>> X = np.random.default_rng(0).normal(size=(60, 8)) + 5 * np.eye(8)[np.arange(60) % 3]
        >>> y = np.where(np.arange(60) % 3 == 0, 0, -1)  # -1 = unlabelled
        >>> discovery = CategoryDiscovery(n_categories=3, method="kmeans").fit(X, y)
        >>> discovery.categories_["kind"].tolist()
        ['known', 'new', 'new']

    Args:
        n_categories: K, known and new together: a number, "auto" (estimated) or "A..B" (estimated within these). None:
            the published number of a benchmark data set, otherwise auto.
        method: name of a file in `nngcd/methods`.
        preset: default, paper or official.
        effort: quick, normal or full; features always take quick.
        backbone: name of a file in `nngcd/backbones` or of a timm model; None: the recipe's, for most methods
            efficientnet_lite0. Not used for features.
        settings: any further settings, nested as in config.yaml, for example `{"training": {"epochs": 50}}`.
        random_state: the seed.
        device: auto, cpu, cuda or mps.
        cache: folder in which the features of images are kept for later fits.
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
        self.cache = cache
        self.progress = progress

    def fit(self, X: Source, y: ArrayLike | None = None) -> CategoryDiscovery:  # noqa: N803 (as scikit-learn)
        """Learn the categories.

        Args:
            X: features (n, d), uint8 images (n, h, w[, 3]), an `ImageTable`, a `Split`, or a path as for `nngcd fit`.
            y: labels of any kind, with -1, None, NaN or "" for unlabelled; only with arrays.
        """
        # Features take quick whatever is asked, but not an effort that does not exist.
        resolve({"effort": self.effort or "quick"})
        split = self._split(X, y, reset=True)
        effort = "quick" if split.images is None else self.effort
        own = {
            "method": self.method, "preset": self.preset, "effort": effort, "k": self.n_categories,
            "backbone": self.backbone, "seed": self.random_state, "device": self.device,
        }  # fmt: skip
        further = self.settings or {}
        for name in own.keys() & further.keys():
            raise ConfigError(f"settings['{name}']", further[name], "has a parameter of its own; use that")
        cache = Path(self.cache) if self.cache else None
        if not isinstance(self.n_categories, int | str | np.integer | type(None)):
            raise ConfigError(
                "n_categories", self.n_categories, "give a whole number, 'auto' or a range such as '20..60'"
            )
        settings = resolve({**further, **{name: value for name, value in own.items() if value is not None}})
        fitted = fit(split, settings, cache=cache, progress=self.progress)
        self._keep(fitted.model, fitted.categories, fitted.confidence)
        self.k_estimate_ = fitted.k_estimate
        self.result_ = results_of(split, fitted)
        self._facts = describe(split, self.result_, fitted.features_nd) | move_facts(split, fitted)
        self.categories_ = category_table(self.result_, split, fitted.categories, self._facts)
        # A labelled image keeps its label whatever its scores say.
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
        """Return the probability that each image is of no known category; NaN where none is known."""
        check_is_fitted(self, "model_")
        features_nd = torch.cat([features_bd.cpu() for features_bd in self._features(X)])
        scores_nk, n_old = self.model_.scores(features_nd.to(self.model_.device)).cpu(), self.model_.blueprint.n_old
        novelty: NDArray[np.float64] = self.confidence_.judge(scores_nk, features_nd, n_old=n_old).novel_b.numpy()
        return novelty

    def predict_table(self, X: Source) -> pd.DataFrame:  # noqa: N803 (as scikit-learn)
        """Return one row per image: file name, category, known or new, confidence; unreadable files come last."""
        check_is_fitted(self, "model_")
        model = self.model_.to(choose_device(self.device))
        predictor = Predictor(model=model, categories=list(self.classes_), confidence=self.confidence_)
        return predict_with(predictor, self._images(X), progress=self.progress)

    def transform(self, X: Source) -> NDArray[np.float32]:  # noqa: N803 (as scikit-learn)
        """Return the learned features."""
        check_is_fitted(self, "model_")
        features: NDArray[np.float32] = torch.cat([part.cpu() for part in self._features(X)]).numpy()
        return features

    def report(self, path: str | Path = "report.html", *, max_images: int = MAX_IMAGES) -> Path:
        """Write one HTML page about what `fit` found (see `nngcd report`), and return where it is.

        Raises:
            DataError: the model was loaded, so the images it was fitted on are not at hand.
        """
        check_is_fitted(self, "model_")
        if not hasattr(self, "_seen"):
            raise DataError("a loaded model knows nothing of the images it was fitted on. Use `nngcd report RUN`.")
        split, features_nd, settings = self._seen
        found = findings_from_fit(
            split, self.result_, self.categories_, features_nd, settings=settings, k_estimate=self.k_estimate_,
            facts=self._facts,
        )  # fmt: skip
        return write_report(found, Path(path), max_images=max_images, progress=self.progress).path

    def edit(self, *, user: str | None = None) -> EditBlock:
        """Correct the categories; every edit is kept in the run folder (docs/review.md) and can be undone.

        Edits are made in a block, `with discovery.edit() as e:`; `result_` and `categories_` follow when it ends.

        Raises:
            UserError: there is no run folder to keep the edits in; `load` the run folder that `nngcd fit` made.
        """
        run = getattr(self, "run_", None)
        if run is None:
            raise UserError(
                "edits are kept in a run folder, and this estimator has none: fit with `nngcd fit DATA --out RUN`, "
                'then CategoryDiscovery.load("RUN").'
            )
        return EditBlock(run, user=user, on_end=lambda: self._show_review(run))

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

        Args:
            folder: a saved model, or a run folder, which also brings `labels_` as the run found them, and `result_`,
                `categories_` and `edit`, which follow the edits made since.

        Raises:
            NoSuchDataError: there is no such folder.
            DataError: the run is not finished, or the model is missing or damaged.
        """
        folder = Path(folder)
        has_run = not folder.is_dir() or RunFolder(folder).config.is_file()
        run = RunFolder.open(folder) if has_run else None
        if run:
            run.check_complete()
        model_folder = run.model if run else folder
        model, categories = Model.load(model_folder)
        blueprint = model.blueprint
        estimator = cls(
            blueprint.n_clusters, method=blueprint.method, effort=blueprint.effort, backbone=blueprint.backbone
        )
        estimator._keep(model, categories, Confidence.load(model_folder))
        if run:
            estimator.run_ = run
            # Not from `result_`: edits make categories that `classes_` and the model do not have.
            found = read_results(run)["category"]
            estimator.labels_ = pd.Index(estimator.classes_).get_indexer(found).astype(np.int64)
            estimator._show_review(run)
        return estimator

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
        split = self._images(X)
        if split.problems:
            text = f"{len(split.problems)} files cannot be read and have no row here; predict_table names them"
            warn(text)
        return list(features_of(self.model_, split, progress=self.progress))

    def _images(self, X: Source) -> Split:  # noqa: N803 (as scikit-learn)
        return open_images(str(X)) if isinstance(X, (str, Path)) else self._split(X, None, reset=False)

    def _split(self, X: Source, y: ArrayLike | None, *, reset: bool) -> Split:  # noqa: N803 (as scikit-learn)
        if isinstance(X, ImageTable):
            X = X.split  # noqa: N806 (as scikit-learn)
        if isinstance(X, (Split, str, Path)):
            if y is not None:
                raise DataError("y goes with arrays only; a folder, table or Split brings its own labels.")
            return X if isinstance(X, Split) else open_dataset(str(X))[0]
        array = check_array(plain_array(X), dtype="numeric", ensure_all_finite=False, allow_nd=True, input_name="X")
        split = from_arrays(array, y)
        if split.images is None:
            # Number and names of the features; images may be of any size.
            validate_data(self, X if array.ndim == 2 else array[:, 0], reset=reset, skip_check_array=True)
        return split
