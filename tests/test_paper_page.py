"""docs/paper names what exists, and lists every erratum of the published numbers."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import nngcd

PACKAGE = Path(nngcd.__file__).parent
PAPER = PACKAGE.parents[1] / "docs" / "paper"
EQUATIONS = re.findall(
    r"^\| \((\d+)\) \|[^|]*\|([^|]*)\|", (PAPER / "equations.md").read_text(encoding="utf-8"), flags=re.MULTILINE
)


def errata(node: object) -> list[list[float]]:
    """Return the printed scores of all rows with an erratum, wherever they stand."""
    if isinstance(node, dict) and "erratum" in node:
        return [node["printed"]]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [scores for child in children for scores in errata(child)]


def test_every_numbered_equation_has_its_line():
    assert [int(number) for number, _ in EQUATIONS] == list(range(1, 33))


def test_every_function_said_to_implement_an_equation_exists():
    for number, where in EQUATIONS:
        path = PACKAGE
        for name in re.findall(r"`([^`]+)`", where):
            if name.endswith(".py"):
                path = PACKAGE / name
            else:
                assert re.search(rf"\b{name.split('.')[-1]}\b", path.read_text(encoding="utf-8")), (number, path, name)


def test_every_erratum_is_listed():
    tables = yaml.safe_load((PACKAGE / "research" / "published_results.yaml").read_text(encoding="utf-8"))
    assert len(errata(tables)) == 22
    page = (PAPER / "errata.md").read_text(encoding="utf-8")
    for scores in errata(tables):
        assert " / ".join(map(str, scores)) in page, scores
