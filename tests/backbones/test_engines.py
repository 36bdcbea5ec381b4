"""OpenVINO in place of torch for what is frozen: the same numbers, taken where it is sooner, never an obstacle."""

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch

from nngcd.backbones import compiled, engines, load_backbone
from nngcd.backbones.backbone import feature_backbone, frozen
from nngcd.backbones.compiled import Compiled
from nngcd.backbones.engines import FEWEST_IMAGES, Trial, choose_engine
from nngcd.backbones.sizes import with_sizes
from nngcd.backbones.whitened import whitened
from nngcd.core.errors import ConfigError, ResourceError

needs_openvino = pytest.mark.skipif(not engines.openvino_version(), reason="openvino is not installed")


@pytest.fixture
def small():
    return frozen(load_backbone("test_vit", pretrained=False))


@pytest.fixture(autouse=True)
def _own_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))


def assert_engines_agree(backbone, *batch_sizes):
    run = Compiled(backbone.trunk.network)
    for n_images in batch_sizes:
        side = backbone.preprocessing.image_size
        images = torch.rand(n_images, 3, side, side, generator=torch.Generator().manual_seed(n_images))
        expected = backbone.trunk(images)
        assert (run(images) - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.slow
@needs_openvino
def test_the_default_backbone_gives_the_same_features_at_several_sizes_in_batches_of_any_size():
    backbone = with_sizes(frozen(load_backbone("efficientnet_lite0", image_size=64)), (1.0, 1.25, 1.5))
    assert_engines_agree(backbone, 1, 3, 8)
    assert_engines_agree(whitened(backbone, 64), 3)


@needs_openvino
@pytest.mark.parametrize("effort", ["quick", "normal"])
@pytest.mark.parametrize(
    "name",
    [
        "test_vit",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("test_convnext", "test_byobnet", "resnet18")),
    ],
)
def test_networks_of_all_kinds_give_the_same_hidden_states(name, effort):
    backbone = load_backbone(name, pretrained=False)
    if effort == "quick" or name == "test_byobnet":  # which cannot be cut
        backbone = frozen(backbone)
    assert_engines_agree(backbone, 2)


@needs_openvino
def test_auto_takes_what_a_trial_found_to_be_faster(small, monkeypatch):
    for speed, engine in ((1.5, "openvino"), (0.9, "torch")):
        monkeypatch.setattr(engines, "_shared_trial", lambda _, speed=speed: Trial(difference=1e-7, speed=speed))
        choose_engine("auto", small, n_images=FEWEST_IMAGES)
        assert small.trunk.engine == engine
        assert "times as fast as torch" in small.trunk.engine_reason
    choose_engine("openvino", small, n_images=1)
    assert small.trunk.engine == "openvino"
    choose_engine("torch", small, n_images=FEWEST_IMAGES)
    assert small.trunk.engine == "torch"


@needs_openvino
def test_a_trial_is_made_once(small, monkeypatch):
    first = engines._remembered_trial(small)
    assert not first.failure and first.difference < 1e-5
    monkeypatch.setattr(engines, "_try", None)
    assert engines._remembered_trial(small) == first


@pytest.mark.slow
@needs_openvino
def test_where_nothing_can_be_remembered_every_run_tries(small, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "file"))
    assert not engines._remembered_trial(small).failure


def test_few_images_are_not_worth_compiling(small):
    choose_engine("auto", small, n_images=FEWEST_IMAGES - 1)
    assert small.trunk.engine == "torch" and "fewer than" in small.trunk.engine_reason


@needs_openvino
def test_a_network_that_cannot_be_converted_stays_with_torch(small, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such operation")

    monkeypatch.setattr(compiled, "_convert", fail)
    choose_engine("auto", small, n_images=FEWEST_IMAGES)
    assert small.trunk.engine == "torch" and "no such operation" in small.trunk.engine_reason
    with pytest.raises(ConfigError, match=r"no such operation.*use --engine auto"):
        choose_engine("openvino", small, n_images=FEWEST_IMAGES)


@needs_openvino
def test_other_numbers_are_not_taken(small, monkeypatch):
    monkeypatch.setattr(Compiled, "__call__", lambda self, images: small.trunk.network(images) * 1.001)
    choose_engine("auto", small, n_images=FEWEST_IMAGES)
    assert small.trunk.engine == "torch" and "differ from torch's by 1e-03" in small.trunk.engine_reason


def test_without_openvino_torch_is_taken(small, monkeypatch):
    monkeypatch.setattr(engines, "openvino_version", lambda: "")
    choose_engine("auto", small, n_images=FEWEST_IMAGES)
    assert small.trunk.engine == "torch"
    with pytest.raises(ResourceError, match=r"pip install 'nngcd\[openvino\]'"):
        choose_engine("openvino", small, n_images=FEWEST_IMAGES)


def test_half_precision_and_features_stay_with_torch(small):
    small.trunk.precision = "bf16-mixed"
    choose_engine("auto", small, n_images=FEWEST_IMAGES)
    assert small.trunk.engine == "torch"
    features = feature_backbone(8)
    choose_engine("openvino", features, n_images=FEWEST_IMAGES)
    assert features.trunk.engine == "torch"


def test_an_unknown_engine_is_refused(small):
    with pytest.raises(ConfigError, match="must be one of auto, torch, openvino"):
        choose_engine("onnx", small, n_images=1)


@pytest.mark.slow
@needs_openvino
def test_copies_and_pickles_leave_out_what_was_compiled(small):
    small.trunk.compiled = Compiled(small.trunk.network)
    images = torch.rand(2, 3, small.preprocessing.image_size, small.preprocessing.image_size)
    expected = small.trunk(images)
    for again in (copy.deepcopy(small.trunk), pickle.loads(pickle.dumps(small.trunk))):
        assert again.engine == "torch"
        torch.testing.assert_close(again(images), expected, rtol=1e-4, atol=1e-5)
    assert set(small.trunk.state_dict()) == set(again.state_dict())


@pytest.mark.slow
@needs_openvino
def test_openvino_has_as_many_threads_as_torch_and_sends_nothing_home(tmp_path):
    code = """
import sys, torch
from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import frozen
from nngcd.backbones.compiled import Compiled
torch.set_num_threads(1)
trunk = frozen(load_backbone("test_vit", pretrained=False)).trunk
run = Compiled(trunk.network)
run(torch.rand(1, 3, 160, 160))
(model,) = run.core._of_side.values()
assert model.get_property("INFERENCE_NUM_THREADS") == 1, model.get_property("INFERENCE_NUM_THREADS")
assert sys.modules["openvino_telemetry"] is None
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert not (tmp_path / "intel").exists()


@pytest.mark.slow
@needs_openvino
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_is_handled_after_compiled_networks_are_gone():
    code = """
import signal, torch
from nngcd.backbones.compiled import Compiled
first, second = (Compiled(torch.nn.Conv2d(3, 4, 3)) for _ in range(2))
for run in (first, second):
    run(torch.rand(1, 3, 8, 8))
del run, first
del second
signal.signal(signal.SIGTERM, lambda *_: print("handled"))
signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr
