"""Tars, Parquet files and Hugging Face data sets give the same images and labels as files in folders."""

from __future__ import annotations

import tarfile

import numpy as np
import packed
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nngcd.core.errors import DataError
from nngcd.data.decoding import UnreadableError
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.opening import locate, open_dataset, open_source

KINDS = list(packed.WRITERS)


def rows_of(data, **options):
    """All rows of a source: name, content hash and label of each, and the problems."""
    found, problems = [], []
    for unit in open_source(str(data), **options).units:
        for rows in unit.read():
            for i, name in enumerate(rows.file_names):
                try:
                    found.append((name, rows.opened(i, 20)[1], rows.labels[i] if rows.labels else None))
                except UnreadableError as error:
                    problems.append((name, str(error)))
            problems += [(p.file_name, p.reason) for p in rows.problems]
    return found, problems


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_has_every_image_and_label(kind, tmp_path):
    written = packed.pictures(20, broken=3)
    packed.WRITERS[kind](tmp_path / "data", written, 3)
    assert locate(str(tmp_path / "data"), None, None)[0] == kind
    found, problems = rows_of(tmp_path / "data")
    assert len(found) == 19
    assert sorted(label or "" for _, _, label in found) == sorted(
        label or "" for i, (_, _, label) in enumerate(written) if i != 3
    )
    assert [(name.rpartition("/")[2], reason) for name, reason in problems] == [("000003.png", "unknown format")]
    # The name of the file comes first, because names may come back in another file.
    assert all(name.startswith(("part-0", "data-0")) for name, _, _ in found)


