"""Everything from Python: a run folder is made, corrected, exported and used without a shell."""

from __future__ import annotations

import pandas as pd
import pytest

import nngcd
import nngcd as package
from nngcd import CategoryDiscovery
from nngcd.core.errors import ConfigError, DataError, Interrupted, UserError
from nngcd.core.progress import Progress

SETTINGS = {"k": 3, "method": "kmeans", "image_size": 32, "workers": 0}
FLAGS = ["--k", 3, "--method", "kmeans", "--image-size", 32, "--workers", 0]
SAME = ("results.csv", "categories.csv", "config.yaml", "data/split.csv", "model/categories.json", "README.txt")
"""Files of a run that name neither times nor machines."""
TIMED = {f"run/{name}" for name in ("summary.json", "environment.json", "digests.json", "log.txt")}
"""Files of a run that hold times, or the command."""


@pytest.mark.slow
def test_python_and_the_command_line_make_the_same_run(nngcd, image_folder, tmp_path):
    run = package.run(image_folder, SETTINGS, out=tmp_path / "python" / "run")
    assert nngcd("fit", image_folder, *FLAGS, "--out", tmp_path / "shell" / "run")[0] == 0
    for name in SAME:
        assert (run.path / name).read_bytes() == (tmp_path / "shell" / "run" / name).read_bytes(), name
    assert run.folder.report.is_file()


def test_from_python_alone_every_file_is_that_of_the_command_line(nngcd, image_folder, tmp_path, monkeypatch):
    """Fit, edit, export and predict: the same bytes both ways."""
    monkeypatch.setattr("nngcd.review.session.now", lambda: "2000-01-01T00:00:00+00:00")
    monkeypatch.setattr("nngcd.review.session.account", lambda: "ana", raising=False)
    python, shell = tmp_path / "python", tmp_path / "shell"
    corrections = tmp_path / "corrections.csv"
    corrections.write_text("category,label\nnew-001,sky\n")
    run = package.run(image_folder, SETTINGS, out=python / "run", report=False)
    with run.edit() as review, review.batch():
        review.rename("new-001", "sky")
    run.export("csv,parquet,folders,coco,labelstudio,hf", python / "sorted")
    table = CategoryDiscovery.load(run.path).predict_table(image_folder / "_unlabelled")
    table.to_csv(python / "new.csv", index=False, float_format="%.6g")

    for command in (
        ["fit", image_folder, *FLAGS, "--no-report", "--out", shell / "run"],
        ["review", shell / "run", "--apply", corrections, "--yes"],
        ["export", shell / "run", "--to", "csv,parquet,folders,coco,labelstudio,hf", "--out", shell / "sorted"],
        ["predict", shell / "run", image_folder / "_unlabelled", "--out", shell / "new.csv"],
    ):
        code, _, err = nngcd(*command)
        assert code == 0, err
    assert _files(python) == _files(shell)
    assert "sky" in set(table["label"])
    for name in _files(python) - TIMED:
        assert (python / name).read_bytes() == (shell / name).read_bytes(), name


def _files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_run_is_corrected_exported_and_scored(nngcd, image_folder, tmp_path):
    run = package.run(image_folder, SETTINGS, out=tmp_path / "run", report=False)
    assert run.summary["k"] == 3
    assert not run.folder.report.is_file()
    with run.edit(user="ana") as review:
        review.rename("new-001", "sky")
    assert "sky" in set(run.categories["name"])
    labels, sorted_ = run.export("csv,folders", tmp_path / "sorted")
    exported = pd.read_csv(labels)
    assert (exported["label"] == "sky").sum() == (run.results["label"] == "sky").sum() > 0
    assert len(list((sorted_ / "sky").iterdir())) == (exported["label"] == "sky").sum()
    truth = tmp_path / "truth.csv"
    names = run.results["file_name"]
    pd.DataFrame({"file_name": names, "label": names.str.extract(r"(\w+)_\d+\.png")[0]}).to_csv(truth, index=False)
    assert run.evaluate(truth)["accuracy"]["all"] == 100
    assert run.report() == run.folder.report
    again = package.Run.open(run.path)
    assert again.results.equals(run.results)
    assert nngcd("fit", "--from-review", run.path, "--out", tmp_path / "shell")[0] == 0
    learnt = package.run(from_review=run.path, out=tmp_path / "learnt", report=False)
    assert (learnt.path / "results.csv").read_bytes() == (tmp_path / "shell" / "results.csv").read_bytes()


