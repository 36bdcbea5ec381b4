"""Every text format against a file that a person has read; write them anew with NNGCD_WRITE_GOLDEN=1."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from finished_runs import finished_run, results_table

from nngcd.core.files import write_json

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    "name", ["labels.csv", "coco.json", "labelstudio.json", "labelstudio.xml", "hf/train/metadata.csv"]
)
def test_golden_files(nngcd, reviewed_run, tmp_path, name):
    formats = {"labels.csv": "csv", "coco.json": "coco", "hf/train/metadata.csv": "hf"}
    code, _, err = nngcd("export", reviewed_run.path, "--to", formats.get(name, "labelstudio"), "--out", tmp_path / "o")
    assert code == 0, err
    _compare(tmp_path / "o" / name, GOLDEN / Path(name).name)


def test_golden_csv_for_spreadsheets(nngcd, reviewed_run, tmp_path):
    code, _, err = nngcd("export", reviewed_run.path, "--csv", "excel", "--out", tmp_path / "o")
    assert code == 0, err
    content = (tmp_path / "o" / "labels.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbffile_name,")
    assert content.count(b"\r\n") == content.count(b"\n") == 11
    assert b'"\'=Tawny, <b>"' in content
    _compare(tmp_path / "o" / "labels.csv", GOLDEN / "labels-excel.csv")


def _compare(found: Path, golden: Path) -> None:
    if os.environ.get("NNGCD_WRITE_GOLDEN"):
        golden.write_bytes(found.read_bytes())
    assert found.read_bytes() == golden.read_bytes()


def test_parquet_keeps_types(nngcd, reviewed_run, tmp_path):
    assert nngcd("export", reviewed_run.path, "--to", "parquet", "--out", tmp_path / "o")[0] == 0
    table = pd.read_parquet(tmp_path / "o" / "labels.parquet")
    assert len(table) == 10
    assert table["reviewed"].dtype == bool
    assert str(table["reviewed_at"].dtype).startswith("datetime64")
    assert table.loc[8, "reviewed_at"] == pd.Timestamp("2026-11-16T10:00:00Z")
    assert table["confidence"].dtype == "float64"
    assert table.loc[4, "label"] == "=Tawny, <b>"
    assert table["group"].isna().all()


def test_coco_is_consistent(nngcd, reviewed_run, tmp_path):
    assert nngcd("export", reviewed_run.path, "--to", "coco", "--out", tmp_path / "o")[0] == 0
    coco = json.loads((tmp_path / "o" / "coco.json").read_text())
    images = {image["id"]: image for image in coco["images"]}
    categories = {category["id"]: category["name"] for category in coco["categories"]}
    assert len(images) == len(coco["annotations"]) == 8
    placed = {images[a["image_id"]]["file_name"]: categories[a["category_id"]] for a in coco["annotations"]}
    assert placed["_unlabelled/i.png"] == "owl"
    assert placed["_unlabelled/e.png"] == "=Tawny, <b>"
    assert images[1] == {"id": 1, "file_name": "owl/a.png", "width": 20, "height": 10}


def test_label_studio_choices_are_those_of_the_interface(nngcd, reviewed_run, tmp_path):
    assert nngcd("export", reviewed_run.path, "--to", "labelstudio", "--out", tmp_path / "o")[0] == 0
    tasks = json.loads((tmp_path / "o" / "labelstudio.json").read_text())
    view = ElementTree.parse(tmp_path / "o" / "labelstudio.xml").getroot()
    choices = {choice.get("value") for choice in view.iter("Choice")}
    used = {name for task in tasks for name in task["predictions"][0]["result"][0]["value"]["choices"]}
    assert used == choices == {"crow", "owl", "=Tawny, <b>"}
    assert all(0 <= task["predictions"][0].get("score", 0) <= 1 for task in tasks)


def test_label_studio_reads_categories_with_control_characters(nngcd, tmp_path, data):
    name = "\x1b[31mowl\x00"
    run = finished_run(tmp_path / "escaping", data=data, results=results_table().replace("owl", name))
    write_json(run.model / "categories.json", {"categories": ["crow", name, "new-001", "new-002"], "n_known": 2})
    assert nngcd("export", run.path, "--to", "labelstudio", "--out", tmp_path / "o")[0] == 0
    tasks = json.loads((tmp_path / "o" / "labelstudio.json").read_text())
    view = ElementTree.parse(tmp_path / "o" / "labelstudio.xml").getroot()
    choices = {choice.get("value") for choice in view.iter("Choice")}
    used = {name for task in tasks for name in task["predictions"][0]["result"][0]["value"]["choices"]}
    assert used == choices
    assert r"\x1b[31mowl\x00" in choices
