"""Parts of `embed` and `predict`: shared out, killed, repeated and merged, they are what one process writes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from nngcd.core.errors import ConfigError
from nngcd.data import sources
from nngcd.data.sources import Unit
from nngcd.runs import parts
from nngcd.runs.shards import Share


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(sources, "FEATURES_PER_READ", 50)
    monkeypatch.setattr(sources, "IMAGES_PER_READ", 7)


@pytest.fixture
def run(nngcd, blobs, tmp_path, made_once):
    def make(folder):
        np.savez(folder / "blobs.npz", X=blobs[0], y=blobs[1])
        assert nngcd("fit", folder / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", folder / "run")[0] == 0

    return made_once(make, tmp_path) / "run"


def test_shares_are_every_unit_once_in_an_order_of_their_names():
    units = [Unit(f"{i}.tar", lambda: iter(())) for i in range(20)]
    found = [Share(i, 3).order(units) for i in range(3)]
    every = [place for one in found for place in one]
    assert sorted(every) == list(range(20)) != every
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert Share(1, 3).order(units[:19]) != Share(1, 3).order(units)


@pytest.mark.parametrize("text", ["4/4", "x", "1", "-1/4", "1/0", "1/4/2"])
def test_a_share_that_cannot_be(text):
    with pytest.raises(ConfigError, match="I/N with I from 0 to N-1"):
        Share.of(text)


def test_launchers_say_which_share(monkeypatch):
    assert Share.of(None) == Share(0, 1)
    with pytest.raises(ConfigError, match="needs torchrun, `srun` or a SLURM array"):
        Share.of("auto")
    for name, value in {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}.items():
        monkeypatch.setenv(name, value)
    assert (Share.of("auto"), Share.of(None)) == (Share(2, 4), Share(0, 1))
    array = {"ID": "7", "COUNT": "4", "MIN": "1", "STEP": "2"}
    for name, value in array.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert Share.of("auto") == Share(3, 4)
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert Share.of("auto") == Share.of(None) == Share(1, 2)
    assert Share.of("0/3") == Share(0, 3)


def test_shards_merge_into_what_one_process_writes(nngcd, small_units, run, tmp_path):
    data, folder = tmp_path / "blobs.npz", tmp_path / "parts"
    assert nngcd("predict", run, data, "--out", tmp_path / "whole.csv", "-q")[0] == 0
    code, out, _ = nngcd("predict", run, data, "--out", folder, "--shard", "1/2", "-q")
    assert (code, "shard 1/2: 2 parts written" in out, "3 of 5 parts are still missing" in out) == (0, True, True), out
    assert f"nngcd merge {folder}" in out.replace("\n", "")
    code, _, err = nngcd("merge", folder, "-q")
    assert (code, "has 2 of 5 parts; missing: part-0" in err, "without --shard" in err) == (3, True, True), err
    # The way out is true.
    partly = shutil.copytree(folder, tmp_path / "partly")
    code, out, err = nngcd("predict", run, data, "--out", partly, "-q")
    assert (code, "240 rows in 5 parts" in out) == (0, True), err

    code, out, _ = nngcd("predict", run, data, "--out", folder, "--shard", "0/2", "--json")
    assert (code, json.loads(out)["written"], json.loads(out)["missing"]) == (0, 3, 0)
    code, out, _ = nngcd("predict", run, data, "--out", folder, "--shard", "0/2", "-q")
    assert (code, "All 5 parts are there. Next:  nngcd merge" in out) == (0, True), out
    code, out, _ = nngcd("merge", folder, "--out", tmp_path / "merged.csv", "--json")
    assert code == 0
    assert {name: json.loads(out)[name] for name in ("parts", "rows")} == {"parts": 5, "rows": 240}
    assert (tmp_path / "merged.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"] == 240
    # Readers of Parquet folders find the parts, and nothing else.
    assert len(pd.read_parquet(folder)) == 240
    assert nngcd("merge", folder, "--out", tmp_path / "merged.parquet", "-q")[0] == 0
    whole, merged = pd.read_csv(tmp_path / "whole.csv"), pd.read_parquet(tmp_path / "merged.parquet")
    assert merged["file_name"].tolist() == whole["file_name"].tolist()


def test_one_process_writes_parts_and_merges_them(nngcd, small_units, run, tmp_path):
    folder = tmp_path / "parts"
    for _ in range(2):
        code, out, err = nngcd("predict", run, tmp_path / "blobs.npz", "--out", folder, "-q")
        assert (code, "240 rows in 5 parts" in out) == (0, True), err
    assert (folder / "_manifest.json").is_file()


def test_a_restart_writes_only_what_is_missing(nngcd, small_units, run, tmp_path, monkeypatch):
    folder, predict_ = tmp_path / "parts", ["predict", run, tmp_path / "blobs.npz", "-q", "--out"]
    write, n_left = parts._write_part, [3]

    def stops(*arguments):
        if n_left[0] == 0:
            raise KeyboardInterrupt
        n_left[0] -= 1
        return write(*arguments)

    with monkeypatch.context() as killed:
        killed.setattr(parts, "_write_part", stops)
        assert nngcd(*predict_, folder)[0] == 130
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert len(before) == 3
    assert nngcd(*predict_, folder)[0] == 0
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert len(after) == 5
    assert {name: after[name] for name in before} == before


def test_parts_of_other_work_are_refused(nngcd, small_units, run, blobs, tmp_path):
    data, folder = tmp_path / "blobs.npz", tmp_path / "parts"
    predict_ = ["predict", run, data, "-q", "--out", folder]
    assert nngcd(*predict_, "--shard", "0/2")[0] == 0
    code, _, err = nngcd(*predict_, "--top", 1)
    assert (code, "R06: its parts were made with another top (3, now 1)" in err) == (2, True), err
    np.savez(tmp_path / "fewer.npz", X=blobs[0][:100])
    code, _, err = nngcd("predict", run, tmp_path / "fewer.npz", "-q", "--out", folder)
    assert (code, "made of other data (5 units, now 2)" in err) == (2, True), err
    code, _, err = nngcd(*predict_, "--overwrite")
    assert (code, "delete the folder yourself" in err) == (2, True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    code, _, err = nngcd(*predict_[:-1], tmp_path / "mine")
    assert (code, "is a folder with other files" in err) == (2, True)
    code, _, err = nngcd(*predict_[:-1], tmp_path / "new.csv", "--shard", "0/2")
    assert (code, "several processes write parts; name a folder" in err) == (2, True), err
    assert "has no _plan.json" in nngcd("merge", tmp_path / "mine")[2].replace("\n", "")


def test_a_part_in_the_place_of_another_is_found(nngcd, small_units, run, tmp_path):
    folder = tmp_path / "parts"
    assert nngcd("predict", run, tmp_path / "blobs.npz", "--out", folder, "-q")[0] == 0
    shutil.copyfile(folder / "part-00000.parquet", folder / "part-00001.parquet")
    code, _, err = nngcd("merge", folder, "-q")
    assert code == 3
    assert "part-00000.parquet and part-00001.parquet hold the same rows. Delete both" in " ".join(err.split())


def test_a_damaged_part_is_found(nngcd, small_units, run, tmp_path):
    folder = tmp_path / "parts"
    assert nngcd("predict", run, tmp_path / "blobs.npz", "-q", "--out", folder)[0] == 0
    part = folder / "part-00002.parquet"
    content = bytearray(part.read_bytes())
    part.write_bytes(content[:-20])
    code, _, err = nngcd("merge", folder, "-q")
    assert (code, "part-00002.parquet is damaged" in err.replace("\n", "")) == (3, True), err
    # A single bit of the data changes no number unnoticed.
    content[60] ^= 1
    part.write_bytes(content)
    code, _, err = nngcd("merge", folder, "-q", "--out", tmp_path / "all.csv")
    assert (code, "part-00002.parquet is damaged" in err.replace("\n", "")) == (3, True), err
    assert not (tmp_path / "all.csv").exists()
    part.unlink()
    assert nngcd("predict", run, tmp_path / "blobs.npz", "-q", "--out", folder)[0] == 0
    assert nngcd("merge", folder, "-q", "--out", tmp_path / "all.csv")[0] == 0


@pytest.mark.parametrize("part_format", ["parquet", "npy"])
def test_features_in_parts(nngcd, small_units, small_backbone, image_folder, tmp_path, part_format):
    (image_folder / "red" / "broken.png").write_bytes(b"no picture")
    embed = ["embed", image_folder, "--workers", 0, "-q", "--out"]
    assert nngcd(*embed, tmp_path / "whole.npy")[0] == 0
    for shard in ("0/2", "1/2"):
        code, _, err = nngcd(*embed, tmp_path / "parts", "--shard", shard, "--format", part_format)
        assert code == 0, err
    code, out, _ = nngcd("merge", tmp_path / "parts", "--json")
    assert (code, json.loads(out)["images"], json.loads(out)["unreadable"]) == (0, 30, 1)
    manifest = json.loads((tmp_path / "parts" / "_manifest.json").read_text())
    assert manifest["problems"] == ["red/broken.png: D03: unknown format"]
    rows = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "parts").glob("part-*.parquet"))])
    if part_format == "npy":
        files = [np.load(tmp_path / "parts" / part["file"], mmap_mode="r") for part in manifest["parts"]]
        features_nd = np.concatenate(files)
        assert "feature" not in rows
    else:
        features_nd = np.stack(rows["feature"])
        column = pq.read_schema(tmp_path / "parts" / "part-00000.parquet").field("feature").type
        assert str(column) == "fixed_size_list<element: halffloat>[12]"
    assert features_nd.dtype == np.float16
    assert np.array_equal(features_nd, np.load(tmp_path / "whole.npy").astype(np.float16))
    whole = pd.read_csv(tmp_path / "whole.csv")
    assert rows["image_id"].tolist() == whole["image_id"].tolist()
    assert rows["label"].fillna("none").tolist() == whole["label"].fillna("none").tolist()
    assert set(rows["label"].dropna()) == {"red", "green"}
