"""The small finished run of `finished_runs`."""

import pytest
from finished_runs import finished_run


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run")
