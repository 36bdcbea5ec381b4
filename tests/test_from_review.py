"""The loop from a run through its review to the next run; on features, so that it takes a second."""

import numpy as np
import pandas as pd
import pytest
import yaml

from nngcd import CategoryDiscovery
from nngcd.core.errors import DataError, UserError
from nngcd.core.run_folder import RunFolder
from nngcd.review.reviewed import reviewed_results, undecided
from nngcd.review.session import Review


@pytest.fixture
def run(nngcd, blobs, tmp_path, made_once):
    """240 rows of six groups, three of them known with 20 labels each; new-001 is named, one image rejected."""

    def make(folder):
        np.savez(folder / "blobs.npz", X=blobs[0], y=blobs[1])
        code, _, err = nngcd("fit", folder / "blobs.npz", "--k", 6, "--method", "kmeans", "--out", folder / "run", "-q")
        assert code == 0, err
        review = Review(RunFolder.open(folder / "run"))
        review.rename("new-001", "lynx")
        review.merge(["new-002", "new-003"])
        review.reject(["row-000001"])
        review.move(["row-000003"], to="2")

    return RunFolder.open(made_once(make, tmp_path) / "run")


def test_the_next_run_learns_from_the_decisions(nngcd, run, tmp_path):
    code, said, err = nngcd("fit", "--from-review", run.path, "--out", tmp_path / "next")
    assert code == 0, err
    assert "101 of 240 images have a label now:" in said
    assert "      60  already had a label" in said
    assert "      40  are in new categories that were named" in said
    assert "       1  were moved by hand" in said
    assert "Left out: 1 rejected" in said
    hint = "80 images in a category that you merged or split stay unlabelled ('new-002')"
    assert hint in " ".join(said.split())
    assert "239 images: 101 labelled in 4 categories, 138 unlabelled, 1 not used" in said
    after = RunFolder.open(tmp_path / "next")
    assert yaml.safe_load(after.config.read_text())["k"] == 5, "one category was merged away"
    results = pd.read_parquet(after.results).set_index("file_name")
    assert results.loc["row-000003", "label_given"] == "2"
    assert (results["label_given"] == "lynx").sum() == 40
    assert "row-000001" not in results.index
    assert pd.read_csv(after.problems)["code"].tolist() == ["rejected"]
    # Later edits change nothing for the run that was begun.
    Review(run).rename("new-001", "wolf")
    code, said, err = nngcd("fit", "--resume", after.path)
    assert (code, "is already complete" in said) == (0, True), err
    code, _, err = nngcd("fit", "--config", after.config, "--out", tmp_path / "again", "-q")
    assert code == 0, err
    assert pd.read_parquet(tmp_path / "again" / "results.parquet").equals(pd.read_parquet(after.results))


def test_what_was_merged_or_split_without_a_name_is_counted(run):
    assert undecided(reviewed_results(run)) == {"new-002": 80}
    review = Review(run)
    review.split("new-002", parts=2)
    review.merge(["new-001", "2"])
    sizes = undecided(reviewed_results(run))
    assert (list(sizes), sum(sizes.values())) == (["new-004", "new-005"], 80), "merged into a known one is a label"
    review.approve("new-004")
    review.rename("new-005", "wolf")
    assert undecided(reviewed_results(run)) == {}


@pytest.mark.slow
def test_the_loop_goes_on_and_what_was_rejected_stays_out(nngcd, run, tmp_path):
    assert nngcd("fit", "--from-review", run.path, "--out", tmp_path / "second", "-q")[0] == 0
    second = RunFolder.open(tmp_path / "second")
    Review(second).reject(["row-000005"])
    code, said, err = nngcd("fit", "--from-review", second.path, "--out", tmp_path / "third")
    assert code == 0, err
    assert "Left out: 2 rejected" in said
    assert "238 images: 101 labelled in 4 categories" in said
    assert set(pd.read_csv(tmp_path / "third" / "problems.csv")["file_name"]) == {"row-000001", "row-000005"}


