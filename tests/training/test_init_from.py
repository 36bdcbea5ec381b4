"""Starting where another run ended."""

import dataclasses

import numpy as np
import pytest
import torch

from nngcd.core.errors import ConfigError, DataError, NngcdWarning, UserError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.arrays import from_arrays
from nngcd.pipeline import discover, fit
from nngcd.runs.preparing import check_start, prepare
from nngcd.settings import resolve
from nngcd.training.model import Blueprint, build_backbone

SMALL = {"n_hidden": 64, "n_projection": 16}


def settings(**more):
    # Features as they are: every run learns its own whitening, so no run can start from whitened ones.
    values = {"method": "simgcd", "preset": "official", "k": 6, "loss": SMALL, "hold_back": 0.0,
              "training": {"epochs": 3, "batch_size": 48}}  # fmt: skip
    return resolve(values | more)


@pytest.fixture
def first(blob_split, tmp_path, made_once):
    """A finished run of SimGCD."""

    def make(folder):
        run = RunFolder.create(folder / "first")
        discover(prepare(blob_split, settings()), None, run, cache=None, progress=Progress())

    return RunFolder(made_once(make, tmp_path) / "first")


def still(first, method="simgcd", **more):
    """Settings that start from the run and learn next to nothing."""
    training = {"epochs": 1, "batch_size": 48, "learning_rate": 1e-12}
    return settings(method=method, init_from=str(first.path), training=training, **more)


def test_a_run_begins_with_the_tail_and_heads_of_the_other(first, blob_split):
    kept = {"loss": SMALL | {"prototype_start": "random"}}
    started = fit(blob_split, still(first, **kept))
    fresh = fit(blob_split, settings(training={"epochs": 1, "batch_size": 48, "learning_rate": 1e-12}, **kept))
    loaded = prepare(blob_split, still(first)).start.model
    torch.testing.assert_close(started.scores_nk, loaded.scores(started.features_nd))
    assert not torch.allclose(fresh.features_nd, started.features_nd)


@pytest.mark.slow
def test_another_method_takes_what_it_has_too(first, blob_split):
    loaded = prepare(blob_split, still(first)).start.model
    with pytest.warns(NngcdWarning, match=r"first \(simgcd\) has no head in common with this method"):
        started = fit(blob_split, still(first, "gcd"))
    for name, tensor in loaded.backbone.tail.state_dict().items():
        torch.testing.assert_close(started.model.backbone.tail.state_dict()[name], tensor)


def test_a_head_of_another_shape_is_named(first, blob_split):
    with pytest.warns(
        NngcdWarning, match=r"these of .*first have another shape and are not used: projection.*n_hidden"
    ):
        fit(blob_split, still(first, loss=SMALL | {"n_hidden": SMALL["n_hidden"] + 1}))


def test_a_start_that_was_whitened_or_saw_other_sizes_says_how_to_go_on(first, blob_split):
    start, asked = (job := prepare(blob_split, still(first))).start, job.blueprint

    def of(**facts):
        model = dataclasses.replace(start.model, blueprint=dataclasses.replace(start.model.blueprint, **facts))
        return dataclasses.replace(start, model=model)

    with pytest.raises(ConfigError, match=r"its features are whitened.*fit it with --set whitened_features=null"):
        of(whitened_features=4).check(asked, blob_split)
    with pytest.raises(ConfigError, match=r"start with --set 'views.sizes=\[1.0, 1.25\]', or from another run"):
        of(sizes=(1.0, 1.25)).check(asked, blob_split)


def test_k_is_that_of_the_other_run_unless_it_is_given(first, blob_split):
    assert prepare(blob_split, still(first, k=None)).k == 6
    assert prepare(blob_split, still(first, k="4..8")).k == 6
    with pytest.raises(
        ConfigError, match=r"--init-from.*n_clusters is 6, but this run's is 7; start with --k 6, or from"
    ):
        prepare(blob_split, still(first, k=7))
    with pytest.raises(ConfigError, match=r"it has 6 categories, not 7 to 9; leave out --k"):
        prepare(blob_split, still(first, k="7..9"))


def test_a_stage_that_the_other_run_has_done_is_left_out(first):
    assert resolve({"method": "mugcd"}).loss.contrastive_share > 0
    assert resolve({"method": "mugcd", "init_from": str(first.path)}).loss.contrastive_share == 0
    asked = resolve({"method": "mugcd", "init_from": str(first.path), "loss": {"contrastive_share": 0.5}})
    assert asked.loss.contrastive_share == 0.5
    # No other run has prompts to start from, so PromptCAL keeps the stage in which they begin to learn.
    assert resolve({"method": "promptcal", "init_from": str(first.path)}).loss.untaught_share > 0


