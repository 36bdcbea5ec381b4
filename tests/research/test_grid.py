import pytest

from nngcd.core.errors import ConfigError, DataError, ResourceError, UserError
from nngcd.core.files import write_yaml
from nngcd.core.run_folder import RunFolder
from nngcd.research.grid import Variant, make_grid, read_summary
from nngcd.settings import to_values

VARIANTS = [Variant("simgcd", {"method": "simgcd"}), Variant("cold", {"loss": {"contrastive_temperature": 0.1}})]
VALUES = {"data": "digits", "loss": {"entropy_weight": 2.0}}


def test_every_variant_with_every_seed_in_a_folder_of_its_own(tmp_path):
    cells = make_grid(VARIANTS, [0, 7], VALUES, tmp_path)
    assert [cell.path.name for cell in cells] == ["simgcd-0", "cold-0", "simgcd-7", "cold-7"]
    assert [(cell.settings.method, cell.settings.seed) for cell in cells[1:3]] == [("nngcd", 0), ("simgcd", 7)]
    assert cells[1].settings.loss.contrastive_temperature == 0.1
    assert {cell.settings.loss.entropy_weight for cell in cells} == {2.0}
    assert not any(cell.begun for cell in cells)


def test_smoke_sets_what_a_method_has_and_leaves_the_user_s_own_settings(tmp_path):
    variants = [Variant("pim", {"method": "pim"}), Variant("nngcd", {})]
    pim, nngcd = make_grid(variants, [0], {"data": "digits", "training": {"epochs": 7}}, tmp_path, is_smoke=True)
    assert (pim.settings.loss.n_steps, pim.settings.loss.n_candidates) == (20, 3)
    assert pim.settings.training.epochs == nngcd.settings.training.epochs == 7
    assert nngcd.settings.reading.n_images == 300


def test_a_method_that_needs_a_trained_start_has_one_run_of_it_before_per_seed(tmp_path):
    asked = {"data": "digits", "preset": "official", "loss": {"prompt_deviation": 0.5, "entropy_weight": 3.0}}
    sptnet = Variant("sptnet", {"method": "sptnet"})
    cells = make_grid([sptnet], [0, 1], asked, tmp_path)
    assert [cell.path.name for cell in cells] == ["simgcd-0", "sptnet-0", "simgcd-1", "sptnet-1"]
    assert [cell.is_start for cell in cells] == [True, False, True, False]
    start, started = cells[2:]
    assert (started.settings.init_from, started.start) == (str(start.path.resolve()), start.path)
    found = start.settings
    assert (found.method, found.preset, found.seed, found.loss.entropy_weight) == ("simgcd", "official", 1, 3.0)

    # A row of the same method is that run, before or after; what its folder holds must be what it would be.
    simgcd, plain = Variant("simgcd", {"method": "simgcd"}), {"data": "digits", "preset": "official"}
    before = make_grid([simgcd, sptnet], [0], plain, tmp_path)
    assert [(cell.path.name, cell.is_start) for cell in before] == [("simgcd-0", False), ("sptnet-0", False)]
    after = make_grid([sptnet, simgcd], [0], plain, tmp_path)
    assert [cell.path.name for cell in after] == ["simgcd-0", "sptnet-0", "simgcd-0"]
    assert after[0].settings == after[2].settings == before[0].settings
    assert [cell.is_start for cell in after] == [True, False, False]


def test_a_grid_with_starts_may_be_moved(tmp_path):
    variant, asked = Variant("sptnet", {"method": "sptnet"}), {"data": "digits", "preset": "official"}
    for cell in make_grid([variant], [0], asked, tmp_path / "here"):
        _begin(cell)
    (tmp_path / "here").rename(tmp_path / "there")
    start, started = make_grid([variant], [0], asked, tmp_path / "there")
    assert started.settings.init_from == str(start.path.resolve())
    with pytest.raises(DataError, match="holds a run with other settings"):
        make_grid([variant], [0], asked | {"init_from": "a run"}, tmp_path / "there")


