"""The command line as a person meets it: what is printed, the exit code, and what is left on disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pytest
from finished_runs import scores
from typer.testing import CliRunner

from nngcd.cli.app import app
from nngcd.cli.shared_options import seed_range
from nngcd.core.errors import ConfigError
from nngcd.core.run_folder import RunFolder
from nngcd.review.session import Review

COMMANDS = ("demo", "check", "fit", "report", "export", "predict", "embed", "estimate-k", "evaluate", "compare",
            "figures", "bench", "study", "doctor", "data list", "data add", "data verify")  # fmt: skip
FAST = ["--set", "loss.n_hidden=32", "--set", "loss.n_projection=16", "--set", "training.batch_size=48"]


@pytest.fixture
def arrays(blobs, tmp_path):
    features, labels, _ = blobs
    np.savez(tmp_path / "blobs.npz", X=features, y=labels)
    return tmp_path / "blobs.npz"


def test_every_command_has_help_with_an_example():
    for command in COMMANDS:
        result = CliRunner().invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0
        assert f"nngcd {command}" in result.output
        assert "Example:" in result.output


def test_version(nngcd):
    code, out, _ = nngcd("--version")
    assert (code, out.split()[0]) == (0, "nngcd")


def test_fit_predict_evaluate(nngcd, arrays, blobs, tmp_path):
    run = tmp_path / "run"
    code, out, err = nngcd("fit", arrays, "--k", 6, "--out", run, "--set", "training.epochs=5", *FAST)
    assert code == 0, err
    assert "180 unlabelled images were sorted into 6 of 6 categories" in out
    assert "12 labels are held back" in out
    assert "of known categories: 100.0 % (12 of 12 held-back labels; 95 % interval" in out
    assert f"nngcd predict {run}" in out
    assert "Traceback" not in out + err

    code, out, _ = nngcd("evaluate", run)
    assert code == 0
    assert "12 of 12 held-back labels" in out
    assert f"nngcd evaluate {run} --truth" in out

    code, out, _ = nngcd("predict", run, arrays, "--out", tmp_path / "new.csv")
    assert code == 0
    assert "240 images" in out
    table = pd.read_csv(tmp_path / "new.csv")
    assert {"file_name", "category", "status", "confidence", "alt_1"} <= set(table.columns)

    truth = pd.DataFrame({"file_name": table["file_name"], "label": blobs[2]})
    truth.to_csv(tmp_path / "truth.csv", index=False)
    code, out, _ = nngcd("evaluate", run, "--truth", tmp_path / "truth.csv")
    assert code == 0
    assert "accuracy (v2, one match)" in out
    assert "By name: 100.0 % of the images are right (known categories 100.0 %, new ones 100.0 %)." in out
    assert "Called known: 33.3 % of the images; 33.3 % truly are known." in out
    assert "review" not in out
    assert "Rows called known (60): the mean confidence is" in out
    assert "Rows called new (120): the mean confidence is" in out
    assert "Novelty, all rows: AUROC 1.000 for not belonging to a known category." in out
    truth.rename(columns={"file_name": "file", "label": "species"}).to_csv(tmp_path / "other.csv", index=False)
    code, _, err = nngcd("evaluate", run, "--truth", tmp_path / "other.csv")
    assert (code, "--columns file_name=file,label=species" in " ".join(err.split())) == (3, True)
    named = nngcd("evaluate", run, "--truth", tmp_path / "other.csv", "--columns", "file_name=file,label=species")
    assert named == (0, out, "")
    assert nngcd("evaluate", run, "--columns", "label=species")[0] == 2
    code, out, _ = nngcd("evaluate", run, "--truth", tmp_path / "truth.csv", "--json")
    assert json.loads(out)["accuracy"]["all"] > 80
    Review(RunFolder(run)).approve("0")
    scored = ("evaluate", run, "--truth", tmp_path / "truth.csv")
    assert "The accuracy includes the 1 edit in the review of this run." in nngcd(*scored)[1]
    said = nngcd(*scored, "--ignore-review")[1]
    assert "All scores are for the model alone: edits of a review are not counted." in said
    assert "the 1 edit in the review of this run is not counted" in nngcd("evaluate", run)[1]


def test_without_k_the_number_of_categories_is_estimated(nngcd, arrays, tmp_path):
    run = tmp_path / "run"
    code, out, err = nngcd("fit", arrays, "--method", "kmeans", "--out", run)
    assert code == 0, err
    assert "There seem to be about 6 categories" in out
    assert "sorted into 6 of 6 categories" in out
    estimate = json.loads((run / "k.json").read_text())
    assert estimate["k"] == 6
    assert estimate["low"] <= 6 <= estimate["high"]
    assert (run / "k.svg").read_text().startswith("<svg")


def test_only_the_number_of_categories_of_images_or_of_a_run(nngcd, arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = nngcd("estimate-k", arrays)
    assert code == 0, err
    assert "There seem to be about 6 categories" in out
    assert out.endswith(f"nngcd fit {arrays}\n"), "a number that is not sure is not handed on"
    curve = json.loads((tmp_path / "runs" / "blobs-k" / "k.json").read_text())["curve"]
    assert [k for k, _ in curve] == sorted(k for k, _ in curve)

    assert nngcd("fit", arrays, "--k", 6, "--method", "kmeans", "--out", tmp_path / "run", "--quiet")[0] == 0
    code, out, err = nngcd("estimate-k", tmp_path / "run", "--k", "4..9", "--method", "accuracy", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["k"], found["method"]) == (6, "accuracy")
    assert all(4 <= k <= 9 for k, _ in found["curve"])
    said = nngcd("estimate-k", tmp_path / "run", "--k", "4..9", "--method", "accuracy")[1]
    assert "biased towards" in said
    assert said.endswith(" --k 6\n") == (found["confidence"] != "low")
    # A second estimate does not overwrite the first.
    again = json.loads(nngcd("estimate-k", tmp_path / "run", "--json")[1])
    assert again["out"] != found["out"]


def test_an_estimate_that_fails_leaves_no_folder_and_one_that_cannot_be_written_fails_at_once(nngcd, arrays, tmp_path):
    out = tmp_path / "k"
    assert nngcd("estimate-k", arrays, "--out", out, "--k", "1..2")[0] == 2
    assert not out.exists()
    (tmp_path / "file").write_text("mine")
    code, _, err = nngcd("estimate-k", arrays, "--out", tmp_path / "file" / "k")
    assert code == 4
    assert "cannot create" in err


@pytest.mark.slow
@pytest.mark.needs("matplotlib")
def test_runs_side_by_side(nngcd, arrays, tmp_path):
    for method, seed in (("kmeans", 0), ("kmeans", 1), ("simgcd", 0)):
        few = ["--set", "training.epochs=1"] if method == "simgcd" else []
        out = tmp_path / f"{method}-{seed}"
        assert nngcd("fit", arrays, "--k", 6, "--method", method, "--seed", seed, "--out", out, "-q", *few)[0] == 0
    runs = [tmp_path / name for name in ("kmeans-0", "kmeans-1", "simgcd-0")]
    code, _, err = nngcd("compare", *runs)
    assert code == 3
    assert "no scores" in err
    for run in runs:
        summary = json.loads((run / "summary.json").read_text())
        accuracy = {"all": 50.0 + 3 * (summary["method"] == "simgcd"), "old": 60.0, "new": None}
        by_name = {"all": None, "old": None, "new": None}
        summary["scores"] = scores(
            protocol="made up", n_scored=1234, accuracy=accuracy, nmi=40.0, ari=30.0, by_name=by_name
        )
        (run / "summary.json").write_text(json.dumps(summary))
        (run / "digests.json").unlink()
    code, out, err = nngcd("compare", *runs)
    assert code == 0, err
    assert "| kmeans | 50.0 ± 0.0 | 60.0 ± 0.0 | - | 40.0 ± 0.0 | - | 0.5 ± 0.0 |" in out
    assert "made up; 1,234 images" in out
    assert "It holds 3 runs: name one, such as" in " ".join(nngcd("compare", tmp_path)[2].split())
    assert "simgcd is ahead of kmeans by 3.0 All on their only common seed" in out
    found = json.loads(nngcd("compare", *runs, "--json")[1])
    assert found["best"] == "simgcd"
    first = found["rows"][0]["scores"]["0"]
    assert (first["All"], first["Old"], first["New"], first["NMI"]) == (50.0, 60.0, None, 40.0)
    assert first["by name"] is None
    Review(RunFolder(runs[0])).approve("0")
    assert f"Edits in the review of {runs[0]} are not counted here" in " ".join(nngcd("compare", *runs)[1].split())
    (runs[0] / "summary.json").unlink()
    assert "is not finished" in nngcd("compare", *runs)[2]
    assert "must be one of md, csv, latex" in nngcd("compare", *runs, "--format", "xml")[2]


@pytest.mark.slow
@pytest.mark.needs("matplotlib")
def test_figures_of_runs_side_by_side(nngcd, arrays, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    few = ["--set", "training.epochs=2", *FAST]
    assert nngcd("fit", arrays, "--k", 6, "--out", ours, "-q", *few)[0] == 0
    assert nngcd("fit", arrays, "--k", 6, "--method", "kmeans", "--out", theirs, "-q")[0] == 0
    before = {path for path in ours.rglob("*") if path.is_file()}
    code, out, err = nngcd("figures", ours, theirs, "--format", "svg", "--only", "activation,attention,curves")
    assert code == 0, err
    assert f"Written to {ours / 'figures' / 'curves.svg'}" in out
    assert "Skipped attention: nngcd was made from features" in out
    assert "Traceback" not in out + err
    drawn = {path for path in ours.rglob("*") if path.is_file()} - before
    assert drawn == {ours / "figures" / f"{name}.svg" for name in ("activation", "curves")}
    text = " ".join((ours / "figures" / "activation.svg").read_text().split())
    assert "nngcd: projection with gelu, 16 axes, 240 images" in text
    assert "kmeans: features; the method has no projection" in text

    out = tmp_path / "elsewhere"
    named = ["--only", "cooccurrence,attention", "--format", "png", "--dpi", 40, "--out", out, "--json"]
    found = json.loads(nngcd("figures", theirs, *named)[1])
    assert found["written"] == [str(out / "cooccurrence.png")]
    assert "made from features" in found["skipped"]["attention"]


def test_figures_that_cannot_be_drawn_end_with_a_clear_message(nngcd, arrays, blobs, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    assert nngcd("fit", arrays, "--k", 6, "--method", "kmeans", "--out", run, "-q")[0] == 0
    code, _, err = nngcd("figures", run, "--only", "tsme")
    assert code == 2
    assert "unknown figure 'tsme'. Did you mean 'tsne'? Choose from: activation, attention, cooccurrence" in err
    assert "Choose from: svg, pdf, png" in nngcd("figures", run, "--format", "gif")[2]
    code, _, err = nngcd("figures", run, "--only", "curves")
    assert code == 3
    assert "nothing was drawn. curves: no epochs recorded for kmeans" in err
    assert "no class 'owl'" in nngcd("figures", run, "--classes", "owl")[2]
    assert not (run / "figures").exists()
    np.savez(tmp_path / "half.npz", X=blobs[0][::2], y=blobs[1][::2])
    assert nngcd("fit", tmp_path / "half.npz", "--k", 6, "--method", "kmeans", "--out", other, "-q")[0] == 0
    assert "different images or labels" in nngcd("figures", run, other)[2]
    (run / "summary.json").unlink()
    code, _, err = nngcd("figures", run)
    assert code == 3
    assert "is not finished" in err
    assert not (run / "figures").exists()


def test_some_commands_run_in_one_process_only(nngcd, arrays, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    code, _, err = nngcd("estimate-k", arrays, "--out", tmp_path / "k")
    assert code == 2
    assert "only fit, embed, predict run in several processes; start `nngcd estimate-k` in one" in err


def test_json_is_all_that_is_printed(nngcd, arrays, tmp_path):
    arguments = ["--k", 6, "--method", "kmeans", "--json"]
    code, out, _ = nngcd("fit", arrays, "--out", tmp_path / "run", *arguments)
    assert code == 0
    assert json.loads(out)["k"] == 6
    code, out, _ = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "p.parquet", "--json")
    assert json.loads(out)["out"].endswith("p.parquet")
    assert sum(json.loads(out)[status] for status in ("known", "new", "unsure", "unreadable")) == 240
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 240


def test_a_second_run_of_one_name_says_that_it_has_another(nngcd, arrays, tmp_path):
    command = ["fit", arrays, "--out", tmp_path / "run", "--k", 6, "--method", "kmeans", "--set", "training.epochs=1"]
    assert "already exists" not in nngcd(*command)[1]
    assert f"run folder: {tmp_path / 'run-2'} ({tmp_path / 'run'} already exists)" in nngcd(*command)[1]


def test_what_is_there_is_not_overwritten(nngcd, arrays, tmp_path):
    nngcd("fit", arrays, "--out", tmp_path / "run", "--k", 6, "--method", "kmeans", "-q")
    (tmp_path / "precious.csv").write_text("mine")
    code, _, err = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "precious.csv")
    assert (code, (tmp_path / "precious.csv").read_text()) == (2, "mine")
    assert "--overwrite" in err
    code, _, _ = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "precious.csv", "--overwrite", "-q")
    assert code == 0
    code, _, err = nngcd("predict", tmp_path / "run", arrays, "--out", tmp_path / "precious.csv" / "x.csv", "-q")
    assert (code, "Traceback" in err) == (4, False)


def test_a_settings_file_and_a_flag_that_contradicts_it(nngcd, arrays, tmp_path):
    nngcd("fit", arrays, "--out", tmp_path / "run", "--k", 6, "--method", "kmeans", "-q")
    file = tmp_path / "run" / "config.yaml"
    code, _, err = nngcd("fit", "--config", file, "--preset", "paper", "--out", tmp_path / "b")
    assert code == 2
    assert "the settings file has preset default" in " ".join(err.split())
    assert nngcd("fit", "--config", file, "--seed", 5, "--out", tmp_path / "c", "-q")[0] == 0


def test_an_unclear_folder_name_is_settled_on_the_command_line(nngcd, image_folder, tmp_path):
    (image_folder / "red").rename(image_folder / "unknown")
    arguments = ["fit", image_folder, "--k", 3, "--method", "kmeans", "--image-size", 32, "-q", "--workers", 0]
    code, _, err = nngcd(*arguments, "--out", tmp_path / "a")
    assert code == 3
    assert "--category unknown" in " ".join(err.split())
    assert not (tmp_path / "a").exists()
    code, out, _ = nngcd(*arguments, "--out", tmp_path / "b", "--category", "unknown")
    assert code == 0
    assert "2 known categories" in out


@pytest.mark.parametrize(
    ("name", "content"),
    [("results.parquet", b"junk"), ("model/config.json", b'{"format": 1}'), ("model/model.safetensors", b"junk")],
)
def test_a_damaged_run_folder_is_named_without_a_traceback(nngcd, arrays, blobs, tmp_path, name, content):
    run = tmp_path / "run"
    nngcd("fit", arrays, "--out", run, "--k", 6, "--method", "kmeans", "-q")
    (run / name).write_bytes(content)
    (tmp_path / "truth.csv").write_text("file_name,label\nrow-000000,0\n")
    if name == "results.parquet":
        code, _, err = nngcd("evaluate", run, "--truth", tmp_path / "truth.csv")
    else:
        code, _, err = nngcd("predict", run, arrays, "--out", tmp_path / "p.csv", "-q")
    assert (code, "Traceback" in err) == (3, False)


@pytest.mark.slow
def test_doctor(nngcd):
    code, out, _ = nngcd("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert {"nngcd", "simgcd", "kmeans"} <= set(facts["methods"])
    assert facts["default_backbone"].startswith("ok")
    assert "versions" in nngcd("doctor")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit"], 2, "no data to sort"),
        (["fit", "plnkton"], 2, "plnkton"),
        (["fit", "digits", "--method", "simgdc"], 2, "Did you mean 'simgcd'"),
        (["fit", "digits", "--method", "simgcd+hypcd"], 2, "use --method simgcd --set loss.geometry=poincare"),
        (["fit", "digits", "--method", "cms+eagc"], 2, "use --method cms --set eagc.active=true"),
        (["fit", "digits", "--preset", "papr"], 2, "Did you mean 'paper'"),
        (["fit", "digits", "--set", "training.epoch=3"], 2, "Did you mean 'epochs'"),
        (["fit", "digits", "--device", "cuda:99"], 4, "no cuda:99 device"),
        (["fit", "digits", "--k", "3"], 2, "must be at least 5, the number of labelled categories"),
        (["fit", "digits", "--k", "2..4"], 2, "must be at least 5, the number of labelled categories"),
        (["fit", "digits", "--k", "9..4"], 2, "k = '9..4': the first number must not be larger"),
        (["fit", "digits", "--k", "0"], 2, "k = 0: must be at least 1"),
        (["fit", "digits", "--k", "-2..4"], 2, "k = '-2..4': must be at least 1"),
        (["fit", "digits", "--k", "5.."], 2, "a range such as 20..60"),
        (["fit", "digits", "--k", "many"], 2, "must be a number, auto, or a range"),
        (["estimate-k", "plnkton"], 2, "plnkton"),
        (["fit", "digits", "--preset", "paper", "--views-per-image", "0"], 2, "must be a number from 1 to "),
        (["fit", "digits", "--views-per-image", "-1"], 2, "must be a number from 0 to "),
        (["fit", "digits", "--views-per-image", "many"], 2, "must be a number from 0 to "),
        (["fit", "digits", "--bank-size", "0"], 2, "views.bank_gb = 0.0: must be positive"),
        (["fit", "digits", "--bank-size", "0.001"], 4, "13.8 MB) takes more than the 0.001 GB allowed"),
        (["fit", "--resume", "x", "--bank-size", "3"], 2, "leave out --bank-size"),
        (["estimate-k", "digits", "--k", "20"], 2, "k = '20': is a single number; give a range such as 20..60"),
        (["estimate-k", "digits", "--method", "elbow"], 2, "elbow"),
        (["fit", "digits", "--backbone", "resnet999"], 2, "resnet999"),
        (["fit", "digits", "--resume", "x"], 2, "leave out DATA"),
        (["fit", "--resume", "x", "--k", "9"], 2, "leave out --k"),
        (["fit", "--resume", "x", "--out", "y"], 2, "leave out --out"),
        (["fit", "--resume", "x", "--use-all-labels"], 2, "leave out --use-all-labels"),
        (["fit", "--resume", "x", "--unsure", "0.1"], 2, "leave out --unsure"),
        pytest.param(["fit", "digits", "--out", "."], 2, "is an existing folder", marks=pytest.mark.slow),
        (["fit", "digits", "--set", "precision=foo"], 2, "precision = 'foo'"),
        (["fit", "digits", "--set", "loss.entropy_weight=.nan"], 2, "loss.entropy_weight = nan: must be"),
        (["fit", "digits", "--set", "loss.sparse_on=xx"], 2, "loss.sparse_on = 'xx': give a list"),
        (["figures", "absent"], 2, "absent does not exist"),
        (["compare", "absent"], 2, "absent does not exist"),
        (["fit", "--resume", "absent"], 2, "absent does not exist"),
        (["fit", "digits", "--config", "absent.yaml"], 2, "absent.yaml"),
        (["predict", "absent", "digits"], 2, "absent does not exist"),
        (["predict", "absent", "digits", "--out", "x.docx"], 2, "must end in .csv or .parquet"),
        (["evaluate", "absent"], 2, "absent does not exist"),
        (["fit", "digits", "--unknown-flag"], 2, "--unknown-flag"),
        (["demo", "--seeds", "a-b"], 2, "is not a list of seeds"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing_behind(
    nngcd, tmp_path, monkeypatch, arguments, code, message
):
    monkeypatch.chdir(tmp_path)
    found, out, err = nngcd(*arguments)
    assert found == code
    assert message in " ".join((out + err).replace("│", " ").split())
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []


def test_our_own_bugs_say_that_they_are(nngcd, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("surprise")

    monkeypatch.setattr("nngcd.core.environment.versions", broken)
    code, _, err = nngcd("doctor")
    assert code == 1
    assert "surprise" in err
    assert "bug in nngcd" in err


def test_seeds():
    assert seed_range("0-2") == [0, 1, 2]
    assert seed_range("4") == [4]
    assert seed_range("1,5-6") == [1, 5, 6]
    with pytest.raises(ConfigError, match="more than 1,000 seeds"):
        seed_range("0-1000000000")
    for text in ("abc", "3-1", "-1", ""):
        with pytest.raises(ConfigError, match=f"^--seeds = '{text}': is not a list of seeds"):
            seed_range(text)


def wait_for_epochs(run, n, process):
    while process.returncode is None:
        if (run / "metrics.jsonl").is_file() and (run / "metrics.jsonl").read_text().count("\n") >= n:
            return
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_killed_at_any_moment_a_run_resumes_to_the_same_result(nngcd, arrays, tmp_path):
    options = ["--k", 6, "--seed", 4, "--set", "training.epochs=40", *FAST]
    whole = forked.nngcd("fit", arrays, "--out", tmp_path / "whole", *options)
    assert whole.wait() == 0, whole.communicate()

    broken = tmp_path / "broken"
    process = forked.nngcd("fit", arrays, "--out", broken, *options)
    for n_epochs in (3, 17):
        wait_for_epochs(broken, n_epochs, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (broken / "results.parquet").exists()
        process = forked.nngcd("fit", "--resume", broken)
    out, err = process.communicate()
    assert process.returncode == 0, err
    for name in ("results.parquet", "results.csv", "model/model.safetensors"):
        assert (broken / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    code, out, _ = nngcd("fit", "--resume", broken)
    assert (code, "is already complete" in out) == (0, True)


@pytest.mark.slow
def test_a_polite_stop_says_how_to_go_on(arrays, tmp_path):
    run = tmp_path / "run"
    process = forked.nngcd("fit", arrays, "--out", run, "--k", 6, "--set", "training.epochs=2000", *FAST)
    wait_for_epochs(run, 2, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f"nngcd fit --resume {run}" in err
    assert "Traceback" not in err
    assert not (run / ".holder").exists()


def forks_of(pid):
    """Return the children that run the same program."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            if Path(f"/proc/{child}/cmdline").read_bytes() == Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(child))
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a group of processes")
@pytest.mark.parametrize("is_whole_group", [True, False], ids=["all processes", "a reader"])
def test_reading_processes_that_are_ended_from_outside_are_no_bug(image_folder, tmp_path, is_whole_group):
    for i in range(3000):
        (image_folder / "red" / f"more{i}.png").symlink_to(image_folder / "red" / "red_0.png")
    options = ["--method", "kmeans", "--k", "3", "--workers", "1", "--cache", tmp_path / "cache"]
    process = forked.nngcd("fit", image_folder, "--out", tmp_path / "run", *options)
    while not forks_of(process.pid) and process.returncode is None:
        time.sleep(0.02)
    if is_whole_group:
        os.killpg(process.pid, signal.SIGTERM)
    while process.returncode is None:  # until it ends: the first fork may be of a library that asks the system
        for reader in () if is_whole_group else forks_of(process.pid):
            os.kill(reader, signal.SIGKILL)
        time.sleep(0.2)
    _, err = process.communicate()
    assert process.returncode == (130 if is_whole_group else 4), err
    assert "Traceback" not in err
    assert is_whole_group or "a process that reads images ended unexpectedly" in " ".join(err.split())


def test_a_polite_stop_before_the_run_is_an_interrupt(nngcd, arrays, monkeypatch):
    def stopped(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)  # Another thread may get the signal, and tells this one a little later.
        raise AssertionError("SIGTERM went unheard")

    monkeypatch.setattr("nngcd.pipeline.open_data", stopped)
    code, _, err = nngcd("fit", arrays)
    assert code == 130
    assert "Traceback" not in err


@pytest.mark.slow
def test_the_demo_finds_the_hidden_digits(nngcd, tmp_path):
    code, out, _ = nngcd("demo", "--out", tmp_path / "demo", "--seeds", "0", "--json")
    assert code == 0
    summaries = json.loads(out)
    nngcd_all, kmeans_all = (summaries[method][0]["scores"]["accuracy"]["all"] for method in ("nngcd", "kmeans"))
    assert nngcd_all > 80
    assert nngcd_all > kmeans_all + 5
