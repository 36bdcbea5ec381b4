from __future__ import annotations

import pandas as pd

from nngcd.core import files


def test_tables_keep_their_values(tmp_path):
    table = pd.DataFrame({"name": ["a,b", 'say "hi"'], "value": [1.5, 2.0]})
    for name in ("t.csv", "t.parquet"):
        files.write_table(tmp_path / name, table)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table, check_dtype=False)