def test_no_start_is_made_where_none_is_needed_or_the_user_has_one(tmp_path):
    for values in ({"preset": "default"}, {"preset": "official", "init_from": "a run"}):
        (cell,) = make_grid([Variant("sptnet", {"method": "sptnet"})], [0], {"data": "digits", **values}, tmp_path)
        assert (cell.start, cell.settings.init_from) == (None, values.get("init_from"))


def test_the_start_of_a_variant_has_what_is_special_about_it(tmp_path):
    variants = [Variant(f"k={k}", {"k": k}) for k in (12, 15)]
    asked = {"data": "digits", "preset": "official", "method": "sptnet"}
    cells = make_grid(variants, [0], asked, tmp_path)
    assert [cell.path.name for cell in cells] == ["k=12-simgcd-0", "k=12-0", "k=15-simgcd-0", "k=15-0"]
    assert [cell.settings.k for cell in cells] == [12, 12, 15, 15]


def _begin(cell, **changes):
    run = RunFolder.create(cell.path)
    write_yaml(run.config, to_values(cell.settings) | changes)
    return run


def test_a_run_that_was_begun_is_found_again(tmp_path):
    cell = make_grid(VARIANTS, [0], VALUES, tmp_path)[1]
    run = _begin(cell, workers=5, device="cuda")  # another machine may finish it
    assert make_grid(VARIANTS, [0], VALUES, tmp_path)[1].begun == run


def test_a_run_that_was_killed_before_it_wrote_its_settings_is_begun_again_in_its_folder(tmp_path):
    cell = make_grid(VARIANTS, [0], VALUES, tmp_path)[0]
    run = RunFolder.create(cell.path)
    assert make_grid(VARIANTS, [0], VALUES, tmp_path)[0].begun == run


def test_a_run_with_other_settings_is_never_taken_for_the_one_asked_for(tmp_path):
    _begin(make_grid(VARIANTS, [0], VALUES, tmp_path)[1])
    with pytest.raises(DataError, match=r"cold-0 holds .* other settings \(loss.entropy_weight: 2.0, now 1.0\)"):
        make_grid(VARIANTS, [0], VALUES | {"loss": {"entropy_weight": 1.0}}, tmp_path)


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "cold-0").mkdir()
    make_grid(VARIANTS, [0], VALUES, tmp_path)  # empty, as a process leaves it that is killed in its first moment
    (tmp_path / "cold-0" / "mine.txt").touch()
    with pytest.raises(DataError, match="exists but is not a run"):
        make_grid(VARIANTS, [0], VALUES, tmp_path)


def test_an_unknown_name_is_found_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match="Did you mean 'simgcd'"):
        make_grid([*VARIANTS, Variant("x", {"method": "simgdc"})], [0], VALUES, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["[1", "- a list\n", "no_such_setting: 1\n"])
def test_a_damaged_run_says_how_to_get_it_again(tmp_path, content):
    run = _begin(make_grid(VARIANTS, [0], VALUES, tmp_path)[1])
    run.config.write_text(content)
    with pytest.raises(DataError, match=r"cold-0 is damaged .* Delete this folder and repeat the command"):
        make_grid(VARIANTS, [0], VALUES, tmp_path)


@pytest.mark.parametrize("content", ["{", "{}"])
def test_a_damaged_summary_says_how_to_get_it_again(tmp_path, content):
    cell = make_grid(VARIANTS, [0], VALUES, tmp_path)[1]
    _begin(cell).summary.write_text(content)
    with pytest.raises(DataError, match=r"cold-0 is damaged .* Delete this folder and repeat the command"):
        read_summary(cell)


def test_the_folder_of_a_grid_is_no_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        make_grid(VARIANTS, [0], VALUES, tmp_path / "out")


def test_a_package_that_a_method_needs_is_missed_before_the_first_run(tmp_path, monkeypatch):
    monkeypatch.setattr("nngcd.clustering.communities.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="infomap"):
        make_grid([*VARIANTS, Variant("dccl", {"method": "dccl"})], [0], VALUES | {"loss": {}}, tmp_path)
    assert not list(tmp_path.iterdir())