def test_runs_that_do_not_fit_are_refused(first, blobs, blob_split, tmp_path):
    features, labels, _ = blobs
    with pytest.raises(ConfigError, match=r"known categories differ from those of the data: for example '2'"):
        prepare(from_arrays(features, np.where(labels == 2, 3, labels)), still(first))
    with pytest.raises(ConfigError, match="n_features is 16, but this run's is 8"):
        prepare(from_arrays(features[:, :8], labels), still(first))
    with pytest.raises(ConfigError, match="every run learns its own whitening; leave out"):
        prepare(blob_split, still(first, whitened_features=4))
    (first.path / "summary.json").unlink()
    with pytest.raises(DataError, match=r"first is not finished.*nngcd fit --resume"):
        prepare(blob_split, still(first))


def test_labels_that_taught_the_other_run_judge_nothing(first, blob_split):
    with pytest.raises(ConfigError, match=r"trained with \d+ labels that this run holds back.*--use-all-labels"):
        prepare(blob_split, still(first, hold_back=0.2))


def test_labels_that_the_other_run_held_back_too_may_judge(blob_split, tmp_path):
    run = RunFolder.create(tmp_path / "first")
    discover(prepare(blob_split, settings(hold_back=0.2)), None, run, cache=None, progress=Progress())
    assert prepare(blob_split, still(run, hold_back=0.2)).is_held_back.any()
    assert not prepare(blob_split, still(run)).is_held_back.any()
    with pytest.raises(ConfigError, match="trained with"):
        prepare(blob_split, still(run, hold_back=0.2, seed=1))


def test_a_tail_is_not_put_behind_other_frozen_weights(tmp_path):
    blueprint = Blueprint(
        backbone="test_vit", effort="normal", tail_blocks=1, image_size=32, method="simgcd", loss={}, n_features=None,
        n_clusters=6, n_old=3,
    )  # fmt: skip
    ours, theirs = (build_backbone(blueprint, pretrained=False) for _ in range(2))
    with torch.no_grad():
        next(theirs.tail.parameters()).add_(1)
    started = build_backbone(blueprint, pretrained=False, start=theirs)
    assert torch.equal(next(started.tail.parameters()), next(theirs.tail.parameters()))
    assert not torch.equal(next(started.tail.parameters()), next(ours.tail.parameters()))
    other = build_backbone(blueprint, pretrained=False)
    with torch.no_grad():
        next(other.trunk.parameters()).add_(1)
    with pytest.raises(UserError, match=r"frozen part of that run's test_vit has other weights.*--weights"):
        build_backbone(blueprint, pretrained=False, start=other)


def test_a_folder_that_is_no_run_is_named(blob_split, tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        prepare(blob_split, settings(init_from=str(tmp_path / "nowhere")))


@pytest.mark.parametrize("preset", ["official", "paper"])
def test_sptnet_without_a_trained_start_is_refused_with_the_commands_that_make_one(blob_split, preset):
    asked = {"data": "my images", "method": "sptnet", "preset": preset, "effort": "full", "backbone": "dino", "seed": 3}
    with pytest.raises(ConfigError, match="sptnet starts from a network trained with simgcd") as error:
        prepare(blob_split, resolve(asked))
    shared = f"--preset {preset} --effort full --backbone dino --seed 3"
    assert [line.strip() for line in str(error.value).splitlines()[1:]] == [
        f"nngcd fit 'my images' --method simgcd {shared} --out RUN",
        f"nngcd fit 'my images' --method sptnet {shared} --init-from RUN",
    ]
    for fine in ({"preset": "default"}, {"init_from": "a run"}, {"loss": {"simgcd_share": 0.5}}, {"method": "simgcd"}):
        check_start(resolve(asked | fine))


def test_the_commands_that_make_a_start_have_all_that_was_asked_for():
    asked = {"data": "cub", "method": "sptnet", "preset": "official", "effort": "full", "backbone": "dino"}
    own = {"reading": {"image_root": "/my data"}, "training": {"epochs": 3}, "loss": {"phase_steps": 5}}
    with pytest.raises(ConfigError) as error:
        check_start(resolve(asked | own))
    shared = "--preset official --effort full --backbone dino --set 'reading.image_root=\"/my data\"'"
    assert [line.strip() for line in str(error.value).splitlines()[1:]] == [
        f"nngcd fit cub --method simgcd {shared} --set training.epochs=3 --out RUN",
        f"nngcd fit cub --method sptnet {shared} --set training.epochs=3 --set loss.phase_steps=5 --init-from RUN",
    ]


def test_a_wrong_start_is_found_before_the_data_are_opened(nngcd):
    code, said, err = nngcd("fit", "no such folder", "--dataset", "folder", "--method", "sptnet", "--preset", "paper")
    assert code == 2
    assert "sptnet starts from a network trained with simgcd" in " ".join(err.split())
    assert said == "Loading…\n"
