"""The whole path in memory and into a run folder, on features and on images."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.backbones.backbone import Adapter
from nngcd.core.config import read_yaml
from nngcd.core.errors import ConfigError, DataError, NngcdWarning
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_results
from nngcd.data.split import Truth
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset, open_images
from nngcd.pipeline import discover, fit, fit_job
from nngcd.review.session import Review
from nngcd.runs import estimation
from nngcd.runs import preparing as job
from nngcd.runs.evaluation import evaluate
from nngcd.runs.prediction import predict
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve
from nngcd.training.model import Model


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


SMALL = {"n_hidden": 32, "n_projection": 16, "sparse_weight": 1e-6}


def blob_settings(**more):
    return resolve({"data": "blobs", "k": 6, "loss": SMALL, "training": {"epochs": 5, "batch_size": 48}, **more})


def run_discover(split, truth, settings, path):
    run = RunFolder.create(path)
    discover(prepare(split, settings), truth, run, cache=None, progress=Progress())
    return run


def make_truth(classes):
    return Truth(classes=np.asarray(classes), class_names=tuple("abcdef"), n_old=3)


def test_a_backbone_is_not_used_for_features(blob_split):
    with pytest.warns(NngcdWarning, match="--backbone dinov2 is not used"):
        prepare(blob_split, blob_settings(backbone="dinov2"))


def test_training_never_sees_the_truth(blob_split, blobs, tmp_path, rng):
    """Poisoned truth: right, random, absent; every file but the score is the same to the bit."""
    truths = {"right": make_truth(blobs[2]), "random": make_truth(rng.integers(0, 6, 240)), "absent": None}
    runs = {name: run_discover(blob_split, truth, blob_settings(), tmp_path / name) for name, truth in truths.items()}
    for name in ("results.parquet", "results.csv", "categories.csv", "features.safetensors", "model/model.safetensors"):
        contents = {(run.path / name).read_bytes() for run in runs.values()}
        assert len(contents) == 1, name
    right, random = (read(runs[name].summary)["scores"]["accuracy"]["all"] for name in ("right", "random"))
    assert right > 90
    assert random < 40
    assert "scores" not in read(runs["absent"].summary)


def test_the_run_folder_is_complete_and_describes_itself(blob_split, blobs, tmp_path):
    run = run_discover(blob_split, make_truth(blobs[2]), blob_settings(), tmp_path / "run")
    summary = read(run.summary)
    assert summary["scores"]["protocol"].startswith("transductive")
    n_sorted = summary["n_unlabelled_known"] + summary["n_unlabelled_new"] + summary["n_unsure"]
    assert n_sorted == summary["n_unlabelled"] == 180
    # What was made of the features, not what was asked for: these have one size and 16 directions.
    assert (summary["n_sizes"], summary["whitened_features"]) == (1, 16)
    assert read(run.environment)["split_hash"] == blob_split.fingerprint
    assert pd.read_parquet(run.manifest)["label_given"].notna().sum() == 60
    assert not run.checkpoint.exists()
    assert len(run.read_metrics()) == 5

    results = pd.read_parquet(run.results)
    labelled = results["label_given"].notna()
    assert (results.loc[labelled, "category"] == results.loc[labelled, "label_given"]).all()
    assert set(results["status"]) - {"unsure"} == {"known", "new"}
    assert results["novelty"].between(0, 1).all()
    assert results["confidence"].between(0, 1).all()
    assert (results["confidence"] >= results["alt_1_p"])[~labelled].all()
    categories = pd.read_csv(run.categories)
    assert categories["size"].sum() == 240
    assert categories["id"].tolist() == ["0", "1", "2", "new-001", "new-002", "new-003"]
    new_sizes = categories.loc[categories["kind"] == "new", "size"].tolist()
    assert new_sizes == sorted(new_sizes, reverse=True)


@pytest.mark.slow
def test_the_written_settings_repeat_the_run(blob_split, tmp_path):
    first = run_discover(blob_split, None, blob_settings(seed=3), tmp_path / "first")
    again = run_discover(blob_split, None, resolve(read_yaml(first.config)), tmp_path / "again")
    assert first.results.read_bytes() == again.results.read_bytes()


@pytest.mark.slow
def test_a_run_on_other_labels_cannot_be_resumed(blob_split, tmp_path):
    run = RunFolder.create(tmp_path / "run")
    discover(prepare(blob_split, blob_settings()), None, run, cache=None, progress=Progress())
    run.summary.unlink()  # as if it had been killed before its last file
    labels = blob_split.labels.copy()
    labels[0] = -1
    changed = dataclasses.replace(blob_split, labels=labels)
    with pytest.raises(DataError, match=r"cannot resume.*images or labels have changed"):
        discover(prepare(changed, blob_settings()), None, run, cache=None, progress=Progress())


def test_evaluate_agrees_with_the_summary(blob_split, blobs, tmp_path):
    run = run_discover(blob_split, make_truth(blobs[2]), blob_settings(), tmp_path / "run")
    table = pd.DataFrame({"file_name": blob_split.table["file_name"], "label": blobs[2]})
    table.to_csv(tmp_path / "truth.csv", index=False)
    found = evaluate(run, tmp_path / "truth.csv")
    trust = found.pop("confidence")
    assert (found.pop("is_reviewed"), found.pop("n_rejected")) == (False, 0)
    assert found == read(run.summary)["scores"]
    assert (trust["known"]["n"], trust["new"]["n"]) == (60, 120)
    assert trust["novelty_auroc"] > 0.95


def test_evaluate_counts_the_edits_of_a_review(blob_split, blobs, tmp_path):
    run = run_discover(blob_split, None, blob_settings(), tmp_path / "run")
    table = pd.DataFrame({"file_name": blob_split.table["file_name"], "label": blobs[2]})
    table.to_csv(tmp_path / "truth.csv", index=False)
    before = evaluate(run, tmp_path / "truth.csv")
    free = read_results(run)
    free = free[free["label_given"].isna()]
    new = free.loc[free["category"] == "new-001", "image_id"].to_list()
    review = Review(run)
    review.move(new[:10], to="0")
    review.reject(new[10:13])
    after = evaluate(run, tmp_path / "truth.csv")
    assert (after["is_reviewed"], after["n_rejected"], after["n_scored"]) == (True, 3, before["n_scored"] - 3)
    assert after["by_name"]["all"] < before["by_name"]["all"]
    assert after["called_known"]["precision"] < before["called_known"]["precision"]
    assert after["confidence"] == before["confidence"]
    assert evaluate(run, tmp_path / "truth.csv", use_review=False) == before


def test_evaluate_without_a_fitting_truth_says_so(blob_split, blobs, tmp_path):
    features, labels, _ = blobs
    np.savez(tmp_path / "blobs.npz", X=features, y=labels)
    settings = blob_settings(data=str(tmp_path / "blobs.npz"))
    run = run_discover(blob_split, None, settings, tmp_path / "run")
    with pytest.raises(DataError, match=r"not known.*--truth"):
        evaluate(run)
    (tmp_path / "other.csv").write_text("file_name,label\nelsewhere.png,a\n")
    with pytest.raises(DataError, match="none of the run's unlabelled images"):
        evaluate(run, tmp_path / "other.csv")
    run.results.unlink()
    with pytest.raises(DataError, match="not finished"):
        evaluate(run)


def test_impossible_numbers_of_categories_are_refused_at_once(blob_split, blobs):
    with pytest.raises(ConfigError, match="must be at least 3, the number of labelled categories"):
        fit(blob_split, blob_settings(k=2))
    with pytest.raises(ConfigError, match="must be at most 240, the number of images"):
        fit(blob_split, blob_settings(k=241))
    with pytest.raises(DataError, match="D06"):
        fit(from_arrays(blobs[0], blobs[2]), blob_settings())


def test_a_resumed_run_keeps_the_number_it_began_with(blob_split, tmp_path, monkeypatch):
    settings = blob_settings(k="auto", method="kmeans", loss={"split_at_end": False}, training={})
    run = RunFolder.create(tmp_path / "run")
    first = fit(blob_split, settings, run=run)
    assert first.k_estimate.k == first.scores_nk.shape[1] == 6

    def again(*args, **kwargs):
        raise AssertionError("estimated a second time")

    monkeypatch.setattr(estimation, "estimated_k", again)
    assert fit(blob_split, settings, run=run).k_estimate == first.k_estimate
    (run.k).write_text("{}")
    with pytest.raises(DataError, match="is damaged"):
        fit(blob_split, settings, run=run)


def test_a_range_holds_the_estimate_and_a_published_number_needs_none(blob_split):
    within = fit(blob_split, blob_settings(k="4..5", method="kmeans", loss={}, training={}))
    assert within.k_estimate.k in (4, 5)
    assert within.scores_nk.shape[1] == within.k_estimate.k
    published = dataclasses.replace(blob_split, n_classes=6)
    assert fit(published, blob_settings(k=None, method="kmeans", loss={}, training={})).k_estimate is None


def test_features_with_views_of_their_own_are_used_as_they_are(blobs, rng):
    features, labels, classes = blobs
    views = features[:, None] + rng.normal(size=(240, 3, 16)).astype(np.float32) * 0.1
    fitted = fit(from_arrays(views, labels), blob_settings())
    assert np.mean(fitted.scores_nk.argmax(-1).numpy()[classes < 3] == classes[classes < 3]) > 0.9


def test_an_unbounded_regulariser_is_announced(blob_split):
    with pytest.warns(NngcdWarning, match="weight"):
        fit(blob_split, blob_settings(loss=SMALL | {"sparse_weight": 1e-3}))


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["quick", "normal", "full"])
def test_images_end_to_end(image_folder, tmp_path, effort):
    """Real pictures through a real backbone; new pictures get the names of known categories."""
    (image_folder / "_unlabelled" / "broken.png").write_bytes(b"not a picture")
    split, truth = open_dataset(str(image_folder))
    settings = resolve(
        {
            "data": str(image_folder), "k": 3, "effort": effort, "workers": 0, "image_size": 32, "loss": SMALL,
            "training": {"epochs": 40, "batch_size": 12, "learning_rate": 0.1},
        }
    )  # fmt: skip
    run = run_discover(split, truth, settings, tmp_path / "run")
    results = pd.read_csv(run.results_csv).set_index("file_name")
    for colour in ("red", "green"):
        assert (results.loc[[f"_unlabelled/{colour}_{i}.png" for i in range(6)], "category"] == colour).all()
    assert pd.read_csv(run.problems)["file_name"].tolist() == ["_unlabelled/broken.png"]

    predicted = predict(run, open_images(str(image_folder)), workers=0).set_index("file_name")
    same = results.index
    assert (predicted.loc[same, "category"][results["label_given"].isna()] ==
            results["category"][results["label_given"].isna()]).all()  # fmt: skip
    assert predicted.loc["_unlabelled/broken.png", "status"] == "unreadable"


class Stages(Progress):
    def __init__(self):
        self.stages = []

    def start(self, stage, total):
        self.stages.append(stage)


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [1, 2])
def test_a_block_that_rests_and_is_then_trained_is_resumed_and_loaded_to_the_bit(
    image_folder, tmp_path, stop_after, n_before
):
    split, _ = open_dataset(str(image_folder))
    values = {"data": str(image_folder), "k": 3, "effort": "normal", "workers": 0, "image_size": 32, "loss": SMALL}
    settings = resolve(values | {"training": {"epochs": 3, "batch_size": 12}})
    assert (settings.whitened_features, settings.training.resting_epochs) == (256, 2)
    unbroken, run = fit(split, settings), RunFolder.create(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(split, settings, run=run, progress=stop_after(n_before))
    assert len(run.read_metrics()) == n_before
    told = Stages()
    resumed = fit(split, settings, run=run, progress=told)
    # What the resting block gives is not computed for a run that has no resting epoch left.
    assert ("resting block" in told.stages) == (n_before < 2)
    assert len(run.read_metrics()) == 3
    assert torch.equal(resumed.scores_nk, unbroken.scores_nk)
    resumed.model.save(tmp_path / "model", resumed.categories)
    loaded, _ = Model.load(tmp_path / "model")
    assert loaded.blueprint.sizes == settings.views.sizes
    side = loaded.backbone.preprocessing.image_size
    images = torch.linspace(-1, 1, 2 * 3 * side * side).reshape(2, 3, side, side)
    ours, theirs = (model.backbone.tail(model.backbone.trunk(images)) for model in (resumed.model, loaded))
    assert torch.equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("effort", "precision"), [("quick", "32-true"), ("normal", "bf16-mixed")])
def test_online_views_with_whitened_features_end_to_end(image_folder, tmp_path, effort, precision):
    """No view is kept: those drawn in every epoch are whitened, and the trunk computes in what was asked for."""
    split, _ = open_dataset(str(image_folder))
    values = {"data": str(image_folder), "k": 3, "effort": effort, "workers": 0, "image_size": 32, "loss": SMALL}
    # Several sizes in emulated half precision would take a minute.
    views = {"per_image": "online"} | ({"sizes": [1]} if precision == "bf16-mixed" else {})
    online = {"views": views, "precision": precision, "training": {"epochs": 2, "batch_size": 12}}
    prepared = prepare(split, resolve(values | online | {"whitened_features": 8}))
    found = fit_job(prepared, run=None, cache=tmp_path / "cache", progress=Progress())
    assert not list(tmp_path.rglob("*.npy"))
    assert found.model.backbone.trunk.precision == prepared.backbone.trunk.precision == precision
    assert found.features_nd.shape == (len(split), 8)
    category_n = np.array(found.categories)[found.scores_nk.argmax(-1)]
    for colour in split.class_names:
        assert set(category_n[split.table["file_name"].str.contains(colour)]) == {colour}


@pytest.mark.slow
def test_a_method_that_does_not_train_needs_the_centre_view_only(image_folder, tmp_path):
    split, truth = open_dataset(str(image_folder))
    values = {"data": str(image_folder), "k": 3, "effort": "normal", "workers": 0, "image_size": 32, "method": "kmeans"}
    run = RunFolder.create(tmp_path / "run")
    discover(prepare(split, resolve(values)), truth, run, cache=tmp_path / "cache", progress=Progress())
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 1


def test_a_model_of_features_refuses_images_and_other_features(blob_split, tmp_path, rng):
    run = run_discover(blob_split, None, blob_settings(), tmp_path / "run")
    pictures = from_arrays(rng.integers(0, 255, size=(4, 8, 8, 3)).astype(np.uint8))
    with pytest.raises(DataError, match="trained on features and cannot label images"):
        predict(run, pictures)
    with pytest.raises(DataError, match="needs 16 features per image, got 5"):
        predict(run, from_arrays(rng.normal(size=(4, 5))))
    same = predict(run, blob_split)
    unlabelled = ~blob_split.is_labelled
    assert (same["category"][unlabelled] == pd.read_parquet(run.results)["category"][unlabelled]).all()


def test_a_newer_model_format_is_refused(blob_split, tmp_path):
    run = run_discover(blob_split, None, blob_settings(method="kmeans", loss={}), tmp_path / "run")
    facts = read(run.model / "config.json")
    (run.model / "config.json").write_text(json.dumps(facts | {"format": 99, "brand_new": 1}))
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        predict(run, blob_split)
    (run.path / "digests.json").unlink()
    with pytest.raises(DataError, match="newer nngcd"):
        predict(run, blob_split)


def test_global_random_state_is_left_alone(blob_split):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    fit(blob_split, blob_settings())
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_known_category_without_a_labelled_image_is_named_before_the_work_begins(blob_split):
    labels = np.where(blob_split.labels == 1, -1, blob_split.labels)
    with pytest.raises(DataError, match=r"1 of the 3 known categories .* have no labelled image, for example '1'"):
        prepare(dataclasses.replace(blob_split, labels=labels), blob_settings())


def test_the_time_of_a_resumed_run_counts_its_earlier_epochs(blob_split, tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run.append_metrics({"epoch": 0, "seconds": 5000.0, "processor_seconds": 4000.0})
    discover(prepare(blob_split, blob_settings()), None, run, cache=None, progress=Progress())
    summary = read(run.summary)
    assert 5000 < summary["seconds"] < 5600
    assert 4000 < summary["processor_seconds"]["fit"] < 5200
    assert summary["processor_seconds"]["views"] < 60


def test_training_never_sees_the_labels_that_are_held_back(blob_split, monkeypatch):
    """Poisoned: wrong labels in the place of held-back ones change nothing but the accuracy on them."""
    is_held = prepare(blob_split, blob_settings()).is_held_back
    assert is_held.sum() == 12
    monkeypatch.setattr(job, "hold_back", lambda *args, **kwargs: is_held)
    wrong = dataclasses.replace(blob_split, labels=np.where(is_held, (blob_split.labels + 1) % 3, blob_split.labels))
    right, poisoned = fit(blob_split, blob_settings()), fit(wrong, blob_settings())
    assert torch.equal(right.scores_nk, poisoned.scores_nk)
    assert torch.equal(right.features_nd, poisoned.features_nd)
    assert (right.confidence.n_right, poisoned.confidence.n_right) == (12, 0)


def test_a_benchmark_holds_nothing_back_and_calls_nothing_unsure(blob_split):
    published = dataclasses.replace(blob_split, n_classes=6)
    found = fit(published, blob_settings(method="kmeans", loss={}, training={}))
    assert (found.confidence.is_calibrated, found.confidence.temperature) == (False, 1.0)
    assert found.confidence.unsure_below == 0


def test_features_that_are_brought_have_no_block_that_rests(blob_split):
    settings = blob_settings(effort="normal", training={"epochs": 3, "batch_size": 60}, preset="default")
    assert settings.training.resting_epochs == 2
    fitted = fit(blob_split, settings)
    adapter = next(part for part in fitted.model.backbone.tail.modules() if isinstance(part, Adapter))
    assert not torch.equal(adapter.weight, torch.eye(len(adapter.weight)))
    assert torch.isfinite(fitted.scores_nk).all()
