from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nngcd.clustering.surroundings import Surroundings
from nngcd.core.errors import ConfigError
from nngcd.metrics.calibration import auroc, expected_calibration_error
from nngcd.results.calibrating import N_KEPT, PlainClusters, calibrate, fitted_temperature
from nngcd.results.confidence import Confidence


def drawn_scores(rng, n, k=6, n_old=3, sharpness=1.0):
    """Scores whose softmax is true: each image's class is drawn from it. Known images are surer of known classes."""
    scores = rng.normal(size=(n, k)) * 2
    scores[: n // 2, :n_old] += 3
    scores[n // 2 :, n_old:] += 3
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    classes = np.array([rng.choice(k, p=row) for row in p])
    return torch.from_numpy(scores * sharpness).float(), classes.astype(np.int64)


def apart(classes, rng, d=16):
    """Features in which each class has a place of its own."""
    centres = rng.normal(size=(int(classes.max()) + 1, d))
    return torch.from_numpy(centres[classes] + 0.1 * rng.normal(size=(len(classes), d))).float()


def no_features(scores):
    return torch.ones(len(scores), 1)


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
    features = apart(classes, rng)
    found = calibrate(scores, features, labels, is_held, n_old=3)
    rest = is_known & (labels < 0)
    best = found.probabilities(scores).max(-1)
    is_right = best.indices.numpy() == classes
    assert found.is_calibrated
    assert found.n_held_back == is_held.sum()
    assert found.n_right == is_right[is_held].sum()
    raw = torch.softmax(scores, -1).max(-1).values.numpy()
    assert expected_calibration_error(best.values.numpy()[rest], is_right[rest]) < 0.06
    assert expected_calibration_error(raw[rest], is_right[rest]) > 0.1
    judged = found.judge(scores, features, n_old=3)
    assert auroc(judged.novel_b.numpy(), ~is_known) > 0.8
    unsure = judged.right_b.numpy() < found.unsure_below
    assert np.mean(unsure[is_held]) == pytest.approx(0.05, abs=0.01)


def swallowed(rng, n=60, d=16):
    """Two known classes, half of each labelled, and a new one whose images are all in the first known cluster."""
    classes = np.repeat([0, 1, 2], n)
    features = torch.from_numpy(np.eye(d)[classes] + 0.6 * np.eye(d)[3] + 0.05 * rng.normal(size=(3 * n, d))).float()
    labels = np.where((classes < 2) & (np.arange(3 * n) % 2 == 0), classes, -1)
    scores = torch.full((3 * n, 3), -3.0)
    scores[torch.arange(3 * n), torch.from_numpy(np.where(classes == 2, 0, classes))] = 3.0
    return scores, features, labels, classes


def test_images_that_a_known_cluster_swallowed_are_told_by_the_labels_around_them(rng):
    scores, features, labels, classes = swallowed(rng)
    is_held = (labels >= 0) & (np.arange(len(labels)) % 10 == 0)
    found = calibrate(scores, features, labels, is_held, n_old=2)
    judged = found.judge(scores, features, n_old=2)
    is_open, is_new = labels < 0, classes == 2
    # The scores are the same for all of them: only what surrounds an image can tell.
    assert judged.right_b[is_open & is_new].max() < 0.5 < judged.right_b[is_open & ~is_new].min()
    assert judged.novel_b[is_open & is_new].min() > judged.novel_b[is_open & ~is_new].max()


def test_new_images_are_judged_by_the_images_of_the_run(rng):
    scores, features, labels, _ = swallowed(rng)
    found = calibrate(scores, features, labels, np.zeros(len(labels), dtype=bool), n_old=2)
    new_scores, new_features, _, new_classes = swallowed(np.random.default_rng(9))
    judged = found.judge(new_scores, new_features, n_old=2)
    assert judged.right_b[new_classes == 2].max() < judged.right_b[new_classes < 2].min()


def test_no_image_is_among_its_own_surroundings(rng):
    scores, features, labels, _ = swallowed(rng)
    found = calibrate(scores, features, labels, np.zeros(len(labels), dtype=bool), n_old=2).surroundings
    row = int(np.flatnonzero(labels == 0)[0])
    others = torch.arange(len(features)) != row
    kept = features[others], scores.argmax(-1)[others], torch.from_numpy(labels)[others]
    left_out = Surroundings.of(*kept, n_old=2, generator=torch.Generator())
    place, first = features[[row]], torch.tensor([0])
    around, without = (one.evidence(place, first) + one.share.logit() for one in (found, left_out))
    assert around == pytest.approx(float(without), abs=0.02)
    assert around == pytest.approx(float(found.evidence(place * 7, first) + found.share.logit()))


def test_a_cluster_that_a_plain_k_means_cuts_is_less_steady(rng):
    classes = np.repeat([0, 1, 2, 3], 40)
    features = torch.from_numpy(np.eye(8)[classes] + 0.02 * rng.normal(size=(160, 8))).float()
    plain = PlainClusters.of(features, 4, seed=0)
    # Training put classes 2 and 3 into one cluster and left cluster 3 empty.
    steadiness = plain.steadiness(torch.from_numpy(np.minimum(classes, 2)), 4)
    assert steadiness[0] > 0.95
    assert steadiness[2] == pytest.approx(0.5, abs=0.02)
    assert steadiness[3] == 0.5
    sure, doubtful = (Confidence(steadiness=(s,), surroundings=found_nothing()) for s in (0.95, 0.5))
    scores, one = torch.tensor([[2.0]]), torch.ones(1, 1)
    assert sure.judge(scores, one, n_old=0).right_b > doubtful.judge(scores, one, n_old=0).right_b


def found_nothing():
    """Return the surroundings of a run without a known category."""
    return calibrate(torch.zeros(3, 1), torch.ones(3, 1), np.full(3, -1), np.zeros(3, dtype=bool), n_old=0).surroundings


def test_without_held_back_labels_nothing_is_calibrated_and_the_least_sure_are_unsure(rng):
    scores, classes = drawn_scores(rng, 400)
    labels, features = np.where((classes < 3) & (np.arange(400) % 4 == 0), classes, -1), apart(classes, rng)
    found = calibrate(scores, features, labels, np.zeros(400, dtype=bool), n_old=3, unsure=0.1)
    assert (found.is_calibrated, found.temperature) == (False, 1.0)
    judged = found.judge(scores, features, n_old=3)
    assert np.mean(judged.right_b.numpy()[labels < 0] < found.unsure_below) == pytest.approx(0.1, abs=0.01)
    assert judged.novel_b.isfinite().all()


def test_without_known_categories_there_is_no_novelty(rng):
    scores, _ = drawn_scores(rng, 50)
    found = calibrate(scores, no_features(scores), np.full(50, -1), np.zeros(50, dtype=bool), n_old=0)
    judged = found.judge(scores, no_features(scores), n_old=0)
    assert judged.novel_b.isnan().all()
    assert judged.right_b.isfinite().all()


def test_without_new_categories_the_least_clear_image_is_the_least_sure():
    scores = torch.tensor([[9.0, 0.0], [0.0, 9.0], [8.0, 1.0], [1.0, 0.5]])
    labels = np.array([0, 1, 0, -1])
    found = calibrate(scores, no_features(scores), labels, np.array([True, True, True, False]), n_old=2)
    judged = found.judge(scores, no_features(scores), n_old=2)
    assert judged.right_b.argmin() == 3
    assert judged.novel_b.isfinite().all()


def test_unsure_images_are_bounded_however_strange_they_are():
    sure, doubtful = torch.tensor([[9.0, 0.0]]).repeat(100, 1), torch.tensor([[0.1, 0.0]]).repeat(900, 1)
    labels = np.array([0] * 100 + [-1] * 900)
    scores = torch.cat([sure, doubtful])
    found = calibrate(scores, no_features(scores), labels, labels == 0, n_old=1, unsure=0.05)
    judged = found.judge(doubtful, no_features(doubtful), n_old=1)
    assert np.mean(judged.right_b.numpy() < found.unsure_below) <= 0.2


@pytest.mark.parametrize("n", [4, 12, 72])
def test_unsure_images_are_bounded_also_where_there_are_few(n):
    sure, doubtful = torch.tensor([[9.0, 0.0]]).repeat(100, 1), torch.linspace(0.1, 3, n)[:, None] * torch.eye(2)[0]
    labels = np.array([0] * 100 + [-1] * n)
    scores = torch.cat([sure, doubtful])
    found = calibrate(scores, no_features(scores), labels, labels == 0, n_old=1, unsure=0.05)
    judged = found.judge(doubtful, no_features(doubtful), n_old=1)
    assert np.mean(judged.right_b.numpy() < found.unsure_below) <= 0.2


def test_images_unlike_the_training_images_are_few_among_these(rng):
    scores, classes = drawn_scores(rng, 1000)
    found = calibrate(
        scores, apart(classes, rng), np.where(classes < 3, classes, -1), np.zeros(1000, dtype=bool), n_old=3
    )
    assert found.is_unlike(scores).mean() == pytest.approx(0.02, abs=0.005)
    assert found.is_unlike(scores - 20).all()
    assert not Confidence().is_unlike(scores).any()


def test_it_is_saved_in_few_numbers_and_loaded_as_it_was(rng, tmp_path):
    scores, classes = drawn_scores(rng, 3000)
    labels = np.where(classes < 3, classes, -1)
    features = apart(classes, rng)
    found = calibrate(scores, features, labels, labels >= 0, n_old=3)
    assert len(found.sureness) == N_KEPT
    found.save(tmp_path)
    loaded = Confidence.load(tmp_path)
    assert replace(loaded, surroundings=None) == replace(found, surroundings=None)
    before, after = (one.judge(scores, features, n_old=3) for one in (found, loaded))
    assert torch.equal(before.right_b, after.right_b)
    assert (tmp_path / "confidence.json").stat().st_size < 20_000


@pytest.mark.parametrize("share", [-0.1, 1.0, 7])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(ConfigError, match=r"--unsure .* must be in \[0, 1\)"):
        Confidence().with_unsure(share)


def test_another_share_of_unsure_moves_the_limit(rng):
    scores, classes = drawn_scores(rng, 1000)
    labels = np.where(classes < 3, classes, -1)
    found = calibrate(scores, apart(classes, rng), labels, labels >= 0, n_old=3)
    assert found.with_unsure(0.0).unsure_below == 0
    assert found.with_unsure(0.2).unsure_below > found.unsure_below
    assert found.with_unsure(None) is found
