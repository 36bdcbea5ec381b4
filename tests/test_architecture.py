"""The shape of the code: imports go one way, the truth stays out of reach, components are found by file name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import nngcd
from nngcd.core.components import component_names, find_component
from nngcd.core.errors import UserError

PACKAGE = Path(nngcd.__file__).parent
LAYERS = (
    "core metrics data datasets views backbones losses clustering counting methods training results settings review "
    "checking runs report export finished_run pipeline api research cli"
).split()
MAY_NAME_TRUTH = {"data", "datasets", "results", "runs", "pipeline", "report", "research"}
FILES = sorted(PACKAGE.rglob("*.py"))


def layer_of(module: str) -> str | None:
    """Return the layer of `nngcd.layer...`; None for the package itself, which may import its public names."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else None


def imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            if node.module == "nngcd":
                modules |= {f"nngcd.{alias.name}" for alias in node.names}
    return {module for module in modules if module.startswith("nngcd.") and module != "nngcd.__version__"}


def module_name(path: Path) -> str:
    return ".".join(["nngcd", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


def test_imports_go_one_way():
    offenders = []
    for path in FILES:
        own = layer_of(module_name(path))
        for module in imported_modules(path) if own else ():
            layer = layer_of(module)
            assert layer in LAYERS, f"{module} belongs to no layer; add it to the order in docs/architecture.md"
            if LAYERS.index(layer) > LAYERS.index(own):
                offenders.append(f"{module_name(path)} ({own}) imports {module} from a later layer")
    assert not offenders


def test_the_documented_order_is_the_tested_one():
    documented = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert ", ".join(LAYERS) in documented


def test_the_documented_values_are_where_the_page_says():
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z_.]+\.[A-Z]\w+)` \|", page, re.MULTILINE)
    assert len(named) > 10
    missing = []
    for name in named:
        module, _, defined = name.rpartition(".")
        text = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        missing += [] if f"\nclass {defined}" in text else [name]
    assert not missing


def test_truth_stays_out_of_reach():
    others = [path for path in FILES if layer_of(module_name(path)) not in MAY_NAME_TRUTH]
    named = [path for path in others if re.search(r"\bTruth\b", path.read_text("utf-8").replace("no `Truth`", ""))]
    assert not named


def test_only_the_command_line_prints():
    printing = []
    for path in FILES:
        calls = [
            node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ]
        if layer_of(module_name(path)) != "cli" and any(getattr(call, "id", "") == "print" for call in calls):
            printing.append(module_name(path))
    assert not printing


def test_files_and_functions_stay_small():
    large = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text))
        functions = [
            node for node in nodes if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60
        ]
        large += [f"{module_name(path)}.{node.name}" for node in functions]
        large += [module_name(path)] if text.count("\n") > 300 else []
    assert not large


def test_docstrings_say_what_a_thing_is():
    opening = re.compile(r'"""(What|How)\b')
    assert not [module_name(path) for path in FILES if opening.search(path.read_text(encoding="utf-8"))]


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module_name(path))
    contract = {(name, layer_of(module)) for name in ("Config", "Method") for module in places[name]}
    assert contract == {("Config", "methods"), ("Method", "methods")}, "a method file defines these, and nothing else"
    assert not {name: modules for name, modules in places.items() if len(modules) > 1 and name not in dict(contract)}


@pytest.mark.parametrize("name", component_names("nngcd.methods", "Method"))
def test_a_method_fits_on_two_screens(name):
    assert (PACKAGE / "methods" / f"{name}.py").read_text(encoding="utf-8").count("\n") <= 150


def test_a_component_is_found_by_its_file_name(tmp_path, monkeypatch):
    import nngcd.methods

    (tmp_path / "brand_new.py").write_text("class Config: ...\nclass Method: ...\n")
    (tmp_path / "only_a_part.py").write_text("def helper(): ...\n")
    monkeypatch.setattr(nngcd.methods, "__path__", [*nngcd.methods.__path__, str(tmp_path)])
    component_names.cache_clear()
    try:
        assert find_component("nngcd.methods", "brand_new", "Method").__name__ == "nngcd.methods.brand_new"
        assert "only_a_part" not in component_names("nngcd.methods", "Method")
        assert "contract" not in component_names("nngcd.methods", "Method")
    finally:
        component_names.cache_clear()


def test_a_name_imported_from_elsewhere_makes_no_component():
    assert set(component_names("nngcd.methods", "Method")) >= {"kmeans", "nngcd", "simgcd"}


def test_an_unknown_component_suggests_a_known_one():
    with pytest.raises(UserError, match=r"unknown method 'simgdc'. Did you mean 'simgcd'\? Choose from: .*kmeans"):
        find_component("nngcd.methods", "simgdc", "Method")
