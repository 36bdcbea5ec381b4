from __future__ import annotations

import doctest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import nngcd
from nngcd import CategoryDiscovery
from nngcd.api import estimator
from nngcd.core.errors import ConfigError, DataError, NoSuchDataError

SETTINGS = {"loss": {"n_hidden": 32, "n_projection": 16}, "training": {"epochs": 8, "batch_size": 48}}


FITTED = {}


@pytest.fixture
def fitted(blobs):
    """One for all tests of this file, which change nothing of it."""
    if not FITTED:
        FITTED["blobs"] = CategoryDiscovery(6, settings=SETTINGS).fit(*blobs[:2])
    return FITTED["blobs"]


def test_labels_start_with_the_known_classes(fitted, blobs):
    _, labels, classes = blobs
    assert (fitted.labels_[labels >= 0] == labels[labels >= 0]).all()
    assert np.mean(fitted.labels_[classes < 3] == classes[classes < 3]) > 0.9
    assert fitted.labels_.min() == 0
    assert fitted.n_categories_ == len(fitted.classes_) == 6
    assert fitted.categories_["size"].sum() == len(fitted.result_) == 240


def test_prediction_and_features(fitted, blobs):
    features, labels, _ = blobs
    probability = fitted.predict_proba(features)
    assert probability.shape == (240, 6)
    assert np.allclose(probability.sum(1), 1)
    assert (fitted.predict(features)[labels < 0] == fitted.labels_[labels < 0]).all()
    assert fitted.transform(features).shape == (240, 16)


def test_a_run_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NoSuchDataError, match=r"nothere does not exist"):
        CategoryDiscovery.load(tmp_path / "nothere")


def test_save_and_load(fitted, blobs, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = CategoryDiscovery.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(blobs[0]), fitted.predict_proba(blobs[0]))
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert not list((tmp_path / "model").glob("*.pkl"))


def test_a_run_brings_the_labels_of_its_fit_whatever_was_edited_since(nngcd, blobs, tmp_path):
    data, run = tmp_path / "blobs.npz", tmp_path / "run"
    np.savez(data, X=blobs[0], y=blobs[1])
    assert nngcd("fit", data, "--k", 6, "--method", "kmeans", "--out", run, "-q")[0] == 0
    fitted = CategoryDiscovery(6, method="kmeans").fit(*blobs[:2])
    loaded = CategoryDiscovery.load(run)
    assert loaded.labels_.tolist() == fitted.labels_.tolist()
    assert loaded.labels_.dtype == fitted.labels_.dtype == np.int64
    with loaded.edit() as edit:
        edit.split("new-001")
    assert CategoryDiscovery.load(run).labels_.tolist() == fitted.labels_.tolist()


def test_fit_predict_gives_the_labels_of_fit(blobs):
    found = CategoryDiscovery(6, method="kmeans")
    assert found.fit_predict(*blobs[:2]) is found.labels_


def test_scikit_learn_conventions(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(np.zeros((2, 16)))
    assert copy.set_params(random_state=5).random_state == 5


@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")
def test_features_take_effort_quick_whatever_is_asked_and_one_of_them_is_enough(blobs):
    features = blobs[0]
    found = CategoryDiscovery(1, effort="normal").fit(features[:1])
    assert found.model_.blueprint.effort == "quick"
    assert found.labels_.tolist() == [0]


def test_a_number_of_categories_that_is_none_is_refused_by_its_name(blobs):
    with pytest.raises(ConfigError, match=r"n_categories = \(2, 6\): give a whole number, 'auto' or a range"):
        CategoryDiscovery((2, 6)).fit(*blobs[:2])


def test_an_effort_that_does_not_exist_is_refused_for_features_too(blobs):
    with pytest.raises(ConfigError, match=r"effort = 'norml': unknown effort\. Did you mean 'normal'"):
        CategoryDiscovery(6, effort="norml").fit(*blobs[:2])


def test_the_backbone_is_that_of_the_recipe_unless_one_is_named(image_folder, monkeypatch):
    asked = []

    def stop(split, settings, **_):
        asked.append(settings.backbone)
        raise InterruptedError

    monkeypatch.setattr(estimator.pipeline, "fit", stop)
    for one in (CategoryDiscovery(), CategoryDiscovery(method="promptcal"), CategoryDiscovery(backbone="dino")):
        with pytest.raises(InterruptedError):
            one.fit(image_folder)
    assert asked == ["efficientnet_lite0", "test_vit", "dino"]


def test_novelty_is_higher_for_images_of_new_categories(fitted, blobs):
    features, _, classes = blobs
    novelty = fitted.novelty_score(features)
    assert novelty.shape == (len(features),)
    assert novelty[classes >= 3].min() > novelty[classes < 3].max()


def test_string_labels_and_every_way_to_say_unlabelled(blobs):
    features, labels, _ = blobs
    names = np.array(["ant", "bee", "cat"], dtype=object)
    y = [names[label] if label >= 0 else (None, "", np.nan, -1)[i % 4] for i, label in enumerate(labels)]
    found = CategoryDiscovery(6, method="kmeans").fit(features, np.array(y, dtype=object))
    assert found.classes_[:3].tolist() == ["ant", "bee", "cat"]


def test_a_folder_is_enough(image_folder):
    found = CategoryDiscovery(3, method="kmeans", settings={"workers": 0, "image_size": 32}).fit(image_folder)
    assert found.classes_[:2].tolist() == ["green", "red"]
    assert found.predict(image_folder / "red").tolist() == [1] * 6
    with pytest.raises(DataError, match="y is for arrays only"):
        found.fit(image_folder, [1, 2])


def test_the_example_in_the_docstring_is_true():
    assert doctest.testmod(estimator).failed == 0


def test_unknown_names_of_the_package():
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = nngcd.nothing_here


def test_settings_that_have_a_parameter_of_their_own_are_refused(blobs):
    with pytest.raises(ConfigError, match="has its own parameter"):
        CategoryDiscovery(6, settings={"seed": 5}).fit(blobs[0], blobs[1])


def test_predictions_of_a_folder_keep_their_file_names(image_folder):
    found = CategoryDiscovery(3, method="kmeans", settings={"workers": 0, "image_size": 32}).fit(image_folder)
    (image_folder / "red" / "broken.png").write_bytes(b"no picture")
    table = found.predict_table(image_folder / "red").set_index("file_name")
    assert table.loc["red_0.png", "category"] == "red"
    assert table.loc["broken.png", "status"] == "unreadable"
    with pytest.warns(UserWarning, match="1 files cannot be read"):
        assert len(found.predict(image_folder / "red")) == 6
