import pytest

from nngcd.core.errors import ConfigError
from nngcd.research.grid import make_grid
from nngcd.research.published_results import published_ablation
from nngcd.research.studies import (
    SWEEPS,
    SWITCHED_OFF,
    ablation,
    chosen_rows,
    chosen_values,
    components_of,
    robustness,
)
from nngcd.settings import flat_settings, resolve


def settings_of(variants, tmp_path, **values):
    cells = make_grid(variants, [0], {"data": "cub", "preset": "official", **values}, tmp_path)
    return {cell.variant.name: cell.settings for cell in cells}


def test_the_ablation_has_the_rows_of_the_paper_from_none_to_all():
    names = [variant.name for variant in ablation()]
    assert names == [
        "none", "non-negative", "nmf-nce", "sparse",
        "non-negative+nmf-nce", "non-negative+sparse", "nmf-nce+sparse", "all",
    ]  # fmt: skip
    assert {components_of(name) for name in names} == set(published_ablation())


def test_all_components_are_the_method_itself_and_none_of_them_is_on_in_the_first_row(tmp_path):
    rows = settings_of(ablation(), tmp_path)
    assert rows["all"] == resolve({"data": "cub", "preset": "official", "seed": 0})
    none = rows["none"].loss
    assert (none.activation, none.teacher, none.contrast, none.sparse_weight) == (
        "identity", "student", "info_nce", 0,
    )  # fmt: skip


def test_the_ablation_holds_the_temperature_fixed(tmp_path):
    rows = settings_of(ablation(), tmp_path)
    assert {row.loss.contrastive_temperature for row in rows.values()} == {0.5}
    assert {row.views.recipe for row in rows.values()} == {"random+centre"}


def test_each_component_changes_nothing_but_itself(tmp_path):
    rows = settings_of(ablation(), tmp_path)
    for name, off in SWITCHED_OFF.items():
        others = "+".join(other for other in SWITCHED_OFF if other != name)
        assert {f for f in type(rows["all"].loss).__dataclass_fields__
                if getattr(rows["all"].loss, f) != getattr(rows[others].loss, f)} == set(off)  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(SWEEPS) - {"k"}))
def test_every_sweep_sets_its_setting_and_holds_the_papers_value(name, tmp_path):
    sweep = SWEEPS[name]
    rows = settings_of(sweep.variants(sweep.values), tmp_path)
    assert len(rows) == len(sweep.values)
    group, _, field = sweep.setting.rpartition(".")
    for settings, value in zip(rows.values(), sweep.values, strict=True):
        assert getattr(getattr(settings, group) if group else settings, field) == value
    best = {"temperature": 0.5, "mu": 0.1, "sigma": 1.0, "beta": 0.6, "gamma": 3e-5, "activation": "gelu",
            "pretraining": "dino"}  # fmt: skip
    assert best[name] in sweep.values


def test_the_numbers_of_categories_are_shares_of_the_true_one_and_none_is_less_than_the_old_ones():
    assert chosen_values(SWEEPS["k"], None, n_old=100, n_classes=200) == (100, 150, 200, 250, 300, 400)
    assert chosen_values(SWEEPS["k"], None, n_old=80, n_classes=100) == (100, 125, 150, 200)
    with pytest.raises(ConfigError, match="give values of K"):
        chosen_values(SWEEPS["k"], None)


def test_a_user_may_choose_rows_of_the_ablation():
    assert [row.name for row in chosen_rows(ablation(), "all, none,all")] == ["all", "none"]
    assert len(chosen_rows(ablation(), None)) == 8


def test_a_user_may_choose_the_values():
    assert chosen_values(SWEEPS["mu"], "0.1,0.1") == (0.1,)
    assert chosen_values(SWEEPS["mu"], "0.2, 1") == (0.2, 1)
    assert chosen_values(SWEEPS["activation"], "relu") == ("relu",)
    assert chosen_values(SWEEPS["gamma"], "1e-5,0.00001") == (1e-5,)


@pytest.mark.parametrize("text", [" ,", "[1", "true", "{a: 1}"])
def test_values_that_are_none_are_named(text):
    with pytest.raises(ConfigError, match="--values"):
        chosen_values(SWEEPS["mu"], text)


def test_a_row_of_the_table_is_called_by_the_value():
    variant = SWEEPS["mu"].variants([0.25])[0]
    assert (variant.name, str(variant)) == ("nce_mean=0.25", "0.25")


def test_the_rows_of_poorer_data_change_one_thing_each(tmp_path):
    rows = settings_of(robustness(200, 30), tmp_path)
    base = flat_settings(rows.pop("as-is"))
    changed = {
        name: {key: value for key, value in flat_settings(row).items() if base[key] != value}
        for name, row in rows.items()
    }
    assert changed == {
        "k-1.5": {"k": 300},
        "k-2": {"k": 400},
        "labels-5": {"reading.labels_per_class": 5},
        "labels-1": {"reading.labels_per_class": 1},
        "long-tail": {"reading.long_tail": 10.0},
        "half-epochs": {"training.epochs": 15},
    }
