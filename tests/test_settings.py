from __future__ import annotations

import dataclasses

import pytest

from nngcd import views
from nngcd.core.config import field_docs
from nngcd.core.errors import ConfigError, UserError
from nngcd.settings import Settings, resolve, to_values


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


@pytest.mark.parametrize(("effort", "per_image"), [("quick", 4), ("normal", "online"), ("full", "online")])
def test_settings_of_an_older_version_mean_what_they_meant(effort, per_image):
    older = {"effort": effort, "views": {"recipe": "random+centre", "n_random": 4}}
    assert resolve(older).views == views.Config(recipe="random+centre", per_image=per_image)


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
        ({"loss": {"entropy": 1}}, r"entropy = 1: no such setting. Did you mean 'entropy_weight'"),
        ({"loss": 3}, "is a group of settings"),
        ({"training": {"epoch": 1}}, r"training.epoch = 1.*Did you mean 'epochs'"),
        ({"k": 0}, "k = 0"),
        ({"tail_blocks": 0}, "tail_blocks = 0"),
        ({"views": {"recipe": "three"}}, "recipe"),
    ],
)
def test_mistakes_name_the_setting_and_the_way_out(values, message):
    with pytest.raises(ConfigError, match=message):
        resolve(values)


def test_an_unknown_method_is_named():
    with pytest.raises(UserError, match="no method 'nn-gcd'"):
        resolve({"method": "nn-gcd"})
