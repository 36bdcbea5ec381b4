from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

import nngcd
from nngcd import settings
from nngcd.core.components import component_names
from nngcd.core.config import field_docs, parse_assignments
from nngcd.core.errors import ConfigError, UserError
from nngcd.datasets.published_splits import published_names
from nngcd.settings import Settings, presets_of, resolve, to_values

LATER = {"cms", "debgcd", "legogcd", "protogcd", "selex"}
"""Methods that the paper does not compare with."""
RECIPES = sorted((Path(nngcd.__file__).parent / "recipes").glob("*/*.yaml"))


def test_every_setting_is_described():
    assert set(field_docs(Settings)) == {field.name for field in dataclasses.fields(Settings)}


def test_flags_win_over_effort_and_effort_over_preset():
    official = {"method": "nngcd", "preset": "official", "dataset": "cub"}
    full = resolve(official | {"effort": "full"})
    assert (full.training.learning_rate, full.training.epochs) == (0.174, 200)
    quick = resolve(official | {"effort": "quick"})
    assert (quick.training.learning_rate, quick.training.epochs) == (0.1, 30)
    flag = resolve(official | {"effort": "quick", "training": {"epochs": 3}})
    assert (flag.training.learning_rate, flag.training.epochs) == (0.1, 3)


def test_official_settings_are_those_of_the_authors_scripts():
    """METHODS.md 2.7: epochs, lr, lambda, tau, gamma, epsilon."""
    table = {
        "cub": (200, 0.174, 0.35, 0.5, 3e-5, 2), "stanford_cars": (200, 0.09, 0.35, 0.5, 2.5e-5, 1),
        "fgvc_aircraft": (200, 0.07, 0.35, 0.7, 2.5e-5, 1), "cifar10": (200, 0.05, 0.30, 1.0, 1e-5, 1),
        "cifar100": (100, 0.1, 0.35, 0.5, 0.5e-5, 4), "imagenet100": (200, 0.05, 0.35, 0.2, 1e-5, 1),
        "herbarium19": (200, 0.15, 0.35, 0.1, 1e-7, 1),
    }  # fmt: skip
    for dataset, expected in table.items():
        s = resolve({"method": "nngcd", "preset": "official", "dataset": dataset, "effort": "full"})
        found = (s.training.epochs, s.training.learning_rate, s.loss.supervised_weight, s.loss.contrastive_temperature,
                 s.loss.sparse_weight, s.loss.entropy_weight)  # fmt: skip
        assert found == pytest.approx(expected), dataset
        assert (s.loss.sparse_l1_share, s.training.weight_decay, s.views.recipe) == (0.6, 5e-5, "random+centre")
        assert (s.loss.teacher_momentum_form, s.loss.teacher_start) == ("mugcd", "random")
        assert (s.loss.teacher_momentum_start, s.loss.teacher_momentum_end) == (0.7, 0.999)
        assert (s.loss.nce_mean, s.loss.nce_deviation, s.loss.supcon_temperature) == (0.1, 1.0, 0.07)
        assert (s.loss.student_temperature, s.loss.teacher_temperature_start) == (0.1, 0.07)
        assert (s.loss.teacher_temperature, s.loss.teacher_warmup_epochs) == (0.04, 30)
        assert (s.training.batch_size, s.training.momentum, s.training.final_learning_rate) == (128, 0.9, 1e-3)


