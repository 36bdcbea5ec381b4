"""The command as a person meets it: what is written, what is said, and that nothing of theirs is touched."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from finished_runs import finished_run, results_table
from PIL import Image

from nngcd.core.words import size
from nngcd.datasets.opening import open_dataset
from nngcd.export import originals, unfinished
from nngcd.review.session import Review


def snapshot(folder):
    return {p.relative_to(folder): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.mark.parametrize("link", ["hard", "sym", "copy"])
def test_folders_of_links_leave_the_originals_alone(nngcd, reviewed_run, data, tmp_path, link):
    before = snapshot(data)
    out = tmp_path / "sorted"
    code, said, err = nngcd("export", reviewed_run.path, "--to", "csv,folders", "--out", out, "--link", link)
    assert code == 0, err
    assert snapshot(data) == before
    assert files(out / "images") == [
        "=Tawny, _b_/e.png", "=Tawny, _b_/f.png", "=Tawny, _b_/g.png", "=Tawny, _b_/h.png", "crow/d.png", "names.csv",
        "owl/a.png", "owl/b.png", "owl/i.png"]  # fmt: skip
    owl = out / "images" / "owl" / "i.png"
    assert owl.read_bytes() == (data / "_unlabelled" / "i.png").read_bytes()
    assert owl.is_symlink() == (link == "sym")
    assert owl.samefile(data / "_unlabelled" / "i.png") == (link != "copy")
    assert "10 rows" in said
    assert "Changed for the file system: 1 category name (" in said
    assert "Not in images: 1 rejected" in said
    assert "2 of 3 categories are not reviewed (reviewed=false). To leave them out: --only reviewed" in said  # E02


def test_images_nobody_is_sure_of_have_a_folder_and_no_annotation(nngcd, tmp_path, data):
    results = results_table()
    results.loc[[1, 8], "status"] = "unsure"
    run = finished_run(tmp_path / "unsure", data=data, results=results)
    code, said, _ = nngcd("export", run.path, "--to", "folders,coco,hf,labelstudio", "--out", tmp_path / "o")
    assert code == 0
    assert files(tmp_path / "o" / "images" / "_unsure") == ["b.png", "i.png"]
    assert "3 folders of hard links to your files, and _unsure (2)" in said
    coco = json.loads((tmp_path / "o" / "coco.json").read_text())
    assert (len(coco["images"]), len(coco["annotations"])) == (9, 7)


def test_a_category_called_unsure_is_not_mixed_with_the_images_nobody_is_sure_of(nngcd, tmp_path, data):
    results = results_table()
    results.loc[[1, 8], "status"] = "unsure"
    run = finished_run(tmp_path / "unsure", data=data, results=results)
    Review(run).rename("new-001", "_unsure")
    code, said, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o")
    assert code == 0, err
    images = tmp_path / "o" / "images"
    assert files(images / "_unsure") == ["b.png", "i.png"]
    assert "3 folders of hard links to your files, and _unsure (2)" in said
    exported = pd.read_csv(images / "names.csv").set_index("name")["exported"]["_unsure"]
    assert files(images / exported) == ["e.png", "f.png", "g.png", "h.png"]


def test_exported_folders_come_back_as_they_were(nngcd, tmp_path, data):
    results = results_table()
    results.loc[[1, 8], "status"] = "unsure"
    run = finished_run(tmp_path / "unsure", data=data, results=results)
    Review(run).rename("new-001", "unlabelled")
    assert nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o")[0] == 0
    split, _ = open_dataset(str(tmp_path / "o" / "images"))
    assert split.n_unlabelled == 2
    assert len(split.class_names) == 3 and "_unsure" not in split.class_names


def test_only_reviewed(nngcd, run, tmp_path):
    code, _, err = nngcd("export", run.path, "--only", "reviewed", "--out", tmp_path / "o")
    assert (code, "nothing in" in err) == (3, True)
    review = Review(run)
    review.approve("new-001")
    review.move(["_unlabelled/i.png"], to="owl")
    code, said, _ = nngcd("export", run.path, "--only", "reviewed", "--to", "csv,folders", "--out", tmp_path / "o")
    assert code == 0
    assert len(pd.read_csv(tmp_path / "o" / "labels.csv")) == 5
    assert files(tmp_path / "o" / "images") == ["new-001/e.png", "new-001/f.png", "new-001/g.png", "new-001/h.png",
                                                "owl/i.png"]  # fmt: skip
    assert "not reviewed" not in said


def test_names_are_made_safe_and_the_mapping_is_kept(nngcd, ugly_run, tmp_path):
    code, said, err = nngcd("export", ugly_run.path, "--to", "folders,hf", "--out", tmp_path / "o")
    assert code == 0, err
    images = tmp_path / "o" / "images"
    names = pd.read_csv(images / "names.csv").set_index("name")["exported"]
    assert names["<script>alert(1)</script>"] == "_script_alert(1)__script_"
    assert names["a/b"] == "a_b"
    assert names["dots..."] == "dots"
    folders = [p.name for p in images.iterdir() if p.is_dir()]
    assert "_CON" in folders
    assert any(name.startswith("_con-") for name in folders), "con and CON are one name on Windows"
    # The same file name in two folders, once more in capitals.
    owls = files(images / "_script_alert(1)__script_")
    assert len(owls) == 3
    assert "x.png" in owls
    assert len({name.casefold() for name in owls}) == 3
    assert names["b/x.png"] in [f"_script_alert(1)__script_/{name}" for name in owls]
    assert all(len(name.encode()) <= 125 for p in images.rglob("*") for name in [p.name])
    assert "Changed for the file system: 5 category names, 4 file names" in said
    metadata = pd.read_csv(tmp_path / "o" / "hf" / "train" / "metadata.csv")
    assert metadata["original"].tolist()[:2] == ["a/x.png", "b/x.png"]
    assert all((tmp_path / "o" / "hf" / "train" / name).is_file() for name in metadata["file_name"])


def test_hard_links_that_cannot_be_made_are_said_with_the_size_of_a_copy(nngcd, run, tmp_path, monkeypatch):
    def other_disk(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(originals.os, "link", other_disk)
    code, _, err = nngcd("export", run.path, "--to", "csv,folders", "--out", tmp_path / "o")
    assert code == 4
    n_bytes = sum(p.stat().st_size for p in (tmp_path / "data").rglob("*.png"))
    assert f"E01: cannot link across disks. To copy {size(n_bytes)} instead, add --link copy" in err.replace("\n", " ")
    assert list((tmp_path / "o").iterdir()) == []
    assert nngcd("export", run.path, "--to", "csv,folders", "--out", tmp_path / "o", "--link", "copy")[0] == 0


def test_an_interrupted_export_leaves_nothing_half_written(nngcd, run, tmp_path, monkeypatch):
    place, n_placed = originals.Files.place, iter(range(5))

    def interrupted(self, name, target, link):
        if next(n_placed) == 4:
            raise KeyboardInterrupt
        place(self, name, target, link)

    monkeypatch.setattr(originals.Files, "place", interrupted)
    code, _, _ = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o")
    assert code == 130
    assert list((tmp_path / "o").iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(nngcd, run, tmp_path, monkeypatch):
    def full(self, name, target, link):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(originals.Files, "place", full)
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o", "--link", "copy")
    assert (code, "No space left on device" in err) == (4, True)
    assert list((tmp_path / "o").iterdir()) == []


def test_what_is_there_is_not_overwritten(nngcd, run, tmp_path):
    out = tmp_path / "o"
    (out / "images").mkdir(parents=True)
    (out / "images" / "mine.txt").write_text("mine")
    (out / "labels.csv").write_text("mine")
    for formats, overwrite in (("csv", []), ("parquet,csv", []), ("folders", []), ("folders", ["--overwrite"])):
        code, _, err = nngcd("export", run.path, "--to", formats, "--out", out, *overwrite)
        assert (code, "exists" in err) == (2, True)
        assert files(out) == ["images/mine.txt", "labels.csv"]
        assert (out / "labels.csv").read_text() == "mine"
    # --overwrite would not help where a folder is in the way, too.
    code, _, err = nngcd("export", run.path, "--to", "csv,folders", "--out", out)
    assert (code, "already exists and is never replaced" in " ".join(err.split()), "--overwrite" in err) == (
        2,
        True,
        False,
    )
    assert nngcd("export", run.path, "--out", out, "--overwrite")[0] == 0
    assert (out / "labels.csv").read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--to", "cvs"],
            2,
            "unknown export 'cvs'. Did you mean 'csv'? Choose from: coco, csv, folders, hf, labelstudio, onnx,",
        ),
        (["--link", "soft"], 2, "must be one of hard, sym, copy"),
        (["--csv", "xls"], 2, "must be one of plain, excel"),
        (["--only", "known"], 2, "must be reviewed"),
    ],
)
def test_mistakes(nngcd, run, tmp_path, arguments, code, message):
    found, _, err = nngcd("export", run.path, "--out", tmp_path / "o", *arguments)
    assert found == code
    assert message in err.replace("\n", " ")
    assert not (tmp_path / "o").exists()


def test_the_place_must_not_lie_among_the_images(nngcd, run, data):
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", data / "sorted")
    assert (code, "inside the data folder" in err) == (2, True)
    assert not (data / "sorted").exists()


def test_images_that_were_moved_are_asked_for(nngcd, run, data, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.move(data, moved)
    (moved / "owl" / "a.png").unlink()
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o")
    assert code == 2
    assert "D01: the images are no longer in" in err
    assert "Say where they are: --root FOLDER" in err
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o", "--root", moved)
    assert "W02: 1 of 9 originals under" in err
    assert "'owl/a.png' (missing). Say where they are with --root FOLDER" in err
    assert not (tmp_path / "o" / "images").exists()
    # Tables need no images.
    assert nngcd("export", run.path, "--to", "csv,parquet,labelstudio", "--out", tmp_path / "o")[0] == 0


@pytest.mark.parametrize("formats", ["csv,folders", "labelstudio,hf", "parquet,coco"])
def test_what_a_later_format_needs_is_looked_for_before_the_first_is_written(nngcd, run, data, tmp_path, formats):
    image, out = data / "owl" / "a.png", tmp_path / "o"
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(data, elsewhere)
    image.unlink()
    code, _, err = nngcd("export", run.path, "--to", formats, "--out", out)
    assert (code, "W02: 1 of 9 originals" in err) == (3, True)
    assert not out.exists() or files(out) == []
    code, _, err = nngcd("export", run.path, "--to", formats, "--out", out, "--root", elsewhere)
    assert code == 0, err


def test_images_that_are_gone_for_good_can_be_left_out(nngcd, run, data, tmp_path):
    (data / "owl" / "a.png").unlink()
    to, out = ["--to", "csv,folders,hf,coco", "--skip-missing"], tmp_path / "o"
    _, _, err = nngcd("export", run.path, "--to", "folders", "--out", out)
    assert "or leave them out with --skip-missing" in " ".join(err.split())
    code, said, err = nngcd("export", run.path, *to, "--out", out)
    assert code == 0, err
    assert len(pd.read_csv(out / "labels.csv")) == 10, "a table keeps the row"
    assert files(out / "images" / "owl") == ["b.png", "c.png"]
    assert "owl/a.png" not in pd.read_csv(out / "hf" / "train" / "metadata.csv")["original"].tolist()
    assert len(json.loads((out / "coco.json").read_text())["images"]) == 8
    for place in ("images", "hf", "coco.json"):
        assert f"Not in {place}: 1 missing (--skip-missing)" in said
    shutil.rmtree(data / "owl")
    for image in data.rglob("*.png"):
        image.unlink()
    code, _, err = nngcd("export", run.path, *to, "--out", tmp_path / "p")
    assert (code, "W02: 9 of 9 originals" in err, "--skip-missing" in err) == (3, True, False)


def test_results_that_point_outside_are_refused(nngcd, tmp_path, data):
    results = results_table()
    results.loc[0, "file_name"] = "../secret.png"
    (tmp_path / "secret.png").write_text("secret")
    run = finished_run(tmp_path / "bad", data=data, results=results)
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "o")
    assert (code, "D18" in err) == (3, True)


@pytest.mark.parametrize("link", ["hard", "sym", "copy"])
def test_a_strangers_run_hands_on_no_file_of_this_machine(nngcd, tmp_path, link):
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "shadow").write_text("root:secret")
    os.mkfifo(etc / "pipe")
    for i in range(2):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(etc / f"{i}.png")
    results = results_table()[:4].assign(file_name=["shadow", "pipe", "0.png", "1.png"])
    run = finished_run(tmp_path / "run", data=etc, results=results)
    Image.new("RGB", (4, 4), "blue").save(etc / "0.png")  # another picture than the run saw
    for formats, flags in (("folders", ()), ("hf", ()), ("coco", ())):
        code, _, err = nngcd("export", run.path, "--to", formats, "--out", tmp_path / "o", "--link", link, *flags)
        assert (code, "W02: 3 of 4 originals under" in err) == (3, True)
    code, said, err = nngcd("export", run.path, "--to", "folders,hf,coco", "--out", tmp_path / "o", "--link", link,
                            "--skip-missing")  # fmt: skip
    assert code == 0, err
    assert files(tmp_path / "o" / "images") == ["crow/1.png"]
    assert files(tmp_path / "o" / "hf" / "train" / "images") == ["1.png"]
    assert [image["file_name"] for image in json.loads((tmp_path / "o" / "coco.json").read_text())["images"]] == [
        "1.png"
    ]
    assert "Not in images: 1 unknown format (--skip-missing): 'shadow'" in said
    assert "Not in images: 1 not a file (--skip-missing): 'pipe'" in said
    assert "Not in images: 1 changed since the run (--skip-missing): '0.png'" in said


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "a/../../secret.png"])
def test_no_format_follows_a_name_out_of_the_folder(nngcd, tmp_path, data, name):
    results = results_table()
    results.loc[0, "file_name"] = name
    run = finished_run(tmp_path / "bad", data=data, results=results)
    for formats in ("folders", "hf", "coco", "labelstudio"):
        code, _, err = nngcd("export", run.path, "--to", formats, "--out", tmp_path / "o", "--skip-missing")
        assert (code, "D18" in err) == (3, True)


def test_arrays_are_exported_as_pictures_and_features_cannot_be(nngcd, tmp_path, rng):
    pixels = rng.integers(0, 256, (9, 6, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "pictures.npz", X=pixels)
    np.savez(tmp_path / "features.npz", X=rng.normal(size=(9, 4)))
    ids = open_dataset(str(tmp_path / "pictures.npz"))[0].table["image_id"]
    results = results_table().assign(file_name=[f"row-{i:06d}" for i in range(9)], image_id=ids)
    run = finished_run(tmp_path / "run-a", data=tmp_path / "pictures.npz", results=results)
    code, said, err = nngcd("export", run.path, "--to", "folders,coco,labelstudio", "--out", tmp_path / "o")
    assert code == 0, err
    assert "4 folders of PNG files" in said
    assert "Label Studio needs image files" in said
    assert files(tmp_path / "o" / "images" / "owl") == ["row-000000.png", "row-000001.png", "row-000002.png"]
    run = finished_run(tmp_path / "run-f", data=tmp_path / "features.npz", results=results)
    code, _, err = nngcd("export", run.path, "--to", "csv,folders", "--out", tmp_path / "p")
    assert (code, "made from features" in err, "--to csv" in err) == (3, True, True)
    assert not (tmp_path / "p").exists()
    run = finished_run(tmp_path / "run-b", data=tmp_path / "pictures.npz", results=results)
    np.savez(tmp_path / "pictures.npz", X=pixels[:8])
    code, _, err = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "q")
    assert (code, "W02: 1 of 9 originals in" in err, "--root" in err) == (3, True, False)


def test_json(nngcd, run, tmp_path):
    code, said, _ = nngcd("export", run.path, "--out", tmp_path / "o", "--json")
    found = json.loads(said)
    assert (code, found["n_categories"], found["n_not_reviewed"]) == (0, 4, 4)
    assert [os.path.basename(w["path"]) for w in found["written"]] == ["labels.csv"]  # noqa: PTH119 (as printed)


def break_off(monkeypatch, name):
    """Let an export end as by `kill -9` when the format of this name is about to be written."""

    class Killed(BaseException):
        pass

    def write(source, out):
        raise Killed

    monkeypatch.setattr(f"nngcd.export.{name}.write", write)
    return Killed


def test_an_export_that_was_broken_off_goes_on(nngcd, run, tmp_path, monkeypatch):
    out = tmp_path / "o"
    command = ["export", run.path, "--to", "csv,folders,labelstudio,coco", "--out", out]
    with monkeypatch.context() as broken, pytest.raises(break_off(broken, "coco")):
        nngcd(*command)
    before = snapshot(out)
    assert (out / "images").is_dir() and not (out / "coco.json").exists()
    code, said, err = nngcd(*command)
    assert code == 0, err
    assert said.count("kept from the interrupted export") == 4
    after = snapshot(out)
    assert after.keys() - before.keys() == {Path("coco.json")}
    assert before.keys() - after.keys() == {Path(unfinished.FILE)}
    assert all(after[name] == before[name] for name in after.keys() & before.keys())
    code, _, err = nngcd(*command)
    assert (code, "already exists and is never replaced" in err.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda run, out: Review(run).rename("new-001", "other"),
        lambda run, out: (out / unfinished.FILE).unlink(),
        lambda run, out: (out / unfinished.FILE).write_text("{"),
    ],
    ids=["edited", "no note", "damaged note"],
)
def test_what_another_export_or_a_person_left_is_not_taken_for_finished(nngcd, run, tmp_path, monkeypatch, change):
    out = tmp_path / "o"
    with monkeypatch.context() as broken, pytest.raises(break_off(broken, "coco")):
        nngcd("export", run.path, "--to", "folders,coco", "--out", out)
    change(run, out)
    code, _, err = nngcd("export", run.path, "--to", "folders,coco", "--out", out)
    assert (code, "already exists and is never replaced" in err.replace("\n", " ")) == (2, True)


def test_a_format_that_was_broken_off_between_its_two_files_is_written_again(nngcd, run, tmp_path, monkeypatch):
    def killed(path, text):
        raise KeyboardInterrupt

    out = tmp_path / "o"
    command = ["export", run.path, "--to", "labelstudio", "--out", out]
    with monkeypatch.context() as broken:
        broken.setattr("nngcd.export.labelstudio.write_text", killed)
        assert nngcd(*command)[0] == 130
    assert files(out) == [unfinished.FILE, "labelstudio.json"]
    code, _, err = nngcd(*command)
    assert code == 0, err
    assert files(out) == ["labelstudio.json", "labelstudio.xml"]


def test_nothing_is_overwritten_because_an_export_was_broken_off(nngcd, run, tmp_path, monkeypatch):
    out = tmp_path / "o"
    out.mkdir()
    (out / "labels.csv").write_text("mine")
    command = ["export", run.path, "--to", "csv,coco", "--out", out]
    with monkeypatch.context() as broken, pytest.raises(break_off(broken, "coco")):
        nngcd(*command, "--overwrite")
    (out / "labels.csv").write_text("mine")
    code, _, err = nngcd(*command)
    assert (code, "labels.csv already exists" in err.replace("\n", "")) == (2, True)
    assert (out / "labels.csv").read_text() == "mine"


def test_another_export_in_between_does_not_block_the_one_that_was_broken_off(nngcd, run, tmp_path, monkeypatch):
    out = tmp_path / "o"
    command = ["export", run.path, "--to", "csv,folders,coco", "--out", out]
    with monkeypatch.context() as broken, pytest.raises(break_off(broken, "coco")):
        nngcd(*command)
    assert nngcd("export", run.path, "--to", "csv", "--out", out)[0] == 0
    (out / "labels.csv").write_text("mine")
    code, said, err = nngcd(*command, "--overwrite")
    assert code == 0, err
    assert said.count("kept from the interrupted export") == 1  # the folder
    assert (out / "labels.csv").read_text() != "mine"
    assert not (out / unfinished.FILE).exists()


def test_images_that_came_back_belong_to_another_export(nngcd, run, data, tmp_path, monkeypatch):
    out, gone = tmp_path / "o", data / "_unlabelled" / "e.png"
    command = ["export", run.path, "--to", "folders,coco", "--skip-missing", "--out", out]
    gone.rename(tmp_path / "e.png")
    with monkeypatch.context() as broken, pytest.raises(break_off(broken, "coco")):
        nngcd(*command)
    (tmp_path / "e.png").rename(gone)
    code, _, err = nngcd(*command)
    assert (code, "already exists and is never replaced" in err.replace("\n", " ")) == (2, True)
