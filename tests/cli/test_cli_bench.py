"""`nngcd bench` and `nngcd study` as a person meets them, on some of the digits in two epochs."""

from __future__ import annotations

import json
import shutil
import warnings
from importlib.util import find_spec

import pandas as pd
import pytest

from nngcd.cli import run_display
from nngcd.cli.display import each_note_once, show_warning
from nngcd.core.config import read_yaml
from nngcd.core.errors import NngcdWarning, NoSuchDataError
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.places import remember_place
from nngcd.runs import preparing as job

TINY = ["--smoke", "--image-size", 32, "--workers", 0]
COSTS = ["seconds", "processor_seconds_views", "processor_seconds_fit", "peak_gb_ram"]
SMALL = [*TINY, "--set", "loss.n_hidden=32", "--set", "loss.n_projection=16"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Views of the digits, passed through the backbone once for all tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "bench"


@pytest.mark.slow
def test_a_table_of_methods_and_seeds_and_no_run_twice(nngcd, out, cache):
    command = ["bench", "digits", "--method", "simgcd,nngcd", "--seeds", "0-1", *SMALL, "--out", out, "--cache", cache]
    code, said, err = nngcd(*command)
    assert code == 0, err
    assert "[4/4] nngcd, seed 1" in said
    assert "| method | All | Old | New |" in said
    assert "Protocol: transductive" in said
    assert "common seeds)" in said
    table = pd.read_csv(out / "bench.csv")
    assert list(zip(table["method"], table["seed"], strict=True)) == [
        ("simgcd", 0), ("nngcd", 0), ("simgcd", 1), ("nngcd", 1),
    ]  # fmt: skip
    assert (table["peak_gb_ram"] > 0.1).all()
    assert "\\begin{tabular}" in (out / "bench.tex").read_text()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*-*/*")}

    # Again: nothing is done twice, and a further seed is added to those that are there.
    code, said, _ = nngcd(*[part if part != "0-1" else "0-2" for part in command], "--json")
    assert code == 0
    assert json.loads(said)["rows"][1]["scores"].keys() == {"0", "1", "2"}
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_finished_and_the_others_are_kept(nngcd, out, cache, monkeypatch):
    command = ["bench", "digits", "--method", "nngcd,simgcd", "--seeds", 3, *SMALL, "--out", out, "--cache", cache]
    code, _, err = nngcd(*command, "--quiet")
    assert code == 0, err
    unbroken = pd.read_csv(out / "bench.csv").drop(columns=COSTS)
    shutil.rmtree(out / "simgcd-3")
    (out / "bench.csv").unlink()

    import nngcd.training.loop as loop

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_find_gradients", stop)
        code, said, err = nngcd(*command)
    assert code == 130
    assert "nngcd, seed 3: already complete" in said
    assert "To continue: nngcd bench digits --method nngcd,simgcd --seeds 3 --smoke" in " ".join(err.split())
    assert not (out / "bench.csv").exists()
    assert nngcd(*command, "--quiet")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv(out / "bench.csv").drop(columns=COSTS), unbroken)


@pytest.mark.slow
def test_a_method_whose_training_fails_does_not_stop_the_others(nngcd, out, cache):
    command = ["bench", "digits", "--method", "simgcd,kmeans", "--seeds", 0, *TINY, "--out", out, "--cache", cache]
    code, said, err = nngcd(*command, "--set", "training.learning_rate=1e30", "--set", "training.momentum=0")
    assert code == 5
    assert "| kmeans |" in said
    assert "| simgcd |" not in said
    assert "failed: simgcd, seed 0: " in err
    assert not (out / "simgcd-0" / "summary.json").exists()


@pytest.mark.slow
def test_a_start_that_a_method_needs_is_trained_once_and_no_public_code_stops_nobody(nngcd, out, cache, monkeypatch):
    command = ["bench", "digits", "--method", "sptnet,mugcd", "--seeds", 0, "--preset", "official", *SMALL,
               "--out", out, "--cache", cache]  # fmt: skip

    import nngcd.training.loop as loop

    def stop_in_sptnet(module, *arguments):
        if module.module.method.cuts_network:
            raise KeyboardInterrupt
        return find_gradients(module, *arguments)

    find_gradients = loop._find_gradients
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_find_gradients", stop_in_sptnet)
        assert nngcd(*command)[0] == 130
    assert RunFolder(out / "simgcd-0").is_complete
    code, said, err = nngcd(*command)
    assert code == 0, err
    assert "[1/2] simgcd, seed 0 (to start from): already complete" in said
    assert "| sptnet |" in said
    assert "| simgcd |" not in said
    assert "| mugcd | - | - | - | - | - | - | no public code | - | - |" in said
    assert "mugcd has no public code: --preset paper has its paper's settings." in said
    assert "sptnet starts from trained runs of simgcd, one per seed, in " in said
    assert read_yaml(out / "sptnet-0" / "config.yaml")["init_from"] == str((out / "simgcd-0").resolve())
    assert pd.read_csv(out / "bench.csv")["method"].tolist() == ["sptnet"]


@pytest.mark.slow
def test_what_starts_from_a_run_that_failed_fails_with_it(nngcd, out, cache):
    command = ["bench", "digits", "--method", "sptnet,kmeans", "--seeds", 0, "--preset", "official", *TINY,
               "--out", out, "--cache", cache]  # fmt: skip
    code, said, err = nngcd(*command, "--set", "training.learning_rate=1e30", "--set", "training.momentum=0")
    assert code == 5
    assert "| kmeans |" in said
    assert "failed: simgcd, seed 0: " in err
    assert "failed: sptnet, seed 0: the run it starts from has failed" in " ".join(err.split())


@pytest.mark.slow
def test_all_methods_are_those_that_fit_and_the_others_are_named(nngcd, out, cache, monkeypatch):
    monkeypatch.setattr("nngcd.research.benchmark.every_name", lambda: ["kmeans", "promptcal", "gcd", "simgcd+eagc"])
    command = ["bench", "digits", "--method", "all", "--seeds", 0, *TINY, "--out", out, "--cache", cache]
    code, said, err = nngcd(*command)
    assert code == 0, err
    assert said.count("Left out: promptcal: it needs a ViT") == 2  # before the runs, and under the table
    assert {path.name for path in out.glob("*-0")} == {"kmeans-0", "gcd-0", "simgcd+eagc-0"}
    assert "| simgcd+eagc |" in said
    assert "processor minutes" in said
    table = pd.read_csv(out / "bench.csv")
    assert (table["processor_seconds_fit"] > 0).all()
    if find_spec("matplotlib"):
        assert (out / "cost.svg").is_file()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*-*/*")}
    assert nngcd(*command, "--quiet")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_all_data_sets_are_those_of_this_machine_and_one_that_is_gone_stops_no_other(
    nngcd, tmp_path, cache, monkeypatch
):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    remember_place("cub", tmp_path / "gone")
    command = ["bench", "all", "--method", "kmeans", "--seeds", 0, *TINY, "--out", tmp_path / "all", "--cache", cache]
    code, said, err = nngcd(*command)
    assert code == NoSuchDataError.exit_code
    assert "digits: kmeans" in said
    assert "failed: cub: D01: 'cub' was added as" in err
    assert (tmp_path / "all" / "digits" / "bench.md").is_file()
    code, _, err = nngcd("bench", "all", "--root", tmp_path)
    assert code == 2
    assert "belongs to one data set" in err


@pytest.mark.slow
def test_a_grid_may_be_in_a_folder_that_has_the_name_of_its_data(nngcd, tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["bench", "digits", "--method", "kmeans", "--seeds", "0,1", *TINY, "--out", "digits", "--cache", cache]
    code, _, err = nngcd(*command, "--quiet")
    assert code == 0, err
    assert len(pd.read_csv("digits/bench.csv")) == 2


def test_the_help_names_every_method(nngcd):
    from nngcd.core.components import component_names

    _, said, _ = nngcd("fit", "--help")
    words = set(said.replace(",", " ").replace(".", " ").split())
    assert not set(component_names("nngcd.methods", "Method")) - words


def test_two_grids_in_one_folder_do_not_make_a_run_twice(nngcd, out, cache, monkeypatch):
    from nngcd import pipeline

    def prepare(split, settings, **options):
        RunFolder.create(out / "kmeans-0")  # another process was faster
        return job.prepare(split, settings, **options)

    monkeypatch.setattr(pipeline, "prepare", prepare)
    code, _, err = nngcd("bench", "digits", "--method", "kmeans", "--seeds", 0, *TINY, "--out", out, "--cache", cache)
    assert code == 4
    assert "is in use by another process" in err
    assert {path.name for path in out.iterdir()} == {"kmeans-0"}


@pytest.mark.slow
def test_a_folder_called_as_the_benchmark_and_the_user_s_own_epochs_do_no_harm(nngcd, tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    code, said, err = nngcd("bench", "digits", "--method", "simgcd", "--seeds", "0,0", *SMALL, "--cache", cache,
                            "--set", "training.epochs=1")  # fmt: skip
    assert code == 0, err
    assert "SMOKE TEST" in said
    config = read_yaml(tmp_path / "runs" / "smoke-digits" / "simgcd-0" / "config.yaml")
    assert (config["data"], config["training"]["epochs"]) == ("digits", 1)


@pytest.mark.slow
def test_a_backbone_without_weights_does_not_stop_the_others(nngcd, out, cache):
    code, said, err = nngcd("study", "pretraining", "digits", "--values", "mocov3,efficientnet_lite0", "--seeds", 0,
                            *TINY, "--method", "kmeans", "--out", out, "--cache", cache)  # fmt: skip
    assert code == 4
    assert "| efficientnet_lite0 |" in said
    assert "failed: mocov3, seed 0: " in err
    assert "--weights" in err


def test_a_note_about_the_data_is_shown_once(capsys):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "showwarning", show_warning)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with each_note_once():
                for text in ("one", "two", "one"):
                    warnings.warn(text, NngcdWarning, stacklevel=1)
            assert warnings.showwarning is show_warning
    assert capsys.readouterr().err.split("note: ")[1:] == ["one\n", "two\n"]


@pytest.mark.slow
def test_the_ablation(nngcd, out, cache):
    code, said, err = nngcd("study", "ablation", "digits", "--seeds", 0, *SMALL, "--out", out, "--cache", cache)
    assert code == 0, err
    assert said.count("| non-negative") == 3
    assert "56.1 / 65.5 / 51.5" in said
    assert {path.name for path in out.iterdir()} >= {"none-0", "all-0", "ablation.md", "ablation.tex", "ablation.csv"}


@pytest.mark.slow
def test_a_sweep_of_the_number_of_categories(nngcd, out, cache, monkeypatch):
    shown = []
    display = run_display.progress_display
    monkeypatch.setattr(
        run_display, "progress_display", lambda **options: shown.append(options["is_quiet"]) or display(**options)
    )
    code, said, err = nngcd("study", "k", "digits", "--json", "--method", "kmeans", "--seeds", 0, *TINY, "--out", out,
                            "--cache", cache, "--set", "preset=default")  # fmt: skip
    assert code == 0, err
    assert shown and all(shown)  # nothing but JSON is printed
    assert [row["name"] for row in json.loads(said)["rows"]] == ["5", "8", "10", "12", "15", "20"]
    assert [json.loads((out / f"k={k}-0" / "summary.json").read_text())["k"] for k in (5, 8, 10, 12, 15, 20)] == [
        5,
        8,
        10,
        12,
        15,
        20,
    ]


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["bench", "digits", "--method", "simgdc"], 2, "Did you mean 'simgcd'"),
        (["bench", "digits", "--method", ","], 2, "--method = ',': name at least one"),
        (
            ["bench", "digits", "--method", "mugcd", "--preset", "official"],
            2,
            "unknown preset of mugcd. Choose from: d",
        ),
        (["bench", "digits", "--seeds", "x"], 2, "--seeds = 'x': is not a list of seeds"),
        (["bench", "digts"], 2, "unknown benchmark. Did you mean 'digits'"),
        (["study", "mu", "/data/my_images"], 2, "unknown benchmark"),
        (["bench", "folder"], 2, "unknown benchmark"),
        (["bench", "cub", "--root", "nowhere"], 2, "no CUB-200-2011 in"),
        (["study", "ablatoin", "digits"], 2, "Did you mean 'ablation'"),
        (["study", "ablation", "digits", "--values", "none,sparce"], 2, "unknown row. Did you mean 'sparse'"),
        (["study", "mu", "digits", "--values", "x"], 2, "nce_mean = 'x'"),
        (["study", "mu", "digits", "--method", "simgcd"], 2, "has no setting loss.nce_mean; leave out --method"),
        (["study", "mu", "digits", "--set", "loss.nce_mean=1"], 2, "is the setting this study varies"),
        (["study", "k", "digits", "--k", "12"], 2, "is the setting this study varies"),
        (["study", "k", "digits", "--values", "10,3"], 2, "must be at least 5, the number of labelled categories"),
        (["bench", "digits", "--root", "somewhere"], 2, "come with nngcd; leave it out"),
        (["bench", "digits", "--method", "kmeans,nngcd", "--set", "loss.nce_mean=0"], 2, "unknown setting"),
        (["bench", "digits", "--set", "dataset=cub"], 2, "--set dataset = 'cub': is set by DATASET and --root"),
        (["bench", "digits", "--set", "data=elsewhere"], 2, "is set by DATASET and --root; leave it out"),
        (["bench", "digits", "--set", "method=pim"], 2, "is set by --method; leave it out"),
        (["study", "mu", "digits", "--set", "seed=4"], 2, "is set by --seeds; leave it out"),
        (["study", "tune", "digits", "--set", "reading.fold=1"], 2, "is set by this study"),
        (["study", "ablation", "digits", "--set", "loss=3"], 2, "loss = 3: is a group; set its settings"),
        (["study", "gamma", "digits", "--values", "[1,2]"], 2, "--values = '[1,2]': give numbers or names"),
        (["study", "pretraining", "digits", "--values", "efficientnet_lite0,nope"], 2, "unknown backbone 'nope'"),
        (
            ["study", "tune", "digits", "--k", "3", "--final"],
            2,
            "must be at least 5, the number of labelled categories",
        ),
        (
            ["study", "tune", "digits", "--method", "kmeans"],
            2,
            "the built-in candidates (yours: --candidates FILE), matched",
        ),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(nngcd, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    found, said, err = nngcd(*arguments)
    assert found == code
    assert message in " ".join(err.split())
    assert "Traceback" not in said + err
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.needs("matplotlib")
@pytest.mark.slow
def test_half_the_epochs_of_a_trial_are_half_of_its_own(nngcd, out, cache):
    rows = ["--values", "as-is,half-epochs", "--seeds", "0", "--preset", "default", "--effort", "quick"]
    code, _, err = nngcd("study", "robustness", "digits", *rows, *SMALL, "--out", out, "--cache", cache)
    assert code == 0, err
    epochs = {
        name: read_yaml(out / f"{name}-0" / "config.yaml")["training"]["epochs"] for name in ("as-is", "half-epochs")
    }
    assert epochs == {"as-is": 2, "half-epochs": 1}


def test_a_study_that_is_not_there(nngcd):
    code, _, err = nngcd("study", "tun", "digits")
    assert code == 2
    assert "Did you mean 'tune'?" in err