PUBLISHED = yaml.safe_load((Path(__file__).parent / "published_presets.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_presets_stay_as_they_are(name):
    """Whole settings: a search for a better default must not move `paper` and `official`."""
    method, preset, effort = name.split()
    found = to_values(resolve({"method": method, "preset": preset, "effort": effort, "dataset": "cub"}))
    new = {"loss": found["loss"].keys() - PUBLISHED[name]["loss"].keys()}
    assert {part: found[part] for part in PUBLISHED[name]} == PUBLISHED[name], new


def test_a_preset_that_nobody_has_is_refused_for_every_method():
    for method in component_names("nngcd.methods", "Method"):
        with pytest.raises(ConfigError, match=f"preset = 'offical': unknown preset of {method}.*default"):
            resolve({"method": method, "preset": "offical"})
    paper, default = (resolve({"method": "kmeans", "preset": preset}).loss for preset in ("paper", "default"))
    assert paper == dataclasses.replace(default, split_at_end=False)


@pytest.mark.parametrize("method", ["nngcd", "simgcd"])
def test_default_losses_of_every_benchmark_are_the_authors(method):
    names = {"supervised_weight", "entropy_weight", "contrastive_temperature", "sparse_weight", "sparse_l1_share"}
    for dataset in published_names():
        ours, theirs = (
            to_values(resolve({"method": method, "preset": preset, "dataset": dataset, "effort": "full"}))["loss"]
            for preset in ("default", "official")
        )
        assert all(ours[name] == theirs[name] for name in names & set(theirs)), dataset


@pytest.mark.parametrize(
    "path",
    [path if path.stem == "default" else pytest.param(path, marks=pytest.mark.slow) for path in RECIPES],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_every_recipe_resolves_for_every_data_set(path):
    own = yaml.safe_load(path.read_text(encoding="utf-8")).get("datasets", {})
    assert set(own) <= set(published_names())
    for dataset in (*published_names(), "digits"):
        values = {"method": path.parent.name, "preset": path.stem, "dataset": dataset, "effort": "full"}
        found = to_values(resolve(values))
        for group, expected in own.get(dataset, {}).items():
            assert found[group] == found[group] | expected, dataset


def test_every_method_has_a_default_recipe_and_one_of_what_was_published():
    methods = set(component_names("nngcd.methods", "Method"))
    having = {preset: {path.parent.name for path in RECIPES if path.stem == preset} for preset in presets_of("nngcd")}
    assert having["default"] == methods
    # muGCD has no public code. The later methods have nothing but their code.
    assert having["official"] == methods - {"mugcd"}
    assert having["paper"] == methods - LATER


def test_the_settings_of_a_run_do_not_follow_the_recipe(monkeypatch):
    """A run's file names every setting, so nothing is left to the preset."""
    for method in ("nngcd", "pim", "cipr"):
        begun = resolve({"method": method})
        monkeypatch.setattr(settings, "_recipe", lambda *_: ({"loss": {"n_hidden": 7}, "seed": 3}, {}))
        assert resolve(to_values(begun)) == begun
        monkeypatch.undo()


def test_a_recipe_may_differ_by_effort_and_the_user_goes_before_it(monkeypatch):
    recipe = {"loss": {"n_hidden": 512}}, {"quick": {"loss": {"n_hidden": 256}}}
    monkeypatch.setattr(settings, "_recipe", lambda *_: recipe)
    assert [resolve({"effort": effort}).loss.n_hidden for effort in ("quick", "full")] == [256, 512]
    assert resolve({"effort": "quick", "loss": {"n_hidden": 64}}).loss.n_hidden == 64


def test_weights_of_a_recipe_belong_to_its_backbone(monkeypatch):
    recipe = {"backbone": "dino"}, {"quick": {"backbone": "test_vit", "weights": "random", "image_size": 96}}
    monkeypatch.setattr(settings, "_recipe", lambda *_: recipe)
    own, other, chosen = (resolve(values) for values in ({}, {"backbone": "mae"}, {"backbone": "mae", "weights": "w"}))
    assert [(s.backbone, s.weights, s.image_size) for s in (own, other, chosen)] == [
        ("test_vit", "random", 96), ("mae", None, None), ("mae", "w", None)
    ]  # fmt: skip


def test_an_effort_leaves_alone_what_a_method_does_not_have():
    assert resolve({"method": "kmeans", "effort": "quick"}).loss.n_starts == 10


def test_settings_survive_being_written():
    settings = resolve({"method": "nngcd", "data": "x", "k": 7, "loss": {"activation": "relu"}})
    assert resolve(to_values(settings)) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "offical"}, r"preset = 'offical'.*Did you mean 'official'"),
        ({"effort": "fast"}, r"effort = 'fast'.*quick, normal, full"),
        ({"loss": {"entropy": 1}}, r"loss\.entropy = 1: unknown setting. Did you mean 'entropy_weight'"),
        ({"loss": 3}, "must be a group of settings"),
        ({"training": {"epoch": 1}}, r"training.epoch = 1.*Did you mean 'epochs'"),
        ({"k": 0}, "k = 0"),
        ({"method": 4}, "method = 4: must be text"),
        ({"effort": ["quick"]}, r"effort = \['quick'\]: must be text"),
        ({"preset": 1}, "preset = 1: must be text"),
        ({"image_size": 0}, "image_size = 0: must be at least 1"),
        ({"workers": -4}, "workers = -4: must be from 0"),
        ({"tail_blocks": 0}, "tail_blocks = 0"),
        ({"views": {"recipe": "three"}}, "recipe"),
        ({"effort": "full", "views": {"sizes": [1, 2]}}, "views.sizes = .*effort quick or normal"),
        ({"training": {"resting_share": 0.5}}, "resting_share = 0.5: needs a trained block.*--effort normal"),
        ({"effort": "full", "training": {"resting_share": 0.5}}, "resting_share = .*--views-per-image"),
        ({"effort": "normal", "training": {"resting_share": 1.0}}, r"resting_share = 1.0: must be in \[0, 1\)"),
        ({"loss": {"entropy_memory": 1.0}}, r"entropy_memory = 1.0: must be in \[0, 1\)"),
    ],
)
def test_mistakes_name_the_setting_and_the_way_out(values, message):
    with pytest.raises(ConfigError, match=message):
        resolve(values)


