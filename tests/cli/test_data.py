"""`nngcd data`, and the commands that take a benchmark by its name."""

from __future__ import annotations

import json
import shutil

import miniatures
import pytest

FAST = ["--method", "kmeans", "--image-size", 32, "--workers", 0, "--device", "cpu", "-q"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def cifar(tmp_path):
    return miniatures.cifar10(tmp_path / "copy")


def words(*texts):
    return " ".join("".join(texts).split())


def test_the_list_says_where_each_lies_or_how_to_add_it(nngcd, tmp_path, home):
    home.mkdir()
    places = {"cifar10": str(tmp_path), "cub": str(tmp_path / "gone")}
    (home / "datasets.json").write_text(json.dumps(places))
    code, out, _ = nngcd("data", "list")
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines()}
    assert code == 0
    assert lines["cifar10"] == f"cifar10 5 / 5 12,500 37,500 10,000 {tmp_path}"
    assert lines["cub"] == f"cub 100 / 100 1,498 4,496 5,794 {tmp_path / 'gone'} is gone; nngcd data add cub ROOT"
    assert lines["stanford_cars"] == "stanford_cars 98 / 98 2,000 6,144 8,041 nngcd data add stanford_cars ROOT"
    assert lines["digits"] == "digits 5 / 5 450 1,347 - comes with nngcd"
    rows = json.loads(nngcd("data", "list", "--json")[1])
    assert [(row["name"], row["is_there"]) for row in rows if row["root"]] == [("cifar10", True), ("cub", False)]
    assert len(rows) == 8


@pytest.mark.slow
@pytest.mark.filterwarnings("default::nngcd.core.errors.NngcdWarning")
def test_added_once_a_benchmark_is_fitted_evaluated_and_resumed_by_name(nngcd, cifar, home, tmp_path):
    code, out, err = nngcd("data", "add", "cifar10", "copy")
    assert code == 0
    assert "'cifar10' should have 12,500 labelled and 37,500 unlabelled images" in words(err)
    assert "labelled 12,500 12 differs" in words(out)
    assert f"Added: {cifar}" in words(out)

    code, out, err = nngcd("fit", "cifar10", "--out", "run", *FAST)
    assert code == 0, err
    assert "data: cifar10\n" in (tmp_path / "run" / "config.yaml").read_text()
    assert nngcd("evaluate", "run", "--json")[0] == 0
    code, out, err = nngcd("evaluate", "run", "--split", "test", "--workers", 0, "--json")
    assert code == 0, err
    scores = json.loads(out)
    assert scores["protocol"].startswith("inductive: official test images, one Hungarian match over all of them (v2)")
    assert scores["n_scored"] == scores["n_true_classes"] == 10
    assert scores["accuracy"]["all"] > 50

    cifar.rename(tmp_path / "moved")
    code, _, err = nngcd("evaluate", "run")
    assert (code, "no longer a folder" in words(err)) == (2, True)
    code, out, _ = nngcd("data", "add", "cifar10", tmp_path / "moved", "--quiet")
    assert (code, f"(was {cifar})" in words(out)) == (0, True)
    assert nngcd("evaluate", "run", "--json")[0] == 0

    (home / "datasets.json").unlink()
    (tmp_path / "run" / "summary.json").unlink()
    for command in (["evaluate", "run"], ["evaluate", "run", "--split", "test"], ["fit", "--resume", "run"]):
        code, _, err = nngcd(*command)
        assert (code, "nngcd data add cifar10 ROOT" in words(err)) == (3, True), command


@pytest.mark.slow
@pytest.mark.filterwarnings("default::nngcd.core.errors.NngcdWarning")
def test_a_path_with_the_name_beside_it_still_works_and_the_draw_is_in_the_protocol(nngcd, cifar):
    draw = ["--set", "reading.draw=stratified"]
    code, out, err = nngcd("fit", cifar, "--dataset", "cifar10", "--out", "run", *FAST, *draw)
    assert code == 0, err
    assert "stratified draw: 'cifar10' should have" in words(err)
    assert "(v2), last epoch, stratified draw" in words(out)
    for part in ("train", "test"):
        scores = json.loads(nngcd("evaluate", "run", "--split", part, "--workers", 0, "--json")[1])
        assert scores["protocol"].endswith("stratified draw")

    batches = cifar / "cifar-10-batches-py"
    names = ["kitten" if name == "cat" else name for name in miniatures.CIFAR10_NAMES]
    miniatures.write_python2_pickle(batches / "batches.meta", {"label_names": names})
    code, _, err = nngcd("evaluate", "run", "--split", "test", "-q")
    assert (code, "the run has a class 'cat' that the test images lack" in words(err)) == (3, True)
    (batches / "test_batch").unlink()
    code, _, err = nngcd("evaluate", "run", "--split", "test", "-q")
    assert (code, "no test images of CIFAR-10" in words(err), "test_batch" in err) == (3, True, True)