@pytest.mark.parametrize("kind", KINDS)
def test_units_are_the_same_however_often_they_are_asked_for(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("nngcd.datasets.parquet.IMAGES_PER_READ", 5)
    packed.WRITERS[kind](tmp_path / "data", packed.pictures(20), 2)
    units = open_source(str(tmp_path / "data")).units
    assert len(units) == {"tars": 2, "huggingface": 2, "parquet": 4}[kind]
    assert [unit.name for unit in units] == [unit.name for unit in open_source(str(tmp_path / "data")).units]
    assert len({unit.name for unit in units}) == len(units)
    counted = [sum(len(rows.file_names) for rows in unit.read()) for unit in units]
    assert sum(counted) == 20
    assert all(unit.n_rows in (None, n) for unit, n in zip(units, counted, strict=True))


@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_fit_reads_the_same(kind, tmp_path):
    packed.WRITERS[kind](tmp_path / "data", packed.pictures(30, broken=2), 2)
    split, truth = open_dataset(str(tmp_path / "data"))
    assert truth is None
    assert (len(split), split.class_names, split.n_labelled) == (29, ("green", "red"), 10)
    assert [problem.code for problem in split.problems] == ["D03"]
    image = np.asarray(split.images.open(0))
    name = split.class_names[split.labels[0]] if split.labels[0] >= 0 else "red"
    assert abs(image.mean((0, 1)) - packed.COLOURS[name]).max() < 20
    # Rows keep their images: each labelled one shows its colour.
    for row in np.flatnonzero(split.is_labelled):
        colour = packed.COLOURS[split.class_names[split.labels[row]]]
        assert abs(np.asarray(split.images.open(int(row))).mean((0, 1)) - colour).max() < 20


def test_labels_may_come_from_a_table(tmp_path):
    packed.write_tars(tmp_path / "data", [(name, content, None) for name, content, _ in packed.pictures(12)], 2)
    table = tmp_path / "labels.csv"
    table.write_text("file_name,label\npart-00.tar/000000.png,sun\npart-01.tar/000001.png,moon\n")
    split, _ = open_dataset(str(tmp_path / "data"), reading=ReadingSettings(labels=str(table)))
    assert (split.class_names, split.n_labelled) == (("moon", "sun"), 2)
    table.write_text("file_name,label\nother.png,sun\n")
    with pytest.raises(DataError, match=r"D15: no row of .*gives a label to an image of the data"):
        open_dataset(str(tmp_path / "data"), reading=ReadingSettings(labels=str(table)))


@pytest.mark.parametrize(
    ("ending", "content"),
    [("cls", b"owl"), ("json", b'{"label": "owl"}'), ("json", b'{"cls": "owl", "x": [1]}'), ("label.txt", b"owl\n")],
)
def test_members_that_hold_a_label(tmp_path, ending, content):
    picture = packed.pictures(1)[0][1]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        packed.add(tar, f"x/1.{ending}", content)
        packed.add(tar, "x/1.PNG", picture)
        packed.add(tar, "x/1.txt", b"a caption, no label")
        packed.add(tar, "x/2.png", picture)
        packed.add(tar, "x/2.json", b"broken{")
        packed.add(tar, "__MACOSX/._3.png", b"junk")
    found, _ = rows_of(tmp_path / "a.tar")
    assert [(name, label) for name, _, label in found] == [("a.tar/x/1.PNG", "owl"), ("a.tar/x/2.png", None)]


def test_tars_that_cannot_be_read(tmp_path):
    packed.write_tars(tmp_path / "data", packed.pictures(9), 1)
    whole = (tmp_path / "data" / "part-00.tar").read_bytes()
    (tmp_path / "data" / "part-00.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"D17: '.*part-00.tar' cannot be read as a tar"):
        rows_of(tmp_path / "data")
    packed.write_tars(tmp_path / "zipped", packed.pictures(9), 2, mode="w:gz")
    assert len(rows_of(tmp_path / "zipped")[0]) == 9
    with pytest.raises(DataError, match=r"D33: .*allows no random access, which training needs"):
        open_dataset(str(tmp_path / "zipped"))


def test_patterns_and_single_files(tmp_path):
    packed.write_tars(tmp_path / "data", packed.pictures(20), 4)
    assert len(open_source(str(tmp_path / "data" / "part-0[12].tar")).units) == 2
    assert len(open_source(str(tmp_path / "data" / "*.tar")).units) == 4
    assert len(open_source(str(tmp_path / "data" / "part-03.tar")).units) == 1
    with pytest.raises(DataError, match="D02"):
        open_source(str(tmp_path / "data" / "none-*.tar"))


def test_of_several_splits_one_must_be_named(tmp_path):
    for split in ("train", "test"):
        packed.write_arrow(tmp_path / split, packed.pictures(4), 1)
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(DataError, match=r"holds several splits \(test, train\). Give one: .*/test"):
        open_source(str(tmp_path))


def test_other_file_systems_are_reached_through_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    packed.write_tars(tmp_path / "data", packed.pictures(8), 2)
    memory = fsspec.filesystem("memory")
    for path in (tmp_path / "data").iterdir():
        memory.pipe(f"/shards/{path.name}", path.read_bytes())
    assert rows_of("memory://shards") == rows_of(tmp_path / "data")
    assert rows_of("memory://shards/part-00.*") == rows_of(tmp_path / "data" / "part-00.tar")


def test_a_folder_with_images_and_a_table_stays_a_folder(birds, tmp_path):
    packed.write_parquet(birds, packed.pictures(4), 1)
    assert locate(str(birds), None, None)[0] == "folder"


def test_a_table_of_paths_is_streamed_in_row_groups(image_folder, tmp_path, monkeypatch):
    names = sorted(path.relative_to(image_folder).as_posix() for path in image_folder.rglob("*.png"))
    (tmp_path / "tables").mkdir()
    table = pa.table({"file_name": [*names, "gone.png"]})
    pq.write_table(table, tmp_path / "tables" / "a.parquet", row_group_size=8)
    monkeypatch.setattr("nngcd.datasets.parquet.IMAGES_PER_READ", 8)
    source = open_source(str(tmp_path / "tables"), reading=ReadingSettings(image_root=str(image_folder)))
    assert [unit.n_rows for unit in source.units] == [8, 8, 8, 7]
    opened = [rows for unit in source.units for rows in unit.read()]
    assert sum(len(rows.file_names) for rows in opened) == 31
    assert opened[0].opened(0, 20)[0].size == (40, 40)
    with pytest.raises(FileNotFoundError):
        opened[-1].opened(6, 20)
    pq.write_table(pa.table({"file_name": ["../../etc/passwd"]}), tmp_path / "tables" / "a.parquet")
    with pytest.raises(DataError, match="D18: line 1 points outside the data folder"):
        rows_of(tmp_path / "tables")


def test_tables_that_hold_nothing_of_use(tmp_path):
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "t" / "a.parquet")
    with pytest.raises(DataError, match=r"D17: .*has no column of image bytes.*found: a, b"):
        open_source(str(tmp_path / "t"))
    (tmp_path / "t" / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"D17: .*a.parquet' cannot be read"):
        open_source(str(tmp_path / "t"))
    vectors = pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"feature": vectors}), tmp_path / "t" / "a.parquet")
    with pytest.raises(DataError, match="rows without 2 finite numbers"):
        open_dataset(str(tmp_path / "t"))


