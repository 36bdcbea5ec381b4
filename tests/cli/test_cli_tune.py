"""`nngcd study tune` as a person meets it, on some of the digits in two epochs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from nngcd.core.config import merge, read_yaml
from nngcd.datasets import digits
from nngcd.research.tuning import possible_in, read_candidates

CANDIDATES = """
one: {loss: {entropy_weight: 1.0}}
two: {loss: {entropy_weight: 4.0}, views: {recipe: two-random}}
three: {loss: {entropy_weight: 0.0}, training: {learning_rate: 0.5}}
"""
SMALL = ["--smoke", "--image-size", 32, "--workers", 0, "--set", "loss.n_hidden=32", "--set", "loss.n_projection=16"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def tune(nngcd, tmp_path, cache):
    (tmp_path / "candidates.yaml").write_text(CANDIDATES)

    def run(*more, out="tune"):
        return nngcd(
            "study", "tune", "digits", "--candidates", tmp_path / "candidates.yaml", "--seeds", "0-1", *SMALL,
            "--out", tmp_path / out, "--cache", cache, *more,
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_every_method_gets_every_candidate_and_the_choice_is_a_config(tune, tmp_path):
    code, said, err = tune("--method", "simgcd,nngcd", "--final")
    assert code == 0, err
    assert "[12/12] nngcd-three, seed 1" in said
    assert "| candidate | hidden All | hidden Old | hidden New | real All | real Old | real New |" in said
    assert "No label of an unlabelled image is read" in said
    assert "Rank correlation (Spearman) of hidden and real All over 6 candidates" in said
    table = pd.read_csv(tmp_path / "tune" / "tune.csv")
    assert len(table) == 2 * 3 * (2 + 2)
    hidden = table[table["run"].str.contains("hidden")].groupby("variant")["all"].mean()
    for method in ("simgcd", "nngcd"):
        best = hidden[hidden.index.str.startswith(method)].idxmax().removeprefix(f"{method}-")
        assert f"Chosen for {method}: {best}." in said
        chosen = read_yaml(tmp_path / "tune" / f"chosen-{method}.yaml")
        # With what all runs had, so that the file alone gives the settings that were tried.
        assert {chosen.pop(name) for name in ("method", "preset", "effort")} == {method, "official", "quick"}
        shared = {"image_size": 32, "loss": {"n_hidden": 32, "n_projection": 16}}
        assert chosen == merge(shared, read_yaml(tmp_path / "candidates.yaml")[best])


@pytest.mark.slow
def test_poisoned_truth_gives_the_same_choice_and_the_same_scores(tune, tmp_path, monkeypatch):
    few = ("--method", "nngcd", "--seeds", 0)
    assert tune(*few)[0] == 0
    load = digits.load

    def poisoned(*args, **options):
        split, truth = load(*args, **options)
        wrong = np.random.default_rng(0).permutation(truth.classes)
        return split, dataclasses.replace(truth, classes=np.where(split.is_labelled, truth.classes, wrong))

    monkeypatch.setattr(digits, "load", poisoned)
    code, said, _ = tune(*few, "--json", out="poisoned")
    assert code == 0
    names = ("chosen-nngcd.yaml", "tune.md")
    first, second = ([(tmp_path / out / name).read_text() for name in names] for out in ("tune", "poisoned"))
    assert first == second
    assert json.loads(said)["chosen"][0]["settings"] == read_yaml(tmp_path / "poisoned" / "chosen-nngcd.yaml")


@pytest.mark.slow
def test_a_run_on_hidden_classes_has_the_labelled_images_only_and_can_be_scored_and_looked_at(
    nngcd, image_folder, tmp_path, cache
):
    """Of 6 red and 6 green pictures one colour is hidden, and 3 labels of the other; the 18 unlabelled are left out."""
    run = tmp_path / "run"
    code, _, err = nngcd(
        "fit", image_folder, "--method", "kmeans", "--set", "reading.hide_classes=0.5", "--image-size", 32,
        "--workers", 0, "--no-report", "--out", run, "--cache", cache, "-q",
    )  # fmt: skip
    assert code == 0, err
    results = pd.read_csv(run / "results.csv")
    assert (len(results), results["label_given"].notna().sum()) == (12, 3)
    scores = json.loads(nngcd("evaluate", run, "--json")[1])
    assert (scores["n_scored"], scores["n_true_classes"]) == (9, 2)
    assert scores["protocol"].startswith("proxy")
    assert scores["accuracy"] == json.loads((run / "summary.json").read_text())["scores"]["accuracy"]
    code, said, err = nngcd("report", run, "--out", tmp_path / "page.html")
    assert code == 0, err
    assert "12 thumbnails" in said


def test_our_own_candidates_are_those_that_the_effort_can_have():
    ours = read_candidates(None)
    assert {*ours} - {*possible_in("full", ours)} == {"two-sizes", "two-sizes-both", "three-sizes-both"}
    assert possible_in("quick", ours) == possible_in("normal", ours) == ours


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")
def test_a_candidate_that_the_network_cannot_have_does_not_stop_the_others(nngcd, tmp_path, cache):
    code, said, err = nngcd(
        "study", "tune", "digits", "--backbone", "test_vit", "--weights", "random", "--values", "as-is,two-sizes",
        *SMALL[:1], "--workers", 0, "--seeds", "0", "--out", tmp_path / "tune", "--cache", cache,
    )  # fmt: skip
    assert code == 2
    assert "Chosen for nngcd: as-is." in said
    assert "failed: nngcd-two-sizes, seed 0: views.sizes" in err


def test_mistakes_are_told_before_the_first_run(tune, nngcd, tmp_path):
    assert "unknown candidate. Did you mean 'three'?" in tune("--values", "tree")[2]
    (tmp_path / "candidates.yaml").write_text("one: 3\n")
    assert "give a group of settings" in tune()[2]
    (tmp_path / "candidates.yaml").write_text("")
    assert "--candidates" in tune()[2]
    (tmp_path / "candidates.yaml").write_text("1: {}\n0.5: {}\n")
    assert "unknown candidate" in tune("--values", "2")[2]
    assert "Choose from: 1, 0.5" in tune("--values", "2")[2]
    (tmp_path / "candidates.yaml").write_text("one: {loss: {entropy_wait: 1}}\n")
    said = " ".join(tune()[2].split())
    assert f"--candidates {tmp_path / 'candidates.yaml'}, one, loss.entropy_wait = 1" in said
    assert "entropy_weight" in said
    assert "--candidates" not in tune("--set", "loss.entropy_wait=1")[2]
    assert not (tmp_path / "tune").exists()
    code, _, said = nngcd("study", "ablation", "digits", "--final")
    assert code == 2
    assert "is only for `nngcd study tune`" in said


@pytest.mark.parametrize(
    ("candidate", "said"),
    [("one: {reading: {hide_classes: 0.0}}", "reading"), ("one: {k: 20}", "k"), ("one: {seed: 7}", "seed"),
     ("one: {data: cub}", "data"), ("one: {method: kmeans}", "method"), ("../../one: {}", "cannot be used as the name"),
     ("'': {}", "cannot be used as the name"), ("'a,b': {}", "cannot be used as the name")],
)  # fmt: skip
def test_a_candidate_cannot_change_the_task_it_is_judged_by(tune, tmp_path, candidate, said):
    """With `hide_classes: 0` the choice was made on the truth, and the table said the opposite."""
    (tmp_path / "candidates.yaml").write_text(candidate)
    code, _, err = tune()
    assert code == 2
    assert said in err
    assert said == "cannot be used as the name" or "cannot be set here" in err
    assert not (tmp_path / "tune").exists()