@pytest.mark.slow
def test_a_split_known_category_keeps_its_labels_and_the_next_round_has_ids_of_its_own(nngcd, run, tmp_path):
    given = pd.read_parquet(run.results).set_index("file_name")["label_given"].dropna()
    ids = Review(run).split("0", parts=2)
    assert set(ids) == {"0", "new-004"}
    code, _, err = nngcd("fit", "--from-review", run.path, "--out", tmp_path / "second")
    assert code == 0, err
    second = RunFolder.open(tmp_path / "second")
    settings = yaml.safe_load(second.config.read_text())
    assert (settings["k"], settings["reading"]["round"]) == (6, 2)
    results = pd.read_parquet(second.results).set_index("file_name")
    kept = [name for name in given.index if name in results.index and name != "row-000003"]
    assert (results.loc[kept, "label_given"] == given[kept]).all()
    assert set(results["category"]) <= {"0", "1", "2", "lynx", "new2-001", "new2-002"}
    assert "new2-001" in set(results["category"])
    assert Review(second).split("new2-001") == ["new2-003", "new2-004"]
    assert nngcd("fit", "--from-review", second.path, "--out", tmp_path / "third", "-q")[0] == 0
    third = pd.read_parquet(tmp_path / "third" / "results.parquet")
    assert "new3-001" in set(third["category"])


def test_predictions_name_all_parts_of_a_split_known_category(nngcd, run, tmp_path):
    Review(run).split("0", parts=2)
    code, _, err = nngcd("predict", run.path, tmp_path / "blobs.npz", "--out", tmp_path / "new.csv")
    assert code == 0, err
    table = pd.read_csv(tmp_path / "new.csv", dtype=str)
    assert set(table.loc[table["category"] == "0", "label"]) == {"0 or new-004"}


def test_another_method_takes_its_own_recipe(nngcd, run, tmp_path):
    small = ["--set", "training.epochs=1", "--set", "loss.n_hidden=8", "--set", "loss.n_projection=4"]
    code, _, err = nngcd(
        "fit", "--from-review", run.path, "--method", "simgcd", "--k", 7, "--out", tmp_path / "n", *small
    )
    assert code == 0, err
    settings = yaml.safe_load((tmp_path / "n" / "config.yaml").read_text())
    assert (settings["method"], settings["k"]) == ("simgcd", 7)


def test_what_cannot_be_done(nngcd, run, tmp_path):
    code, _, err = nngcd("fit", tmp_path / "blobs.npz", "--from-review", run.path)
    assert (code, "leave out DATA" in err) == (2, True)
    code, _, err = nngcd("fit", "--resume", run.path, "--from-review", run.path)
    assert (code, "leave out --from-review" in err) == (2, True)
    run.edits.unlink()
    code, _, err = nngcd("fit", "--from-review", run.path)
    assert (code, "has no edits" in err) == (3, True)


def test_python_edits_the_same_log(run, blobs):
    discovery = CategoryDiscovery.load(run.path)
    assert discovery.categories_["name"].tolist() == ["0", "1", "2", "lynx", "new-002"]
    with discovery.edit(user="ana") as e:
        e.undo()
        e.split("new-002", parts=2)
        e.approve("new-001")
    assert discovery.result_.set_index("file_name").loc["row-000003", "category"] == "0"
    assert discovery.categories_["id"].tolist() == ["0", "1", "2", "new-001", "new-004", "new-005"]
    assert discovery.categories_["reviewed"].tolist() == [False, False, False, True, False, False]
    assert len(discovery.predict(blobs[0])) == 240


def test_edits_without_a_block_are_told_to_make_one(run):
    with pytest.raises(AttributeError, match=r"with run.edit\(\) as e: e.rename\("):
        CategoryDiscovery.load(run.path).edit().rename("new-001", "wolf")


def test_an_unfinished_run_is_not_loaded(run):
    run.summary.unlink()
    with pytest.raises(DataError, match=r"is not finished. Finish it first: nngcd fit --resume .*run"):
        CategoryDiscovery.load(run.path)


def test_edits_need_a_run_folder(blobs):
    discovery = CategoryDiscovery(6, method="kmeans").fit(blobs[0], blobs[1])
    with pytest.raises(UserError, match=r'edits are kept in a run folder.*CategoryDiscovery\(out="RUN"\)'):
        discovery.edit()