def test_an_unknown_method_is_named():
    with pytest.raises(UserError, match="unknown method 'nn-gcd'"):
        resolve({"method": "nn-gcd"})


def test_sizes_of_the_default_are_for_our_backbone():
    ours = resolve({"backbone": "efficientnet_lite0"}).views
    assert ours == resolve({}).views == resolve({"effort": "normal"}).views
    assert (len(ours.sizes), ours.per_image) == (3, 0)
    for others in ({"backbone": "dino"}, {"init_from": "a run"}, {"effort": "full"}, {"preset": "paper"}):
        views = resolve(others).views
        assert views.sizes == (1.0,)
        assert views.per_image != 0
    # The way out that is offered where a network takes images of one size only.
    assert (
        resolve({"views": {"sizes": [1]}}).views == resolve({"preset": "paper", "views": {"recipe": ours.recipe}}).views
    )
    assert resolve({"views": {"sizes": [1, 1.5]}}).views.per_image == 0


def test_what_the_default_adds_where_a_block_is_trained_is_for_our_backbone():
    ours, started = resolve({"effort": "normal"}), resolve({"effort": "normal", "init_from": "a run"})
    assert (ours.whitened_features, ours.views.per_image, ours.training.resting_epochs) == (256, 0, 30)
    assert (started.whitened_features, started.views.per_image, started.loss.n_hidden) == (None, 10, 2048)
    assert (started.training.epochs, started.training.resting_epochs) == (50, 0)
    assert (ours.loss.teacher_warmup_epochs, started.loss.teacher_warmup_epochs) == (10, 8)
    # The rate is for a block that rests as long as the recipe says.
    awake = resolve({"effort": "normal", "training": {"resting_share": 0.0}})
    assert (ours.training.tail_learning_rate, awake.training.tail_learning_rate) == (0.1, None)
    assert awake.training.epochs == ours.training.epochs
    # Nothing can rest on features computed once where views are new in every epoch.
    online = resolve({"effort": "normal", "views": {"per_image": "online"}})
    assert (online.whitened_features, online.training.epochs, online.training.resting_epochs) == (256, 50, 0)
    dino, plain = resolve({"effort": "normal", "backbone": "dino"}), resolve({"effort": "normal", "preset": "paper"})
    assert (dino.whitened_features, dino.views.per_image, dino.training.epochs) == (None, 10, 50)
    assert (dino.loss.n_hidden, dino.loss.entropy_memory, dino.loss.neighbour_weight) == (2048, 0.0, 0.0)
    assert (plain.whitened_features, plain.views.per_image, plain.training.epochs) == (None, 10, 50)


