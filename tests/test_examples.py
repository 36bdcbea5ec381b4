"""Every script in examples/ runs, with small settings, and shows what it promises."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import nngcd.methods
from nngcd.core.components import component_names
from shapes import draw_shapes

EXAMPLES = Path(__file__).parents[1] / "examples"
FOUR_SHAPES = {"circle", "square", "star", "triangle"}


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """A folder with the drawn images; runs go beside it."""
    monkeypatch.chdir(tmp_path)
    draw_shapes(tmp_path / "shapes", n_images=16)
    return tmp_path / "shapes"


@pytest.fixture
def example(monkeypatch, capsys):
    """Run the `main` of an example and return what it printed; methods it brings are gone afterwards."""
    monkeypatch.setattr(nngcd.methods, "__path__", list(nngcd.methods.__path__))
    component_names.cache_clear()

    def run(name, *arguments, **settings):
        monkeypatch.delitem(sys.modules, name, raising=False)
        import_module(name).main(*arguments, **settings)
        return capsys.readouterr().out

    yield run
    component_names.cache_clear()


@pytest.mark.slow
def test_own_images(example, shapes, tmp_path):
    printed = example("own_images", shapes, tmp_path / "run")
    assert "images readable         64" in printed
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow
def test_features_from_another_model(example):
    printed = example("features_from_another_model", n_images=400)
    predicted, truth = (printed.partition(f"{name}:")[2].split("]")[0] for name in ("predicted", "in truth"))
    pairs = list(zip(predicted.replace("'", "").strip(" [").split(), truth.strip(" [").split(), strict=True))
    known = [(found, digit) for found, digit in pairs if int(digit) < 5]
    assert known and sum(found == digit for found, digit in known) / len(known) > 0.5


@pytest.mark.slow
def test_correct_and_learn(example, shapes, tmp_path):
    printed = example("correct_and_learn", shapes, tmp_path / "run")
    corrected = printed.partition("corrected:")[2].splitlines()[0]
    assert set(corrected.split()) == FOUR_SHAPES
    second = nngcd.Run.open(tmp_path / "run-2")
    assert set(second.categories.query("kind == 'known'")["name"]) == FOUR_SHAPES
    assert (tmp_path / "run-exported" / "labels.csv").is_file()


def test_add_a_method(example):
    printed = example("add_a_method")
    assert float(printed.partition("nearest_mean:")[2].partition("%")[0]) > 80


@pytest.mark.slow
def test_benchmark_table(example, tmp_path):
    printed = example("benchmark_table", n_seeds=1, n_images=300, out=tmp_path / "bench")
    assert "kmeans" in printed and "nngcd" in printed
    assert (tmp_path / "bench" / "bench.md").is_file()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 60
    assert path.stem == "shapes" or f"python examples/{path.name}" in text
