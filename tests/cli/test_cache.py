"""One cache per user: where it is, what it holds, and that estimate-k and fit share it."""

import json

import pytest

from nngcd.core.user_cache import default_cache, user_cache

FLAGS = ("--image-size", "32", "--workers", "0", "--quiet")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))


def listed(nngcd, *flags):
    code, out, error = nngcd("cache", "list", "--json", *flags)
    assert code == 0, error
    return json.loads(out)


def test_a_fit_finds_what_estimate_k_kept_wherever_their_folders_are(nngcd, image_folder, tmp_path):
    assert nngcd("estimate-k", image_folder, "--out", tmp_path / "here" / "k", *FLAGS)[0] == 0
    (before,) = listed(nngcd)["kept"]
    assert before["name"].startswith("views-efficientnet_lite0-") and before["bytes"] > 0
    fit = ("fit", image_folder, "--out", tmp_path / "there" / "run", "--k", 3, "--no-report", *FLAGS)
    assert nngcd(*fit, "--set", "training.epochs=1")[0] == 0
    assert listed(nngcd)["kept"] == [before]


def test_clear_deletes_what_is_kept_and_nothing_else(nngcd):
    for name in ("views-x", "engines", "mine"):
        (user_cache() / name).mkdir(parents=True)
        (user_cache() / name / "file").write_bytes(bytes(1000))
    code, out, _ = nngcd("cache", "list")
    assert code == 0 and str(user_cache()) in out and "views-x" in out and "mine" not in out
    assert "nothing to delete" in nngcd("cache", "clear", "--older-than", 1)[1]
    assert "deleted" in nngcd("cache", "clear")[1]
    assert [path.name for path in user_cache().iterdir()] == ["mine"]
    assert listed(nngcd)["bytes"] == 0


def test_another_cache_must_be_a_folder(nngcd, tmp_path):
    code, _, error = nngcd("cache", "clear", "--cache", tmp_path / "absent")
    assert code == 2 and "is not a folder" in error


def test_several_processes_keep_views_beside_their_runs(tmp_path, monkeypatch):
    assert default_cache(tmp_path) == user_cache()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert default_cache(tmp_path) == tmp_path / ".nngcd-cache"
