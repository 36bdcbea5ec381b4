"""A whole run with OpenVINO under the trunk: the same files every time, and the engine is said."""

import json

import numpy as np
import pytest

from nngcd.backbones.engines import openvino_version
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_features

pytestmark = pytest.mark.skipif(not openvino_version(), reason="openvino is not installed")
FLAGS = ("--method", "kmeans", "--k", "3", "--image-size", "64", "--workers", "0", "--no-report", "--quiet")


@pytest.fixture
def fitted(nngcd, image_folder, tmp_path):
    def fit(name):
        place = ("--cache", tmp_path / f"{name}-cache", "--out", tmp_path / name)
        code, _, error = nngcd("fit", image_folder, *FLAGS, *place, "--engine", "openvino")
        assert code == 0, error
        return RunFolder.open(tmp_path / name)

    return fit


@pytest.mark.slow
def test_two_runs_give_the_same_numbers_and_say_which_engine_gave_them(fitted, nngcd, image_folder, tmp_path):
    first, second = fitted("first"), fitted("second")
    assert json.loads(first.environment.read_text())["engine"]["name"] == "openvino"
    assert np.array_equal(*(read_features(run, 30).numpy() for run in (first, second)))
    flags = ("--engine", "openvino", "--out", tmp_path / "new.csv", "--quiet")
    code, _, error = nngcd("predict", first.path, image_folder, *flags)
    assert code == 0, error


def test_an_unknown_engine_is_refused_before_anything_is_read(nngcd, image_folder):
    code, _, error = nngcd("fit", image_folder, "--engine", "onnx")
    assert code == 2 and "engine" in error and "Traceback" not in error