def test_features_of_another_program(tmp_path, blobs):
    features, labels, _ = blobs
    (tmp_path / "f").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(240), 3)):
        vectors = pa.array(features[rows].tolist(), pa.list_(pa.float32()))
        names = [None if labels[row] < 0 else f"kind {labels[row]}" for row in rows]
        table = pa.table({"file_name": [f"{row}.jpg" for row in rows], "label": names, "embedding": vectors})
        pq.write_table(table, tmp_path / "f" / f"{part}.parquet", row_group_size=20)
    source = open_source(str(tmp_path / "f"))
    assert (source.n_features, source.n_rows) == (16, 240)
    split, _ = open_dataset(str(tmp_path / "f"))
    assert np.array_equal(split.features_nvd[:, 0], features)
    assert split.class_names == ("kind 0", "kind 1", "kind 2")
    assert split.table["file_name"].tolist() == [f"{row}.jpg" for row in range(240)]


def test_features_that_do_not_fit_into_memory(tmp_path, blobs, monkeypatch):
    (tmp_path / "f").mkdir()
    vectors = pa.array(blobs[0].tolist(), pa.list_(pa.float32(), 16))
    pq.write_table(pa.table({"feature": vectors}), tmp_path / "f" / "a.parquet")
    monkeypatch.setattr("nngcd.data.packed_splits.free_gb", lambda: 1e-6)
    with pytest.raises(Exception, match=r"T06: 240 rows of 16 features take .* Fit on a sample"):
        open_dataset(str(tmp_path / "f"))


@pytest.mark.slow
@pytest.mark.parametrize("part_format", ["parquet", "npy"])
def test_fit_and_predict_read_what_embed_writes(nngcd, tmp_path, part_format):
    packed.write_tars(tmp_path / "data", packed.pictures(36), 3)
    flags = ["--image-size", 32, "--workers", 0, "-q"]
    code, _, err = nngcd("embed", tmp_path / "data", "--out", tmp_path / "f", "--format", part_format, *flags)
    assert code == 0, err
    split, _ = open_dataset(str(tmp_path / "f"))
    assert (len(split), split.n_labelled, split.features_nvd.shape[-1]) == (36, 12, 1280)
    fit = ["fit", tmp_path / "f", "--k", 3, "--method", "kmeans", "-q", "--out", tmp_path / "run"]
    assert nngcd(*fit)[0] == 0
    results = pd.read_csv(tmp_path / "run" / "results.csv")
    assert results["file_name"].tolist() == split.table["file_name"].tolist()
    assert results.groupby(results.index.map(lambda row: int(split.table["file_name"][row][-10:-4]) % 3))[
        "category"
    ].nunique().tolist() == [1, 1, 1]
    assert nngcd("predict", tmp_path / "run", tmp_path / "f", "-q", "--out", tmp_path / "again.csv")[0] == 0
    again = pd.read_csv(tmp_path / "again.csv")
    assert (again["category"] == results["category"]).all()
