from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.confidence import N_KEPT, Confidence, calibrate, fitted_temperature
from nngcd.core.errors import ConfigError
from nngcd.metrics.calibration import auroc, expected_calibration_error


def drawn_scores(rng, n, k=6, n_old=3, sharpness=1.0):
    """Scores whose softmax is true: each image's class is drawn from it. Known images are surer of known classes."""
    scores = rng.normal(size=(n, k)) * 2
    scores[: n // 2, :n_old] += 3
    scores[n // 2 :, n_old:] += 3
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    classes = np.array([rng.choice(k, p=row) for row in p])
    return torch.from_numpy(scores * sharpness).float(), classes.astype(np.int64)


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_the_temperature_undoes_scores_that_are_too_sharp_or_too_flat(rng, sharpness):
    scores, classes = drawn_scores(rng, 3000, sharpness=sharpness)
    assert fitted_temperature(scores, classes) == pytest.approx(sharpness, rel=0.1)


def test_few_labels_that_are_all_right_do_not_make_every_image_certain():
    scores = torch.eye(4).repeat(3, 1) * 2
    labels = np.tile(np.arange(4), 3).astype(np.int64)
    alone = torch.softmax(scores / fitted_temperature(scores, labels), -1).max(-1).values
    assert float(alone[0]) < 0.95
    many = fitted_temperature(scores.repeat(200, 1), np.tile(labels, 200))
    assert float(torch.softmax(scores / many, -1).max()) > 0.99


def test_calibration_on_held_back_labels_holds_for_the_others(rng):
    scores, classes = drawn_scores(rng, 4000, sharpness=3.0)
    is_known = classes < 3
    labels = np.where(is_known & (rng.random(4000) < 0.3), classes, -1)
    is_held = (labels >= 0) & (rng.random(4000) < 0.3)
    found = calibrate(scores, labels, is_held, n_old=3)
    rest = is_known & (labels < 0)
    best = found.probabilities(scores).max(-1)
    is_right = best.indices.numpy() == classes
    assert found.is_calibrated
    assert found.n_held_back == is_held.sum()
    assert found.n_right == is_right[is_held].sum()
    raw = torch.softmax(scores, -1).max(-1).values.numpy()
    assert expected_calibration_error(best.values.numpy()[rest], is_right[rest]) < 0.06
    assert expected_calibration_error(raw[rest], is_right[rest]) > 0.1
    novelty = found.novelty(scores, 3)
    assert auroc(novelty, ~is_known) > 0.8
    # Held-back images are known ones, so they spread evenly over the percentiles.
    assert np.mean(novelty[is_held] < 0.5) == pytest.approx(0.5, abs=0.05)
    unsure = best.values.numpy() < found.unsure_below
    assert np.mean(unsure[is_held]) == pytest.approx(0.05, abs=0.01)


def test_without_held_back_labels_nothing_is_calibrated_and_the_least_sure_are_unsure(rng):
    scores, classes = drawn_scores(rng, 400)
    labels = np.where((classes < 3) & (np.arange(400) % 4 == 0), classes, -1)
    found = calibrate(scores, labels, np.zeros(400, dtype=bool), n_old=3, unsure=0.1)
    assert (found.is_calibrated, found.temperature) == (False, 1.0)
    sure = found.probabilities(scores[torch.from_numpy(labels < 0)]).max(-1).values.numpy()
    assert np.mean(sure < found.unsure_below) == pytest.approx(0.1, abs=0.01)
    assert np.isfinite(found.novelty(scores, 3)).all()


def test_without_known_categories_there_is_no_novelty(rng):
    scores, _ = drawn_scores(rng, 50)
    found = calibrate(scores, np.full(50, -1), np.zeros(50, dtype=bool), n_old=0)
    assert np.isnan(found.novelty(scores, 0)).all()


def test_without_new_categories_novelty_is_the_distance_from_the_known_ones():
    scores = torch.tensor([[9.0, 0.0], [0.0, 9.0], [8.0, 1.0], [1.0, 0.5]])
    labels = np.array([0, 1, 0, -1])
    found = calibrate(scores, labels, np.array([True, True, True, False]), n_old=2)
    assert found.novelty(scores, 2).argmax() == 3


def test_unsure_images_are_bounded_however_strange_they_are():
    sure, doubtful = torch.tensor([[9.0, 0.0]]).repeat(100, 1), torch.tensor([[0.1, 0.0]]).repeat(900, 1)
    labels = np.array([0] * 100 + [-1] * 900)
    found = calibrate(torch.cat([sure, doubtful]), labels, labels == 0, n_old=1, unsure=0.05)
    confidences = found.probabilities(doubtful).max(-1).values.numpy()
    assert np.mean(confidences < found.unsure_below) <= 0.2


@pytest.mark.parametrize("n", [4, 12, 72])
def test_unsure_images_are_bounded_also_where_there_are_few(n):
    sure, doubtful = torch.tensor([[9.0, 0.0]]).repeat(100, 1), torch.linspace(0.1, 3, n)[:, None] * torch.eye(2)[0]
    labels = np.array([0] * 100 + [-1] * n)
    found = calibrate(torch.cat([sure, doubtful]), labels, labels == 0, n_old=1, unsure=0.05)
    assert np.mean(found.probabilities(doubtful).max(-1).values.numpy() < found.unsure_below) <= 0.2


def test_images_unlike_the_training_images_are_few_among_these(rng):
    scores, classes = drawn_scores(rng, 1000)
    found = calibrate(scores, np.where(classes < 3, classes, -1), np.zeros(1000, dtype=bool), n_old=3)
    assert found.is_unlike(scores).mean() == pytest.approx(0.02, abs=0.005)
    assert found.is_unlike(scores - 20).all()
    assert not Confidence().is_unlike(scores).any()


def test_it_is_saved_in_few_numbers_and_loaded_as_it_was(rng, tmp_path):
    scores, classes = drawn_scores(rng, 3000)
    labels = np.where(classes < 3, classes, -1)
    found = calibrate(scores, labels, labels >= 0, n_old=3)
    assert len(found.known_novelty) == N_KEPT
    found.save(tmp_path)
    assert Confidence.load(tmp_path) == found
    assert Confidence.load(tmp_path / "of an older version") == Confidence()
    assert (tmp_path / "confidence.json").stat().st_size < 20_000


@pytest.mark.parametrize("share", [-0.1, 1.0, 7])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(ConfigError, match=r"--unsure .* must be in \[0, 1\)"):
        Confidence().with_unsure(share)


def test_another_share_of_unsure_moves_the_limit(rng):
    scores, classes = drawn_scores(rng, 1000)
    labels = np.where(classes < 3, classes, -1)
    found = calibrate(scores, labels, labels >= 0, n_old=3)
    assert found.with_unsure(0.0).unsure_below == 0
    assert found.with_unsure(0.2).unsure_below > found.unsure_below
    assert found.with_unsure(None) is found
