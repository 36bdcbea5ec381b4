from __future__ import annotations

import pandas as pd
import pytest

from nngcd import prediction
from nngcd.core.errors import DataError
from nngcd.datasets.arrays import from_arrays
from nngcd.pipeline import fit
from nngcd.prediction import features_of, predict_with
from nngcd.settings import resolve


@pytest.fixture
def fitted(blob_split):
    return fit(blob_split, resolve({"method": "kmeans", "k": 6}))


def test_features_stream_through_the_model_in_blocks(fitted, blob_split, monkeypatch):
    whole = predict_with(fitted.model, fitted.categories, blob_split)
    monkeypatch.setattr(prediction, "ROWS_PER_BLOCK", 100)
    assert [len(features_bd) for features_bd in features_of(fitted.model, blob_split)] == [100, 100, 40]
    pd.testing.assert_frame_equal(predict_with(fitted.model, fitted.categories, blob_split), whole)


def test_features_of_another_size_are_refused_at_once(fitted, blobs):
    with pytest.raises(DataError, match="takes 16 features, got 8"):
        features_of(fitted.model, from_arrays(blobs[0][:, :8]))