def test_features_as_they_are_have_the_heads_and_the_schedule_of_other_presets():
    plain = resolve({"effort": "normal", "whitened_features": None})
    assert (plain.whitened_features, plain.training.epochs, plain.loss.n_hidden) == (None, 50, 2048)
    assert (plain.views.sizes, plain.views.per_image) == ((1.0,), 10)
    assert plain.loss.neighbour_weight == resolve({"effort": "normal"}).loss.neighbour_weight > 0


def test_what_other_recipes_say_of_an_effort_holds_for_every_backbone():
    for backbone in ("efficientnet_lite0", "dino"):
        assert resolve({"method": "sptnet", "effort": "normal", "backbone": backbone}).views.per_image == "online"


def test_a_run_that_goes_on_from_another_has_no_whitened_features():
    assert resolve({}).whitened_features == 256
    started = resolve({"init_from": "a run"})
    assert started.whitened_features is None
    # Its heads are as wide as those of other methods, so that they can be taken over.
    assert started.loss.n_hidden == resolve({"method": "simgcd", "preset": "official"}).loss.n_hidden
    assert started.loss.entropy_memory == resolve({}).loss.entropy_memory


def test_a_preset_counts_however_many_groups_are_given():
    given = {"method": "nngcd", "preset": "official", "effort": "quick", "data": "cub", "seed": 1,
             "reading": {"fold": 1}, "views": {"per_image": 3}, "training": {"epochs": 2},
             "loss": {"n_hidden": 8}}  # fmt: skip
    found = resolve(given)
    assert (found.loss.teacher_start, found.loss.entropy_weight, found.views.recipe) == ("random", 2.0, "random+centre")
    assert (found.loss.n_hidden, found.views.per_image, found.training.epochs) == (8, 3, 2)


@pytest.mark.parametrize("method", component_names("nngcd.methods", "Method"))
def test_published_presets_compute_in_full_precision(method):
    """On a GPU, `auto` would be half precision, which the authors' scripts do not use (SPTNet's do)."""
    for preset in set(presets_of(method)) & {"official", "paper"}:
        assert resolve({"method": method, "preset": preset}).precision == "32-true"


@pytest.mark.parametrize("preset", ["official", "paper"])
def test_what_decays_is_what_the_authors_optimisers_let_decay(preset):
    everything = {"gcd", "xcon", "dccl", "pim", "cipr", "promptcal", "infosieve", "cms", "selex"}
    for method in everything | {"simgcd", "nngcd", "sptnet"} | LATER:
        if preset not in presets_of(method):
            continue
        found = resolve({"method": method, "preset": preset}).training.decay
        assert found == ("all" if method in everything else "matrices"), method


@pytest.mark.parametrize(
    ("name", "value"),
    [("training.weight_decay", ".inf"), ("training.tail_learning_rate", ".inf"), ("training.pieces", 10**9),
     ("training.epochs", 10**30), ("training.batch_size", 10**30), ("views.per_image", 10**6),
     ("loss.n_hidden", 10**9), ("k", "true"), ("training.epochs", "on"), ("seed", "yes"), ("loss.n_hidden", "true")],
)  # fmt: skip
def test_numbers_that_cannot_be_meant_are_refused(name, value):
    with pytest.raises(ConfigError, match=rf"^{name} = "):
        resolve({"data": "x"} | parse_assignments([f"{name}={value}"]))
