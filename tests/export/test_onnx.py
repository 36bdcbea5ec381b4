import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from finished_runs import CATEGORIES, finished_run
from PIL import Image

from nngcd.core import config
from nngcd.core.components import find_component
from nngcd.export import onnx as onnx_format
from nngcd.review.session import Review
from nngcd.training.model import Blueprint, Model, build_backbone
from nngcd.views.preprocessing import Preprocessing


def small_model(method, *, n_features=None, backbone="resnet10t", **more):
    loss = config.to_values(find_component("nngcd.methods", method, "Method").Config(
        **({"n_hidden": 8, "n_projection": 4} if method != "kmeans" else {})))  # fmt: skip
    blueprint = Blueprint(
        backbone=backbone, effort="quick", tail_blocks=1, image_size=32, method=method, loss=loss,
        n_features=n_features, n_clusters=len(CATEGORIES), n_old=2, **more,
    )  # fmt: skip
    return Model.assemble(blueprint, build_backbone(blueprint, pretrained=False), seed=0)


def session_of(path):
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.slow
def test_the_whole_model_runs_without_torch_and_gives_the_same_for_any_batch(nngcd, tmp_path):
    model = small_model("nngcd", n_features=6, whitened_features=4)
    run = finished_run(tmp_path / "run")
    model.save(run.model, CATEGORIES)
    review = Review(run)
    review.rename("new-002", "Barn owl")
    review.merge(["new-001", "owl"])
    code, said, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert code == 0, err
    assert "[torch.onnx]" not in said + err
    session = session_of(tmp_path / "o" / "onnx" / "model.onnx")
    for n in (1, 4):
        examples = onnx_format._examples(model, n)
        scores, probabilities = session.run(None, {"images": examples.numpy()})
        expected, _ = onnx_format.WholeModel(model)(examples)
        assert np.allclose(scores, expected.detach().numpy(), atol=1e-4)
        assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    categories = json.loads((tmp_path / "o" / "onnx" / "categories.json").read_text())
    assert [facts["id"] for facts in categories] == CATEGORIES
    assert categories[2] == {"output": 2, "id": "new-001", "kind": "new", "category": ["owl"], "label": ["owl"]}
    assert categories[3]["label"] == ["Barn owl"]
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["categories"]) == categories
    assert facts["input"] == "images: float32 (n, 6) features"


@pytest.mark.slow
def test_images_go_in_as_they_are_and_the_preprocessing_is_described(nngcd, tmp_path):
    model = small_model("kmeans")
    run = finished_run(tmp_path / "run")
    model.save(run.model, CATEGORIES)
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert code == 0, err
    session = session_of(tmp_path / "o" / "onnx" / "model.onnx")
    (images,) = session.get_inputs()
    assert (images.type, images.shape[1:]) == ("tensor(uint8)", [3, 32, 32])
    assert (
        onnx_format.largest_difference(tmp_path / "o" / "onnx" / "model.onnx", model, onnx_format._examples(model, 5))
        < 1e-4
    )
    described = json.loads((tmp_path / "o" / "onnx" / "preprocessor.json").read_text())
    assert described["image_size"] == 32
    assert "centre" in " ".join(described["steps"])


@pytest.mark.needs("onnxscript")
@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{"sizes": (1.0, 1.5)}, {"effort": "normal"}, {"effort": "normal", "sizes": (1.0, 1.5)}],
)
def test_whitened_features_of_several_sizes_or_of_a_trained_stage_go_along(nngcd, tmp_path, more):
    plain = small_model("nngcd").blueprint
    blueprint = replace(plain, whitened_features=8, **more)
    model = Model.assemble(blueprint, build_backbone(blueprint, pretrained=False), seed=0)
    run = finished_run(tmp_path / "run")
    model.save(run.model, CATEGORIES)
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert code == 0, err
    exported = tmp_path / "o" / "onnx" / "model.onnx"
    # More images than a CPU takes at once, and another number than in the trace.
    assert onnx_format.largest_difference(exported, model, onnx_format._examples(model, 19)) < 1e-4


@pytest.mark.needs("onnxscript")
def test_a_model_that_differs_is_not_written(nngcd, tmp_path, monkeypatch):
    run = finished_run(tmp_path / "run")
    small_model("kmeans", n_features=6).save(run.model, CATEGORIES)
    monkeypatch.setattr(onnx_format, "_export", lambda whole, examples, path, facts: path.write_bytes(b"x"))
    monkeypatch.setattr(onnx_format, "largest_difference", lambda path, model, examples: float("nan"))
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert (code, "differs from torch by nan" in err) == (5, True)
    assert not (tmp_path / "o").exists()


def test_a_foreign_model_is_refused(nngcd, tmp_path):
    """S02: the weights of another network in the run folder."""
    run = finished_run(tmp_path / "run")
    small_model("kmeans", n_features=6).save(run.model, CATEGORIES)
    small_model("kmeans", n_features=7).save(tmp_path / "other", CATEGORIES)
    (run.model / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert (code, "does not match its config.json" in err) == (3, True)
    assert "tail differ (network.weight: expected 6x6, found 7x7" in err.replace("\n", " ")
    (run.model / "model.safetensors").write_bytes(b"\x80\x04pickle")
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert (code, "is damaged" in err) == (3, True)
    assert not (tmp_path / "o").exists()


def test_the_example_in_the_docs_prepares_images_as_training_does(tmp_path, monkeypatch, rng):
    text = (Path(__file__).parents[2] / "docs" / "guides" / "export.md").read_text(encoding="utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    seen = []

    class Session:
        def __init__(self, path):
            self.shape = ["n", 3, 32, 32]

        def get_inputs(self):
            return [self]

        def run(self, names, inputs):
            seen.append(inputs["images"])
            return None, None

    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=Session))
    monkeypatch.chdir(tmp_path)
    for height, width in ((50, 70), (91, 40), (36, 36)):
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        image.save("a.jpg", format="PNG")
        exec(example, {})
        expected = Preprocessing(image_size=32, crop_fraction=0.875).centre_view(image)
        assert np.array_equal(seen[-1][0], expected.numpy())


@pytest.mark.needs("onnxscript")
def test_without_the_packages_the_extra_is_named(nngcd, tmp_path, monkeypatch):
    run = finished_run(tmp_path / "run")
    find = onnx_format.importlib.util.find_spec
    monkeypatch.setattr(
        onnx_format.importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name)
    )
    code, _, err = nngcd("export", run.path, "--to", "onnx", "--out", tmp_path / "o")
    assert code == 4
    assert "the ONNX export needs onnxscript. Run: pip install 'nngcd[onnx]'" in err