@pytest.mark.slow
def test_an_estimator_with_a_run_folder(image_folder, tmp_path):
    settings = {"image_size": 32, "workers": 0}
    discovery = CategoryDiscovery(3, method="kmeans", settings=settings, out=tmp_path / "run").fit(image_folder)
    assert discovery.run_.is_complete
    assert len(discovery.labels_) == len(discovery.result_) == 30
    with discovery.edit() as review:
        review.rename("new-001", "sky")
    assert "sky" in set(discovery.categories_["name"])
    assert discovery.export("csv", tmp_path / "sorted")[0].is_file()
    assert discovery.report() == tmp_path / "run" / "report.html"
    assert len(discovery.predict_table(image_folder)) == 30
    in_memory = CategoryDiscovery(3, method="kmeans", settings=settings | {"hold_back": 0.2}).fit(image_folder)
    assert in_memory.labels_.tolist() == discovery.labels_.tolist()


def test_what_needs_a_run_folder_says_how_to_get_one(blobs, image_folder, tmp_path):
    features, labels, _ = blobs
    with pytest.raises(ConfigError, match=r"np\.savez\('mine\.npz', X=X, y=y\)"):
        CategoryDiscovery(6, out=tmp_path / "run").fit(features, labels)
    fitted = CategoryDiscovery(6, method="kmeans").fit(features, labels)
    for call in (fitted.edit, fitted.export, fitted.evaluate):
        with pytest.raises(UserError, match=r'CategoryDiscovery\(out="RUN"\)'):
            call()
    with pytest.raises(UserError, match="no data to sort"):
        nngcd.run(settings=SETTINGS)
    with pytest.raises(DataError, match="not finished"):
        (tmp_path / "begun").mkdir()
        (tmp_path / "begun" / "config.yaml").write_text("data: x\n")
        nngcd.Run.open(tmp_path / "begun")


@pytest.mark.slow
def test_an_interrupt_says_what_is_kept_and_resume_goes_on(image_folder, tmp_path, stop_after):
    settings = SETTINGS | {"method": "simgcd", "training": {"epochs": 3}}
    whole = nngcd.run(image_folder, settings, out=tmp_path / "whole", report=False)

    with pytest.raises(Interrupted, match=r"up to the last complete epoch is kept\. To continue:  nngcd fit --resume"):
        nngcd.run(image_folder, settings, out=tmp_path / "run", report=False, progress=stop_after(2))
    resumed = nngcd.resume(tmp_path / "run", report=False, progress=Progress())
    assert (resumed.path / "results.csv").read_bytes() == (whole.path / "results.csv").read_bytes()


@pytest.mark.parametrize("settings", ["simgcd", ["simgcd"], 3])
def test_settings_that_are_not_a_dict_are_refused(settings, image_folder):
    with pytest.raises(ConfigError, match="give a dict of names and values"):
        package.run(image_folder, settings)
    with pytest.raises(ConfigError, match="give a dict of names and values"):
        CategoryDiscovery(settings=settings).fit(image_folder)


def test_mistakes_in_calls_of_a_run_are_errors_of_the_user(image_folder, tmp_path):
    run = package.run(image_folder, SETTINGS, out=tmp_path / "run", report=False)
    with pytest.raises(ConfigError, match=r"linc = .*Did you mean 'link'"):
        run.export("csv", tmp_path / "sorted", linc="copy")
    with pytest.raises(ConfigError, match="'csv,folders'"):
        run.export(["csv", "folders"], tmp_path / "sorted")
    with pytest.raises(ConfigError, match="max_images = -1"):
        run.report(tmp_path / "page.html", max_images=-1)
    assert not (tmp_path / "sorted").exists() and not (tmp_path / "page.html").exists()
    moved = image_folder.rename(tmp_path / "moved")
    assert run.export("folders", tmp_path / "sorted", root=str(moved))[0].is_dir()


def test_a_run_folder_among_the_images_is_refused_before_they_are_read(image_folder, monkeypatch):
    monkeypatch.setattr("nngcd.pipeline.open_dataset", lambda *_, **__: pytest.fail("the images were read"))
    with pytest.raises(ConfigError, match="is inside the data folder"):
        package.run(image_folder, SETTINGS, out=image_folder / "run")
