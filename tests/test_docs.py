"""README and every message, comment and docstring name pages of the docs that exist; `make docs` checks the rest."""

import re
from pathlib import Path

import nngcd

ROOT = Path(nngcd.__file__).parents[2]
NAMING = [
    *ROOT.glob("*.md"),
    *(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*")),
]


def test_pages_that_are_named_exist():
    missing = set()
    for path in NAMING:
        if path.suffix in (".py", ".md", ".yaml", ".html", ".js"):
            named = re.findall(r"\bdocs/[\w/.-]+\.(?:md|png|py)\b", path.read_text(encoding="utf-8"))
            missing |= {f"{path.relative_to(ROOT)}: {page}" for page in named if not (ROOT / page).exists()}
    assert not missing


def test_files_that_the_docs_name_exist():
    missing = set()
    for page in (ROOT / "docs").rglob("*.md"):
        named = re.findall(r"(?<![\w/.-])(?:[a-z_]+/)+[a-z_0-9]+\.py\b", page.read_text(encoding="utf-8"))
        places = ((ROOT / name, ROOT / "src" / "nngcd" / name) for name in named if "centroid" not in name)
        missing |= {f"{page.name}: {place}" for place, inside in places if not (place.exists() or inside.exists())}
    assert not missing


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 90
