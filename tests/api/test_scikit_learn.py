"""The estimators keep scikit-learn's rules: its own checks, and copies that predict the same."""

from __future__ import annotations

import copy
import io
import pickle
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from nngcd import CategoryDiscovery
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans

_TENSORS = "labels_ and predictions are tensors, also of arrays; the check asks numpy about their dtype"
CANNOT_APPLY = {
    KMeans: {"check_clustering": _TENSORS, "check_fit_idempotent": _TENSORS},
    SemiSupervisedKMeans: {"check_clustering": _TENSORS, "check_fit_idempotent": _TENSORS},
    CategoryDiscovery: {"check_fit2d_1sample": "one image cannot be in 2 categories; the error counts images"},
}
"""Checks of scikit-learn that an estimator cannot pass, and why."""


class _Unlabelled:
    """Leaves out y: the checks label every row, with more classes than clusters, so that nothing is left to sort."""

    def fit(self, X, y=None):  # noqa: N803 (scikit-learn's name)
        return super().fit(X)


class UnlabelledKMeans(_Unlabelled, SemiSupervisedKMeans):
    pass


class UnlabelledDiscovery(_Unlabelled, CategoryDiscovery):
    pass


def cannot_apply(estimator):
    return next(checks for kind, checks in CANNOT_APPLY.items() if isinstance(estimator, kind))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([KMeans(2, n_init=1), UnlabelledKMeans(2, n_init=1)], expected_failed_checks=cannot_apply)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([UnlabelledDiscovery(2, method="kmeans")], expected_failed_checks=cannot_apply)
def test_scikit_learns_checks_of_the_whole_path(estimator, check):
    check(estimator)


def by_joblib(fitted):
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    return joblib.load(buffer)


COPIES = [lambda fitted: pickle.loads(pickle.dumps(fitted)), copy.deepcopy, by_joblib]
copied = pytest.mark.parametrize("copied", COPIES, ids=["pickle", "deepcopy", "joblib"])


@copied
@pytest.mark.parametrize("kind", [KMeans, SemiSupervisedKMeans])
def test_a_copy_of_k_means_predicts_the_same(kind, copied, blobs):
    features, labels, _ = blobs
    again = copied(kind(6))
    assert repr(again) == repr(kind(6))
    fitted = again.fit(features, labels)
    after = copied(fitted)
    assert torch.equal(after.predict(features), fitted.predict(features))
    assert torch.equal(after.cluster_centers_, fitted.cluster_centers_)
    assert torch.equal(after.fit(features, labels).labels_, fitted.labels_)


@copied
@pytest.mark.parametrize("method", ["kmeans", pytest.param("nngcd", marks=pytest.mark.slow)])
def test_a_copy_of_a_fitted_estimator_predicts_the_same(method, copied, blobs, tmp_path):
    features, labels, _ = blobs
    settings = {} if method == "kmeans" else {"loss": {"n_hidden": 8, "n_projection": 4}, "training": {"epochs": 1}}
    fitted = copied(CategoryDiscovery(6, method=method, settings=settings)).fit(features, labels)
    after = copied(fitted)
    assert np.array_equal(after.predict_proba(features), fitted.predict_proba(features))
    assert np.array_equal(after.transform(features), fitted.transform(features))
    assert after.predict_table(features).equals(fitted.predict_table(features))
    assert after.result_.equals(fitted.result_)
    assert after.report(tmp_path / "report.html").is_file()


@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")  # random weights
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("kmeans", {}),
        pytest.param("kmeans", {"views": {"sizes": [1, 1.5]}, "whitened_features": 4}, marks=pytest.mark.slow),
        pytest.param("sptnet", {"training": {"epochs": 1}}, marks=pytest.mark.slow),
        pytest.param("promptcal", {"training": {"epochs": 1}}, marks=pytest.mark.slow),
    ],
)
def test_an_estimator_of_images_can_be_pickled(method, settings, image_folder):
    network = {"workers": 0, "image_size": 32}
    fitted = CategoryDiscovery(3, method=method, settings=network | settings).fit(image_folder)
    after = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(after.predict_proba(image_folder), fitted.predict_proba(image_folder))
    assert after.labels_.tolist() == fitted.labels_.tolist()


def test_a_loaded_run_can_be_pickled_and_edited(nngcd, blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    code, _, err = nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "--out", tmp_path / "run", "-q")
    assert code == 0, err
    loaded = pickle.loads(pickle.dumps(CategoryDiscovery.load(tmp_path / "run")))
    with loaded.edit() as edit:
        edit.rename("new-001", "lynx")
    assert "lynx" in loaded.categories_["name"].tolist()


@pytest.mark.parametrize("kind", [partial(KMeans, 6), partial(CategoryDiscovery, 6, method="kmeans")])
def test_other_features_than_those_fitted_are_refused(kind, blobs):
    frame = pd.DataFrame(blobs[0]).add_prefix("feature ")
    fitted = kind().fit(frame, blobs[1])
    assert fitted.n_features_in_ == frame.shape[1]
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 16 features"):
        kind().fit(*blobs[:2]).predict(blobs[0][:, :3])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.add_prefix("other "))


def test_features_of_several_views_count_one_of_them(blobs):
    views = np.stack([blobs[0], blobs[0]], axis=1)
    fitted = CategoryDiscovery(6, method="kmeans").fit(views, blobs[1])
    assert fitted.n_features_in_ == 16
    assert len(fitted.predict(blobs[0])) == len(views)


def test_images_have_no_number_of_features():
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    settings = {"workers": 0, "image_size": 32}
    fitted = CategoryDiscovery(2, method="kmeans", settings=settings).fit(images, [0, 1, *[-1] * 6])
    assert not hasattr(fitted, "n_features_in_")
    assert len(fitted.predict(images[:, :24, :20])) == 8