@pytest.mark.filterwarnings("default::nngcd.core.errors.NngcdWarning")
def test_verify_lists_what_is_missing_and_ends_with_code_3(nngcd, tmp_path):
    root = miniatures.cub(tmp_path / "CUB", n_per_class=2)
    gone = root / "CUB_200_2011" / "images" / "007.Bird"
    shutil.rmtree(gone)
    code, out, err = nngcd("data", "verify", "cub", root)
    assert code == 3
    assert "unlabelled 4,496 149 differs" in words(out)
    assert "2 files cannot be used: 007.Bird/Bird_0000_7.jpg: missing (D15)" in words(out)
    assert "reading train" in out
    report = json.loads(nngcd("data", "verify", "cub", root, "--json")[1])
    assert (report["is_right"], len(report["problems"]), len(report["split_hash"])) == (False, 2, 64)
    assert [count["found"] for count in report["counts"]] == [50, 149, 199, 199]

    shutil.rmtree(gone.parent)
    gone.parent.mkdir()
    code, _, err = nngcd("data", "add", "cub", root)
    assert (code, "D15: 200 of 200 images cannot be used" in words(err)) == (3, True)
    assert not (tmp_path / "home").exists()


def test_a_whole_copy_is_right_and_absent_test_images_are_no_fault(nngcd, cifar, monkeypatch):
    from nngcd.datasets import published_splits

    sizes = {"n_labelled": 12, "n_unlabelled": 38, "n_images": 50, "n_test": 10}
    changed = {name: split | sizes for name, split in published_splits._all_splits().items()}
    monkeypatch.setattr(published_splits, "_all_splits", lambda: changed)
    code, out, _ = nngcd("data", "verify", "cifar10", cifar)
    assert (code, "cifar10: OK; 5 old and 5 new classes" in words(out), "differs" in out) == (0, True, False)
    (cifar / "cifar-10-batches-py" / "test_batch").unlink()
    code, out, _ = nngcd("data", "verify", "cifar10", cifar)
    assert (code, "lacks cifar-10-batches-py/test_batch" in words(out)) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["data", "add", "cubb", "."], 2, "unknown benchmark 'cubb'. Did you mean 'cub'?"),
        (["data", "verify", "cubb"], 2, "unknown benchmark 'cubb'. Did you mean 'cub'?"),
        (["fit", "cubb"], 2, "Did you mean 'cub'?"),
        (["data", "add", "digits", "."], 2, "comes with nngcd"),
        (["data", "add", "cub", "nowhere"], 2, "no CUB-200-2011 in 'nowhere', which is not a folder"),
        (["data", "add", "cub", "file.txt"], 2, "no CUB-200-2011 in 'file.txt', which is not a folder"),
        (["data", "add", "cub", "."], 3, "which has other files. Expected images.txt"),
        (["data", "verify", "cub"], 3, "nngcd data verify cub ROOT"),
        (["fit", "cub"], 3, "nngcd data add cub ROOT"),
        (["fit", "digits", "--set", "reading.draw=random"], 2, "'pooled' or 'stratified'"),
        (["evaluate", "x", "--split", "val"], 2, "must be train or test"),
        (["evaluate", "x", "--split", "test", "--truth", "t.csv"], 2, "leave it out"),
    ],
)
def test_mistakes_get_one_clear_message_and_add_nothing(nngcd, tmp_path, arguments, code, message):
    (tmp_path / "file.txt").write_text("mine")
    found, out, err = nngcd(*arguments)
    assert (found, message in words(out, err)) == (code, True), words(out, err)
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_a_damaged_file_of_places_is_found_before_the_long_reading(nngcd, cifar, home):
    home.mkdir()
    (home / "datasets.json").write_text("{")
    for command in (["data", "list"], ["data", "add", "cifar10", cifar], ["fit", "cub"]):
        code, _, err = nngcd(*command)
        assert (code, "is damaged" in words(err)) == (3, True), command
    assert (home / "datasets.json").read_text() == "{"


def test_a_folder_called_as_a_benchmark_is_read_as_a_folder_and_this_is_said(
    nngcd, image_folder, monkeypatch, tmp_path
):
    image_folder.rename(tmp_path / "cub")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.filters", [])  # shown, not raised
    code, out, err = nngcd("fit", "cub", "--method", "kmeans", "--k", 3, "--image-size", 32, "--workers", 0)
    assert code == 0, err
    assert "'cub' is a folder here and is read as a folder of images" in " ".join(err.split())
    assert "2 known categories" in out
