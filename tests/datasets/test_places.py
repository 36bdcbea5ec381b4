import json
from pathlib import Path

import pytest

from nngcd.core.errors import DataError, NngcdWarning, UserError
from nngcd.datasets.opening import open_dataset, open_images
from nngcd.datasets.places import check_benchmark, known_places, place_of, places_file, remember_place


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_file_lies_in_the_user_s_configuration(monkeypatch, tmp_path, home):
    assert places_file() == home / "datasets.json"
    monkeypatch.delenv("NNGCD_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert places_file() == tmp_path / "xdg" / "nngcd" / "datasets.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places_file() == tmp_path / ".config" / "nngcd" / "datasets.json"


def test_places_are_remembered_as_absolute_paths_and_others_stay(tmp_path, monkeypatch, home):
    assert known_places() == {}
    assert place_of("cub") is None
    home.mkdir()
    (home / "datasets.json").write_text('{"of_a_newer_version": "/x"}')
    (tmp_path / "CUB").mkdir()
    monkeypatch.chdir(tmp_path)
    remember_place("cub", Path("CUB"))
    remember_place("cifar10", tmp_path)
    assert known_places() == {
        "of_a_newer_version": "/x",
        "cub": str(tmp_path / "CUB"),
        "cifar10": str(tmp_path),
    }
    assert place_of("cub") == tmp_path / "CUB"
    assert [path.name for path in home.iterdir()] == ["datasets.json"]


def test_a_folder_that_is_gone_is_named_with_the_way_out(tmp_path):
    remember_place("cub", tmp_path / "gone")
    with pytest.raises(DataError, match=r"'cub' was added as '.*gone', .*no longer.*nngcd data add cub NEW_ROOT"):
        open_dataset("cub")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cub": 3}', "\ud800"])
def test_a_damaged_file_is_named_and_never_overwritten(home, tmp_path, content):
    home.mkdir()
    (home / "datasets.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    for use in (known_places, lambda: open_dataset("cub"), lambda: remember_place("cub", tmp_path)):
        with pytest.raises(DataError, match=r"datasets.json' is damaged .*delete it and add"):
            use()
    assert (home / "datasets.json").read_bytes() == content.encode("utf-8", "surrogatepass")
    assert open_dataset("digits")[0].name == "digits"


def test_a_benchmark_that_was_added_opens_by_its_name(miniature_at, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remember_place("cifar10", miniature_at("cifar10"))
    for options in ({}, {"dataset": "cifar10"}):
        with pytest.warns(NngcdWarning, match="'cifar10' should have"):
            assert open_dataset("cifar10", **options)[0].name == "cifar10"
    with pytest.warns(NngcdWarning, match="'cifar10' should have"):
        assert len(open_images("cifar10")) == 50


def test_one_that_was_not_added_says_what_is_needed_and_how_to_add_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ({}, {"dataset": "cub"}):
        with pytest.raises(DataError, match=r"'cub' needs the folder of CUB-200-2011: .*nngcd data add cub ROOT"):
            open_dataset("cub", **options)


def test_what_was_added_goes_before_a_folder_of_that_name_when_the_dataset_is_named(birds, monkeypatch, miniature_at):
    birds.rename(birds.with_name("cifar10"))
    monkeypatch.chdir(birds.parent)
    assert open_dataset("cifar10")[0].class_names == ("crow", "owl")
    remember_place("cifar10", miniature_at("cifar10"))
    with pytest.warns(NngcdWarning, match="'cifar10' should have"):
        assert open_dataset("cifar10", dataset="cifar10")[0].name == "cifar10"


def test_names_that_are_no_benchmarks_are_refused():
    check_benchmark("cub")
    with pytest.raises(UserError, match=r"unknown benchmark 'cubb'. Did you mean 'cub'\? Choose from: cifar10"):
        check_benchmark("cubb")
    with pytest.raises(UserError, match="comes with nngcd"):
        check_benchmark("digits")


def test_the_file_is_plain_json(tmp_path, home):
    remember_place("cub", tmp_path)
    assert json.loads((home / "datasets.json").read_text()) == {"cub": str(tmp_path)}
