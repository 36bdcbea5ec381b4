from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from nngcd.core import digests
from nngcd.core.config import read_yaml
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import write_json, write_table, write_tensors
from nngcd.core.model_schemas import Categories
from nngcd.core.run_reading import RESULTS
from nngcd.core.run_schemas import Environment
from nngcd.core.verified_files import read_csv, read_json, read_table, read_tensors

DEEP = "[" * 200_000


def environment(path):
    return read_json(path, Environment)


def results(path):
    return read_table(path, RESULTS)


def test_tensors_round_trip_with_their_facts(tmp_path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3), "c": torch.zeros(0, 2, dtype=torch.bfloat16)}
    write_tensors(tmp_path / "t.safetensors", tensors, {"epoch": "7"})
    read, facts = read_tensors(tmp_path / "t.safetensors")
    assert facts == {"epoch": "7"}
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


def test_no_bit_of_a_tensor_or_of_its_name_changes_unseen(tmp_path, rng):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"weight": torch.randn(50), "bias": torch.randn(3)}, {"epochs_done": "4"})
    whole = path.read_bytes()
    n_refused = 0
    for place in rng.permutation(8 * len(whole))[:400]:
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            tensors, strings = read_tensors(path)
        except DataError as error:
            assert "t.safetensors is damaged" in str(error)
            n_refused += 1
        else:  # padding of the header, or the name of the digest itself
            assert sorted(tensors) == ["bias", "weight"]
            assert strings["epochs_done"] == "4"
    assert n_refused > 360


def test_tensors_without_a_digest_are_not_ours(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "t.safetensors", {"epochs_done": "4"})
    with pytest.raises(DataError, match="does not match its sha256"):
        read_tensors(tmp_path / "t.safetensors")


@pytest.mark.parametrize(
    ("read", "name"), [(read_tensors, "t.safetensors"), (environment, "t.json"), (results, "t.parquet")]
)
def test_missing_and_damaged_files_are_named(tmp_path, read, name):
    with pytest.raises(DataError, match=f"R03: .*{name} is missing"):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"\x00\x01 no")
    with pytest.raises(DataError, match=f"R03: .*{name} is damaged"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    "text", [DEEP, '{"split_hash": ' + DEEP, '{"split_hash": NaN}', '{"split_hash": 1}', "{}", "[]", "null", "1" * 9999]
)
def test_json_of_any_shape_and_depth_is_refused(tmp_path, text):
    (tmp_path / "environment.json").write_text(text)
    with pytest.raises(DataError, match=r"environment\.json is damaged"):
        environment(tmp_path / "environment.json")


@pytest.mark.parametrize(
    "values",
    [{"categories": "abc", "n_known": 1}, {"categories": {"a": 1}, "n_known": 1}, {"categories": ["a"], "n_known": 2},
     {"categories": ["a", "a"], "n_known": 1}, {"categories": [1], "n_known": 0}, {"categories": ["a"]}],
)  # fmt: skip
def test_categories_of_another_shape_are_refused(tmp_path, values):
    write_json(tmp_path / "categories.json", values)
    with pytest.raises(DataError, match=r"categories\.json is damaged"):
        read_json(tmp_path / "categories.json", Categories)


@pytest.mark.parametrize(
    "text",
    ["a: " + DEEP, "data: 2024-99-99", "k: " + "9" * 5000, "a: !!timestamp x", "a: !!bool maybe", "a: !!python/none"],
)
def test_yaml_that_cannot_be_meant_is_refused(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match="is damaged"):
        read_yaml(tmp_path / "c.yaml")


def test_yaml_whose_anchors_stand_for_millions_of_values_is_refused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="has more than 100,000 values"):
        read_yaml(tmp_path / "c.yaml")


GOOD = {"file_name": ["a", "b"], "image_id": ["1", "2"], "label_given": [None, "x"], "category": ["x", "x"],
        "status": ["new", "known"], "confidence": [0.5, 1.0], "label": ["x", "x"],
        "novelty": [0.5, None], "possible_label_error": [False, True]}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"confidence": [None, 0.5]}, {"confidence": [0.5, np.inf]}, {"confidence": ["a", "b"]}, {"confidence": [0.5, 1.5]},
     {"category": [None, "x"]}, {"category": [["x"], ["x"]]}, {"image_id": [1, 2]}, {"file_name": [b"a", b"b"]}],
)  # fmt: skip
def test_a_table_of_other_content_is_refused(tmp_path, change):
    write_table(tmp_path / "r.parquet", pd.DataFrame(GOOD))
    assert len(results(tmp_path / "r.parquet")) == 2
    write_table(tmp_path / "r.parquet", pd.DataFrame(GOOD | change))
    with pytest.raises(DataError, match=f"the column '{next(iter(change))}' must hold"):
        results(tmp_path / "r.parquet")


@pytest.mark.parametrize("column", GOOD)
def test_a_table_without_a_column_is_refused(tmp_path, column):
    write_table(tmp_path / "r.parquet", pd.DataFrame(GOOD).drop(columns=column))
    with pytest.raises(DataError, match=f"it lacks the column '{column}'"):
        results(tmp_path / "r.parquet")


def test_a_file_that_is_not_what_was_written_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    facts = {"split_hash": "ab", "started": "", "command": [], "versions": {}, "machine": {}, "engine": {}}
    for name in ("data/split.csv", "environment.json"):
        (tmp_path / name).write_text(json.dumps(facts))
    digests.record(tmp_path, ["data/split.csv", "environment.json", "absent.json"])
    assert environment(tmp_path / "environment.json") == facts
    (tmp_path / "environment.json").write_text(json.dumps(facts | {"split_hash": "ac"}))
    with pytest.raises(DataError, match=r"R03: .*environment\.json is damaged \(it was changed after the run"):
        environment(tmp_path / "environment.json")
    (tmp_path / "data" / "split.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match=r"split\.csv is damaged \(it was changed after the run"):
        read_csv(tmp_path / "data" / "split.csv", {})
    digests.forget(tmp_path, but=["environment.json"])
    assert read_csv(tmp_path / "data" / "split.csv", {})["a"].tolist() == ["1"]


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', DEEP, "\x00" * 100])
def test_a_damaged_list_of_digests_is_named(tmp_path, text):
    (tmp_path / "environment.json").write_text(json.dumps({"split_hash": "ab"}))
    (tmp_path / "digests.json").write_text(text)
    with pytest.raises(DataError, match=r"R03: .*digests\.json is damaged"):
        environment(tmp_path / "environment.json")
