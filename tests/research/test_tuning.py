import math

import pytest

from nngcd.core.errors import ConfigError
from nngcd.methods import nngcd, simgcd
from nngcd.research.comparison import ComparisonRow
from nngcd.research.grid import make_grid
from nngcd.research.tuning import (
    choose,
    in_miniature,
    not_told_apart,
    rank_correlation,
    read_candidates,
    tuning_variants,
)
from nngcd.settings import flat_settings


def row(name, *accuracies):
    parts = {"Old": 1.0, "New": 1.0, "NMI": 1.0}
    return ComparisonRow(name, {seed: {"All": value, **parts} for seed, value in enumerate(accuracies)}, 1.0, 0.1, None)


def rows(**accuracy):
    return {name.replace("_", "-"): row(name, *values) for name, values in accuracy.items()}


def test_the_best_mean_over_folds_is_chosen_for_each_method_and_the_first_of_equals():
    variants = tuning_variants(["simgcd", "nngcd"], {"a": {}, "b": {"k": 3}}, None)
    hidden = rows(simgcd_a=[50, 60], simgcd_b=[52, 58], nngcd_a=[50, 50], nngcd_b=[40, 70])
    assert [(one.method, one.candidate) for one in choose(variants, hidden, {})] == [("simgcd", "a"), ("nngcd", "b")]
    # What all runs had is a part of the choice, but for what belongs to the data and the machine.
    shared = {"preset": "official", "seed": 1, "data": "cub", "device": "cpu", "loss": {"n_hidden": 8}}
    assert choose(variants, hidden, shared)[1].settings == {
        "k": 3, "method": "nngcd", "preset": "official", "loss": {"n_hidden": 8}
    }  # fmt: skip


def test_a_candidate_that_failed_in_a_hard_fold_does_not_win_by_it():
    variants = tuning_variants(["simgcd"], {"a": {}, "b": {}}, None)
    assert choose(variants, rows(simgcd_a=[70, 40], simgcd_b=[69]), {})[0].candidate == "a"
    assert choose(variants, rows(simgcd_a=[69], simgcd_b=[70, 40]), {})[0].candidate == "b"


def test_what_is_behind_by_less_than_the_error_of_the_difference_is_not_told_apart():
    """Against a, fold by fold: b +1, -2, -2 (mean -1, error 1), c -3, -2, -1 (mean -2, error 0.58)."""
    variants = tuning_variants(["simgcd", "nngcd"], {"a": {}, "b": {}, "c": {}}, None)
    hidden = rows(simgcd_a=[50, 60, 70], simgcd_b=[51, 58, 68], simgcd_c=[47, 58, 69], nngcd_a=[50, 60, 70])
    (chosen, alone) = choose(variants, hidden, {})
    assert not_told_apart(chosen, hidden) == ["b (-1.0, standard error 1.0)"]
    assert not_told_apart(alone, hidden) == []
    one_fold = rows(simgcd_a=[50], simgcd_b=[50])
    assert not_told_apart(chosen, one_fold) == []


def test_the_rank_correlation_by_hand():
    """Ranks 1, 2, 3, 4 against 2, 1, 3, 4: 1 - 6 * 2 / (4 * 15) = 0.8."""
    hidden = rows(a=[1], b=[2], c=[3], d=[4], only_hidden=[9])
    assert rank_correlation(hidden, rows(a=[20], b=[10], c=[30], d=[40])) == pytest.approx(0.8)
    assert math.isnan(rank_correlation(hidden, rows(a=[1], b=[2])))


def test_our_candidates_fit_both_methods(tmp_path):
    variants = tuning_variants(["simgcd", "nngcd"], read_candidates(None), None)
    cells = make_grid(variants, [0], {"data": "cub"}, tmp_path / "out")
    assert len(cells) == 2 * len(read_candidates(None)) >= 10
    assert {type(cell.settings.loss) for cell in cells} == {simgcd.Config, nngcd.Config}


def miniature_of(candidate, tmp_path, **shared):
    values = {"data": "cub", "preset": "official", **shared}
    (real,) = make_grid(tuning_variants(["simgcd"], {"a": candidate}, None), [3], values, tmp_path / "real")
    return make_grid([in_miniature(real)], [3], values, tmp_path / "hidden")[0].settings


def test_the_miniature_has_half_the_batch_and_twice_the_epochs(tmp_path):
    settings = miniature_of({"loss": {"entropy_weight": 4.0}}, tmp_path, k=200)
    assert (settings.training.batch_size, settings.training.epochs) == (64, 60)
    assert (settings.reading.hide_classes, settings.reading.fold, settings.seed) == (0.5, 3, 3)
    assert settings.k is None
    assert settings.loss.entropy_weight == 4.0


@pytest.mark.slow
def test_in_everything_else_the_miniature_of_each_candidate_is_as_the_real_task(tmp_path):
    variants = tuning_variants(["simgcd", "nngcd"], read_candidates(None), None)
    values = {"data": "cub", "preset": "official", "effort": "quick", "k": 200}
    for real in make_grid(variants, [3], values, tmp_path / "real"):
        (hidden,) = make_grid([in_miniature(real)], [3], values, tmp_path / "hidden")
        ours, theirs = flat_settings(hidden.settings), flat_settings(real.settings)
        others = {"k", "reading.hide_classes", "reading.fold", "training.batch_size", "training.epochs"}
        assert {name for name in ours if ours[name] != theirs[name]} == others, real.variant.name


def test_the_epochs_of_all_runs_are_doubled_and_those_of_a_candidate_are_its_own(tmp_path):
    shared = {"training": {"epochs": 10, "batch_size": 1}}
    assert miniature_of({}, tmp_path, **shared).training.epochs == 20
    assert miniature_of({}, tmp_path, **shared).training.batch_size == 1
    assert miniature_of({"training": {"epochs": 7}}, tmp_path, **shared).training.epochs == 7


def test_a_file_of_candidates_must_hold_groups(tmp_path):
    (tmp_path / "c.yaml").write_text("{}")
    with pytest.raises(ConfigError, match="has no candidates"):
        read_candidates(tmp_path / "c.yaml")
