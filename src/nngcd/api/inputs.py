"""The input of `CategoryDiscovery`: arrays, an `ImageTable`, a `Split`, or a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from nngcd.checking.image_table import ImageTable
from nngcd.core.config import as_values
from nngcd.core.errors import ConfigError, DataError
from nngcd.data.split import Split
from nngcd.datasets.arrays import from_arrays, plain_array
from nngcd.datasets.opening import open_dataset, open_images
from nngcd.settings import resolve

Source = ArrayLike | ImageTable | Split | str | Path


def images_of(estimator: BaseEstimator, X: Source) -> Split:  # noqa: N803 (as scikit-learn)
    """Return the images that a fitted estimator is given; labels are ignored."""
    return open_images(str(X)) if isinstance(X, (str, Path)) else split_of(estimator, X, None, is_fit=False)


def split_of(estimator: BaseEstimator, X: Source, y: ArrayLike | None, *, is_fit: bool) -> Split:  # noqa: N803
    """Return the images or features with their labels, and set the number and names of the estimator's features.

    Raises:
        DataError: labels are given for data that have their own, or an array cannot be used.
    """
    if isinstance(X, ImageTable):
        X = X.split  # noqa: N806 (as scikit-learn)
    if isinstance(X, (Split, str, Path)):
        if y is not None:
            raise DataError("y is for arrays only; a folder, table or Split has its own labels.")
        return X if isinstance(X, Split) else open_dataset(str(X))[0]
    array = check_array(plain_array(X), dtype="numeric", ensure_all_finite=False, allow_nd=True, input_name="X")
    split = from_arrays(array, y)
    if split.images is None:
        # Number and names of the features; images may be of any size.
        validate_data(estimator, X if array.ndim == 2 else array[:, 0], reset=is_fit, skip_check_array=True)
    return split


def asked_of(estimator: Any, *, effort: str) -> dict[str, Any]:  # noqa: ANN401 (a `CategoryDiscovery`)
    """Return the settings that the parameters give."""
    # Features always use quick, but an unknown effort is still an error.
    resolve({"effort": estimator.effort or "quick"})
    own = {
        "method": estimator.method, "preset": estimator.preset, "effort": effort, "k": estimator.n_categories,
        "backbone": estimator.backbone, "seed": estimator.random_state, "device": estimator.device,
    }  # fmt: skip
    further = as_values(estimator.settings)
    for name in own.keys() & further.keys():
        raise ConfigError(f"settings['{name}']", further[name], "has its own parameter; use that one")
    if not isinstance(estimator.n_categories, int | str | np.integer | type(None)):
        raise ConfigError(
            "n_categories", estimator.n_categories, "give a whole number, 'auto' or a range such as '20..60'"
        )
    return {**further, **{name: value for name, value in own.items() if value is not None}}
