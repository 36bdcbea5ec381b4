"""`nngcd check` and `ImageTable`: one report on the command line and in Python, and nothing written into the data."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from photographs import burst_folder
from PIL import Image

from nngcd import ImageTable
from nngcd.checking.check import check_data
from nngcd.core.errors import ConfigError, DataError, NngcdWarning
from nngcd.core.words import duration
from nngcd.data.near_copies import NONE, near_copies
from nngcd.data.reading_settings import ReadingSettings


def test_the_report_goes_beside_the_data_and_can_be_made_again(nngcd, image_folder, monkeypatch):
    monkeypatch.chdir(image_folder.parent)
    for _ in range(2):
        code, out, err = nngcd("check", "pictures/", "--no-times")
        assert code == 0, err
    assert "pictures/  30 files" in out
    assert "labelled                12  in 2 categories" in out
    assert "Next:  nngcd fit pictures/" in out
    assert sorted(path.name for path in (image_folder.parent / "pictures.check").iterdir()) == [
        "duplicates.csv", "near_copies.csv", "problems.csv", "summary.json"
    ]  # fmt: skip
    assert pd.read_csv("pictures.check/problems.csv").columns.tolist() == ["file_name", "code", "severity", "reason"]


def test_the_report_never_goes_into_the_data(nngcd, image_folder):
    code, _, err = nngcd("check", image_folder, "--no-times", "--out", image_folder / "red")
    assert code == 2
    assert "is inside the data folder" in err


def test_json_and_strict(nngcd, image_folder, tmp_path):
    flags = ["--no-times", "--json", "--out", tmp_path / "out"]
    code, out, _ = nngcd("check", image_folder, "--strict", *flags)
    found = json.loads(out)
    assert (code, found["is_ready"], found["n_unlabelled"], found["seconds"]) == (0, True, 18, None)
    (image_folder / "red" / "half.png").write_bytes(b"\x89PNG")
    assert nngcd("check", image_folder, *flags)[0] == 0
    code, out, _ = nngcd("check", image_folder, "--strict", *flags)
    assert code == 3
    assert json.loads(out)["findings"][0]["code"] == "D03"


def test_flags_are_repeated_in_the_next_command(nngcd, image_folder, tmp_path):
    flags = ["--same", "red=rot wein", "--unlabelled", "unknown", "--drop-duplicates", "--max-pixels", "2e9"]
    _, out, _ = nngcd("check", image_folder, "--no-times", "--out", tmp_path / "out", *flags)
    assert f"nngcd fit {image_folder} --unlabelled unknown --same 'red=rot wein' --drop-duplicates --max-pixels" in out


def test_other_data_have_a_report_too(nngcd, blobs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("blobs.npz", X=blobs[0], y=blobs[1])
    code, out, err = nngcd("check", "blobs.npz")
    assert code == 0, err
    assert "labelled                60  in 3 categories" in out
    assert (tmp_path / "blobs.check" / "summary.json").is_file()
    np.savez("blobs.npz", X=blobs[0], y=blobs[2])
    assert nngcd("check", "blobs.npz")[0] == 3


def test_an_image_table_of_a_folder(image_folder):
    (image_folder / "_unlabelled" / "half.png").write_bytes(b"\x89PNG")
    table = ImageTable.from_folder(image_folder)
    report = table.check()
    assert report.problems.to_dict("records") == [
        {"file_name": "_unlabelled/half.png", "code": "D03", "severity": "warning", "reason": "truncated"}
    ]
    assert str(report).startswith(f"{image_folder}  31 files")
    # What has been checked is not read again.
    assert table.split is report.split
    assert (len(table), table.n_labelled) == (30, 12)
    frame = table.to_frame()
    assert frame.columns.tolist() == ["file_name", "label", "image_id"]
    assert frame["label"].value_counts().to_dict() == {"red": 6, "green": 6}


def test_an_image_table_of_tables_and_arrays(image_folder, tmp_path):
    rows = [{"Bild": f"red/red_{i}.png", "label": "red" if i < 3 else None} for i in range(6)]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame(rows).to_parquet(tmp_path / "t.parquet")
    settings = {"columns": ["file_name=Bild"], "image_root": str(image_folder)}
    for table in (ImageTable.from_csv(tmp_path / "t.csv", **settings),
                  ImageTable.from_parquet(tmp_path / "t.parquet", **settings)):  # fmt: skip
        assert (len(table), table.n_labelled) == (6, 3)
        assert table.check().findings[-1].code == "D10"
    table = ImageTable.from_arrays(np.zeros((4, 2)), ["a", "a", "", ""])
    assert table.check().is_ready
    assert table.check().category_sizes == {"a": 2}
    with pytest.raises(ConfigError, match="unknown setting"):
        ImageTable.from_folder(image_folder, colums=["x"])


def test_labels_of_a_folder_from_a_table(image_folder, tmp_path):
    (tmp_path / "labels.csv").write_text("file_name,label\nred/red_0.png,crimson\nred/red_1.png,\n")
    table = ImageTable.from_folder(image_folder, labels=str(tmp_path / "labels.csv"))
    with pytest.warns(NngcdWarning, match="D16: 10 images in folders are not in the table, first 'green/green_0.png'"):
        assert (len(table), table.n_labelled, table.split.class_names) == (30, 1, ("crimson",))
    assert table.split.name == "pictures"
    with pytest.raises(ConfigError, match="labels of a folder"):
        check_data(str(tmp_path / "labels.csv"), reading=ReadingSettings(labels="x.csv"))


def test_a_data_error_of_an_image_table_comes_when_it_is_used(image_folder):
    (image_folder / "red").rename(image_folder / "unknown")
    table = ImageTable.from_folder(image_folder)
    assert not table.check().is_ready
    with pytest.raises(DataError, match="D08"):
        len(table)


def test_estimators_take_image_tables(blobs):
    from nngcd import CategoryDiscovery

    table = ImageTable.from_arrays(blobs[0], blobs[1])
    found = CategoryDiscovery(6, method="kmeans").fit(table)
    assert len(found.labels_) == len(table) == len(found.predict(table))
    with pytest.raises(DataError, match="has its own labels"):
        CategoryDiscovery(6, method="kmeans").fit(table, blobs[1])


@pytest.mark.slow
def test_the_time_of_a_fit_is_measured(nngcd, image_folder, tmp_path):
    code, out, err = nngcd("check", image_folder, "--out", tmp_path / "out")
    assert code == 0, err
    assert "Estimated time of a fit on this machine:  quick about " in out
    seconds = json.loads((tmp_path / "out" / "summary.json").read_text())["seconds"]
    assert 0 < seconds["quick"] < seconds["normal"] < seconds["full"]


def test_time_per_image_is_counted_up_by_hand():
    from functools import partial

    from nngcd.checking.effort_times import Costs, _seconds
    from nngcd.settings import resolve

    seconds = partial(_seconds, Costs(read=0.5, trunk=2.0, step=0.25), resting_step=0.125)
    few = {"training": {"epochs": 4}}
    # Read once, the centre view and two random ones through the trunk, four steps.
    assert seconds(resolve({"effort": "quick", "preset": "paper", **few})) == 0.5 + 3 * 2.0 + 4 * 0.25
    # Only the centre view, three epochs in which the block rests, one in which it does not.
    assert seconds(resolve({"effort": "normal", **few})) == 0.5 + 2.0 + 3 * 0.125 + 0.25
    # In every epoch: read, two views, a step.
    assert seconds(resolve({"effort": "full", **few})) == 4 * (0.5 + 2 * 2.0 + 0.25)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (80, "80 s"), (600, "10 min"), (3 * 3600, "3 h"), (96 * 3600, "4 days")],
)
def test_times_are_told_in_round_numbers(seconds, words):
    assert duration(seconds) == words


def test_of_copies_one_is_kept_and_it_is_a_labelled_one(image_folder):
    twin = (image_folder / "red" / "red_0.png").read_bytes()
    (image_folder / "_unlabelled" / "a.png").write_bytes(twin)
    (image_folder / "red" / "z.png").write_bytes(twin)
    report = check_data(str(image_folder), reading=ReadingSettings(drop_duplicates=True))
    assert len(report.split) == 30
    assert report.split.n_labelled == 12
    assert {(p.file_name, p.code) for p in report.split.problems} == {
        ("_unlabelled/a.png", "D12"),
        ("red/z.png", "D12"),
    }
    assert report.duplicates["file_name"].tolist() == ["_unlabelled/a.png", "red/red_0.png", "red/z.png"]


def test_deep_greyscale_can_have_a_fixed_scale(tmp_path):
    values = np.array([[0, 1000], [2000, 5000]], dtype=np.uint16).repeat(10, 0).repeat(10, 1)
    Image.fromarray(values).save(tmp_path / "deep.png")
    fixed = check_data(str(tmp_path), reading=ReadingSettings(grey16="fixed:0-4000")).split
    own = check_data(str(tmp_path)).split
    assert np.unique(np.asarray(fixed.images.open(0))).tolist() == [0, 64, 128, 255]
    assert np.unique(np.asarray(own.images.open(0))).tolist() == [0, 51, 102, 255]
    # Views that were kept under another scale must not be found again.
    assert fixed.images.fingerprint(0) != own.images.fingerprint(0)
    assert fixed.fingerprint == own.fingerprint


@pytest.mark.parametrize(
    "wrong",
    [{"grey16": "fixed:9-3"}, {"grey16": "auto"}, {"same": ("owl",)}, {"columns": ("Bild=label",)}, {"label_level": 0},
     {"max_pixels": 0}, {"labels": "a.csv", "image_root": "b"}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError):
        ReadingSettings(**wrong)


def test_a_name_that_no_image_carries_is_pointed_out(image_folder):
    reading = ReadingSettings(same=("red=rod",), unlabelled_names=("unknow",), category_names=("green",))
    report = check_data(str(image_folder), reading=reading)
    assert [(finding.code, finding.what) for finding in report.findings] == [
        ("D08", "no image is labelled 'rod', 'unknow'")
    ]
    with pytest.warns(NngcdWarning, match="D08: no image is labelled"):
        assert len(ImageTable.from_folder(image_folder, unlabelled_names=["unknow"])) == 30


def test_a_fit_says_what_the_check_found_in_the_same_words(image_folder):
    (image_folder / "red" / "deeper").mkdir()
    (image_folder / "red" / "red_0.png").rename(image_folder / "red" / "deeper" / "a.png")
    shutil.copytree(image_folder / "red", image_folder / "Red")
    with pytest.warns(NngcdWarning) as warned:
        assert len(ImageTable.from_folder(image_folder)) > 0
    found = {str(finding) for finding in check_data(str(image_folder)).findings}
    said = {str(each.message) for each in warned}
    assert {text[:3] for text in said} == {"D07", "D13", "D30"}
    assert said <= found


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
def test_a_pipe_among_the_images_is_told_of(nngcd, image_folder, tmp_path):
    os.mkfifo(image_folder / "red" / "pipe.png")
    code, out, _ = nngcd("check", image_folder, "--no-times", "--out", tmp_path / "check")
    assert code == 0
    assert "D28  1 name is not a file, first 'red/pipe.png' (not a file, but a named pipe)" in out
    assert "red/pipe.png,D28" in (tmp_path / "check" / "problems.csv").read_text()


def test_what_was_found_is_said_also_where_nothing_can_be_written(nngcd, image_folder, tmp_path):
    (tmp_path / "file").touch()
    for flags in ((), ("--json",)):
        code, out, err = nngcd("check", image_folder, "--no-times", "--out", tmp_path / "file" / "check", *flags)
        assert code == 4
        assert "R01" in err
        assert ("Ready." in out) if not flags else json.loads(out)["is_ready"]


@pytest.mark.parametrize("command", [["check"], ["embed"], ["estimate-k"], ["fit"]])
def test_no_name_is_not_this_folder(nngcd, image_folder, monkeypatch, command):
    monkeypatch.chdir(image_folder)
    code, _, err = nngcd(*command, "")
    assert code == 2
    assert ("no data to sort" if command == ["fit"] else "DATA") in err


@pytest.mark.parametrize("command", [["check"], ["fit"], ["estimate-k"], ["report"], ["embed"]])
def test_a_name_of_5000_letters_is_refused_in_words(nngcd, command):
    code, _, err = nngcd(*command, "x" * 5000)
    assert code == 2
    assert "too long" in err
    assert len(err) < 300


def test_near_identical_images_are_told_of(nngcd, tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = burst_folder(tmp_path / "bursts", rng, n_categories=2, n_bursts=3)
    (root / "category 0" / "1-0.jpg").rename(root / "category 1" / "wrong.jpg")
    (root / "category 0" / "0-0.jpg").rename(root / "_unlabelled" / "missed.jpg")
    code, out, err = nngcd("check", "bursts", "--no-times")
    assert code == 0, err
    assert "D32  30 near-identical images in 6 groups (bursts or re-saved pictures), largest 5" in out
    assert "D32  1 group of near-identical images with different labels, first 'category 0/1-1.jpg'" in out
    assert "D32  1 group of near-identical images only partly labelled, first '_unlabelled/missed.jpg'" in out
    assert "bursts.check/near_copies.csv" in out
    table = pd.read_csv("bursts.check/near_copies.csv")
    assert table.columns.tolist() == ["group", "n_images", "n_labelled", "labels", "file_names"]
    assert table["n_images"].tolist() == [5] * 6
    assert sorted(table["n_labelled"]) == [4, 5, 5, 5, 5, 5]
    assert "category 0 | category 1" in table["labels"].tolist()
    problems = pd.read_csv("bursts.check/problems.csv")
    assert (problems["code"] == "D32").sum() == 30 + 5 + 5
    # A fit sees the same groups.
    report = check_data("bursts")
    near = near_copies(report.split)
    assert (near != NONE).sum() == 30
    assert [len(set(near[report.split.table["file_name"].isin(files.split(" | "))])) for files in
            report.near_copies["file_names"]] == [1] * 6  # fmt: skip


def test_nearly_equal_rows_of_features_are_told_of(rng):
    features = rng.normal(size=(30, 32))
    twice = np.concatenate([features, features[:2] + 1e-4])
    report = ImageTable.from_arrays(twice, ["a"] * 10 + [""] * 20 + ["a", "b"]).check()
    assert report.near_copies["file_names"].tolist() == ["row-000000 | row-000030", "row-000001 | row-000031"]
    assert [finding.severity for finding in report.findings if finding.code == "D32"] == ["warning", "note"]
