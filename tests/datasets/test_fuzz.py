"""Damaged and surprising input: whatever lies in a folder or table, the answer is a result or a plain reason."""

import csv
import sys
import unicodedata

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mutations import damaged_images, damaged_tables, write_good_folder
from PIL import Image

from nngcd.checking.check import check_data
from nngcd.core.errors import DataError
from nngcd.data import csv_rows
from nngcd.data.decoding import UnreadableError, decode_rgb, probe
from nngcd.data.file_tree import is_hidden
from nngcd.data.labels import UNCLEAR_NAMES, is_number
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.folder import UNLABELLED_FOLDERS
from nngcd.datasets.folder import load as load_folder
from nngcd.datasets.manifest import load as load_manifest

FIXED = settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/\0"), min_size=1, max_size=20)
pytestmark = pytest.mark.filterwarnings("ignore")


def is_plain(name: str) -> bool:
    """Whether a name can only be a category."""
    is_unclear = name.strip().casefold() in UNCLEAR_NAMES
    return bool(name.strip()) and not is_unclear and name.casefold() not in UNLABELLED_FOLDERS and not is_hidden(name)


@pytest.mark.timeout(60)
def test_damaged_images_are_read_or_refused_with_a_reason_and_probing_agrees_with_decoding():
    n_good = 0
    for _, data in damaged_images(280, seed=0):
        try:
            facts = probe(data)
        except UnreadableError as error:
            assert str(error)
            with pytest.raises(UnreadableError):
                decode_rgb(data)
        else:
            image = decode_rgb(data)
            assert image.mode == "RGB"
            assert sorted(image.size) == sorted((facts.width, facts.height))
            n_good += 1
    assert 20 < n_good < 260


@pytest.mark.timeout(60)
def test_a_folder_of_damaged_images_is_checked_to_the_end(tmp_path):
    write_good_folder(tmp_path)
    for i, (ending, data) in enumerate(damaged_images(56, seed=1)):
        (tmp_path / "img" / f"damaged{i}{ending}").write_bytes(data)
    (tmp_path / "loose.png").write_bytes((tmp_path / "img" / "0.png").read_bytes())
    report = check_data(str(tmp_path), reading=ReadingSettings(allow_bad=1.0))
    unreadable = report.problems["code"].isin(["D03", "D20"]).sum()
    assert report.n_images + unreadable == 61
    assert len(str(report).splitlines()) > 5


@pytest.mark.timeout(60)
def test_damaged_tables_are_read_or_refused_with_a_reason(tmp_path):
    names = write_good_folder(tmp_path)
    n_read = 0
    for ending, data in damaged_tables(200, names, seed=0):
        path = tmp_path / f"labels{ending}"
        path.write_bytes(data)
        try:
            split = load_manifest(path, reading=ReadingSettings(allow_bad=0.9))[0]
        except DataError as error:
            assert str(error).startswith("D"), error
        else:
            n_read += 1
            assert set(split.table["file_name"]) <= set(names)
    assert 10 < n_read < 190


@FIXED
@given(
    labels=st.lists(st.one_of(st.just(""), NAMES), min_size=4, max_size=4),
    mark=st.sampled_from(",;\t"),
    newline=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_whatever_labels_a_table_has_they_come_back(tmp_path, labels, mark, newline, encoding):
    given_labels = [label for label in labels if label]
    assume(all(is_plain(label) for label in given_labels))
    assume(not all(is_number(label) for label in given_labels))
    names = write_good_folder(tmp_path)
    path = tmp_path / "labels.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=mark, lineterminator=newline)
        writer.writerows([("file_name", "label"), *zip(names, labels, strict=True)])
    split = load_manifest(path)[0]
    found = [split.class_names[label] if label >= 0 else "" for label in split.labels]
    assert found == [unicodedata.normalize("NFC", label) for label in labels]


@FIXED
@given(text=st.text(max_size=40))
def test_no_path_of_a_table_leads_out_of_the_folder(text):
    try:
        inside = csv_rows.inside(text or None, 2)
    except DataError as error:
        assert str(error).startswith(("D17", "D18"))
    else:
        assert ".." not in inside.split("/")
        assert not inside.startswith("/")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems forbid or change some of these names")
@FIXED
@given(names=st.sets(NAMES, min_size=1, max_size=4))
def test_whatever_folders_are_called_they_become_categories(tmp_path_factory, names):
    assume(all(is_plain(name) and len(name.encode()) < 200 for name in names))
    root = tmp_path_factory.mktemp("names")
    for place, name in enumerate(sorted(names)):
        (root / name).mkdir()
        Image.new("RGB", (20, 20), (place, 0, 0)).save(root / name / "a.png")
    Image.new("RGB", (20, 20), "white").save(root / "loose.png")
    split = load_folder(root)[0]
    assert set(split.class_names) == {unicodedata.normalize("NFC", name) for name in names}
    assert split.n_labelled == len(names)
    assert split.n_unlabelled == 1
