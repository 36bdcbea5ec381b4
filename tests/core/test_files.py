from __future__ import annotations

import pandas as pd
import pytest
import torch

from nngcd.core import files
from nngcd.core.errors import DataError


def test_tables_keep_their_values(tmp_path):
    table = pd.DataFrame({"name": ["a,b", 'say "hi"'], "value": [1.5, 2.0]})
    for name in ("t.csv", "t.parquet"):
        files.write_table(tmp_path / name, table)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table, check_dtype=False)


def test_tensors_round_trip_with_their_facts(tmp_path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3)}
    files.write_tensors(tmp_path / "t.safetensors", tensors, {"epoch": "7"})
    read, facts = files.read_tensors(tmp_path / "t.safetensors")
    assert facts == {"epoch": "7"}
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    ("read", "name"),
    [(files.read_tensors, "t.safetensors"), (files.read_json, "t.json"), (files.read_table, "t.parquet")],
)
def test_missing_and_damaged_files_are_named(tmp_path, read, name):
    with pytest.raises(DataError, match=f"{name} is missing"):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"\x00\x01 no")
    with pytest.raises(DataError, match=f"{name} is damaged"):
        read(tmp_path / name)
