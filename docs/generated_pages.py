"""Pages of the site that are made from the code while it is built: commands, settings, Python (a hook of MkDocs)."""

from __future__ import annotations

import ast
import dataclasses
import html
import importlib
import itertools
import json
import logging
import pkgutil
import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import nngcd
from nngcd.cli.app import app
from nngcd.core.components import component_names, find_component
from nngcd.core.config import field_docs, flatten
from nngcd.datasets.published_splits import published_names
from nngcd.research.lineup import every_name
from nngcd.research.published_results import Published, published_results
from nngcd.settings import Settings, presets_of, resolve, to_values

Lines = Iterator[str]
log = logging.getLogger("mkdocs.hooks.generated_pages")

PACKAGES = {
    "methods": "One file is one method: its settings and its mathematics. `contract` defines the interface.",
    "losses": "Plain functions. Views are always an axis of their own, and suffixes name the axes of a tensor.",
    "metrics": "Metrics of clusters against true classes. All functions take plain arrays.",
    "clustering": "Clustering of features, and the number of clusters.",
}
SETTINGS = """A setting has the same name everywhere: `--set training.epochs=50` on the command line,
`training: {epochs: 50}` in a file for `--config`, and a line in the run's `config.yaml`. A run starts from its method's
recipe (`preset`); the effort, the file and the flags override it, in this order. An unknown name is an error.
The defaults below apply before the recipe; [Methods](#methods) lists what each recipe sets.
"""
METHODS = """The settings of each preset, with the effort it is made for, on your own data. In `official`, benchmarks
may have other values. Settings of every run are listed if a recipe changes them.
"""
PUBLISHED = """Accuracies on the unlabelled images in per cent, as printed, with a ViT-B. `nngcd bench` prints them
next to ours, which are always from the last epoch. They cannot simply be compared with each other: *best on hidden
labels* is the epoch with the best accuracy on the images that are scored, *best on old test* the one with the best
accuracy on test images of old classes; methods built on SelEx assume that all classes are equally large; most settings
differ by data set.
"""
PYTHON = """`nngcd.run` and `CategoryDiscovery` make and use run folders ([Start here](../start.md) has an example). The
packages at the end are for research.
"""
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\ssrc=["']?((?:https?:)?//[^"'\s>]+)""")
LINKED = re.compile(r"""<link\b(?=[^>]*\srel=["']?(?!canonical)\w)[^>]*\shref=["']?((?:https?:)?//[^"'\s>]+)""")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    pages = {"commands": commands(), "settings": settings(), "python": python()}
    pages |= {name: package(name, summary) for name, summary in PACKAGES.items()}
    pages = {f"reference/{name}.md": lines for name, lines in pages.items()}
    pages["results/published.md"] = published()
    pages["guides/examples.md"] = examples(Path(config.config_file_path).parent / "examples")
    for path, lines in pages.items():
        files.append(File.generated(config, path, content="\n".join(lines)))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:  # noqa: ANN401 (MkDocs passes it)
    """Keep a mean and its deviation in one line."""
    return markdown.replace(" ± ", "\u00a0±\u00a0")


def on_post_page(output: str, page: Any, config: MkDocsConfig) -> None:  # noqa: ANN401 (MkDocs passes it)
    """Warn of a page that would load something from another host; a strict build then fails."""
    for address in LOADED.findall(output) + LINKED.findall(output):
        log.warning("%s would load %s; the site must work offline.", page.file.src_path, address)


def commands() -> Lines:
    """Return the page of the command line: every command with its arguments and options."""
    yield "# Command line\n"
    yield "`--help` prints the same text. [Exit codes](run-folder.md#exit-codes) mean the same for every command.\n"
    panels: dict[str, dict[str, str]] = {}
    for name, command in _commands(typer.main.get_command(app), "nngcd"):
        yield f"## {name}\n"
        yield from _command(name, command, panels)
    for panel, rows in panels.items():
        yield f"## {panel}\n"
        yield from _table(("option", "meaning"), rows.items())


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (typer has a click of its own)
    for part, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {part}")
        else:
            yield f"{name} {part}", command


def _command(name: str, command: Any, panels: dict[str, dict[str, str]]) -> Lines:  # noqa: ANN401 (as above)
    """Return one command; options of a panel, which several commands share, are added to `panels` instead."""
    context = command.make_context(name, [], resilient_parsing=True)
    for paragraph in command.help.split("\n\n"):
        label, _, example = paragraph.partition(":  ")
        yield f"```console\n{example.strip()}\n```\n" if label == "Example" else f"{_prose(paragraph)}\n"
    rows: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for parameter in command.params:
        described = parameter.get_help_record(context)
        panel = parameter.rich_help_panel
        if described is None:
            continue
        if isinstance(panel, str):
            panels.setdefault(panel, {})[_code(described[0])] = _prose(described[1])
            elsewhere[panel] = f"[{panel}](#{slugify(panel.lower(), '-')})"
        else:
            rows[_code(described[0])] = _prose(described[1])
    if rows:
        yield from _table(("option", "meaning"), rows.items())
    yield from (f"It also has the options under {link}.\n" for link in elsewhere.values())


def published() -> Lines:
    """Return the page of the published numbers: a table for each data set and pre-training."""
    yield f"# Published numbers\n\n{PUBLISHED}\n"
    for pretraining, dataset in itertools.product(("dino", "dinov2"), published_names()):
        rows = [(name, published_results(dataset, name, pretraining=pretraining)) for name in every_name()]
        found = [(name, row) for name, row in rows if row is not None]
        if found:
            yield f"## {dataset}, {pretraining}\n"
            head = ("method", "All / Old / New", "of the epoch", "from")
            yield from _table(head, [(name, *_published_cells(row)) for name, row in found])


def _published_cells(row: Published) -> tuple[str, str, str]:
    scores = " / ".join(f"{score:.1f}" for score in row.scores)
    return scores + ("" if row.erratum is None else f" ({row.erratum})"), row.selection, row.source


def settings() -> Lines:
    """Return the page of the settings: every field of the frozen dataclasses, and what each recipe sets."""
    yield "# Settings\n"
    yield SETTINGS
    yield from _fields(Settings, "", "Every run")
    yield "## Methods\n"
    yield METHODS
    for method in component_names("nngcd.methods", "Method"):
        yield f"### {method}\n"
        yield from _recipes(method)


def _fields(cls: type, prefix: str, title: str) -> Lines:
    """Return the fields of one settings class, then those of the groups within it."""
    docs, kinds = field_docs(cls), typing.get_type_hints(cls)
    groups = {name: kind for name, kind in kinds.items() if dataclasses.is_dataclass(kind)}
    yield f"## {title}\n"
    rows = [(_named(prefix + f.name, docs[f.name]), _value(_default(f)))
            for f in dataclasses.fields(cls) if f.name not in groups and f.name != "loss"]  # fmt: skip
    yield from _table(("setting", "default"), rows)
    for name, kind in groups.items():
        yield from _fields(kind, f"{prefix}{name}.", docs[name].rstrip("."))


def _recipes(method: str) -> Lines:
    """Return a method's settings with what each of its presets sets, and what its recipes change of other settings."""
    plain = flatten(_defaults(Settings))
    docs = field_docs(find_component("nngcd.methods", method, "Method").Config)
    efforts = {preset: "quick" if preset == "default" else "full" for preset in presets_of(method)}
    presets = [
        flatten(to_values(resolve({"method": method, "preset": preset, "effort": effort})))
        for preset, effort in efforts.items()
    ]
    rows = []
    for name, value in presets[0].items():
        own = name.removeprefix("loss.")
        is_changed = any(values[name] != plain.get(name, value) for values in presets)
        if own != name or (is_changed and name not in ("method", "preset", "effort")):
            rows.append((_named(name, docs.get(own, "")), *(_value(values[name]) for values in presets)))
    if rows:
        heads = [f"{preset}, {effort}" for preset, effort in efforts.items()]
        yield from _table(("setting", *heads), rows)
    else:
        yield "No settings of its own.\n"


def _defaults(cls: type) -> dict[str, Any]:
    values = {f.name: _default(f) for f in dataclasses.fields(cls)}
    return {name: _defaults(type(v)) if dataclasses.is_dataclass(v) else _listed(v) for name, v in values.items()}


def _default(field: dataclasses.Field[Any]) -> object:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def python() -> Lines:
    """Return the page of the public names of the package."""
    yield "# Python\n"
    yield PYTHON
    for name in nngcd.__all__:
        if not name.startswith("_"):
            yield f"::: nngcd.{name}\n"
    yield "## Packages\n"
    for name, summary in PACKAGES.items():
        yield f"- [nngcd.{name}]({name}.md): {summary}"


def package(name: str, summary: str) -> Lines:
    """Return the page of one package: its modules and their public names."""
    yield f"# nngcd.{name}\n\n{summary}\n"
    for module in pkgutil.iter_modules(importlib.import_module(f"nngcd.{name}").__path__):
        if not module.name.startswith("_"):
            yield f"::: nngcd.{name}.{module.name}\n"


def examples(folder: Path) -> Lines:
    """Return the page of the scripts in `examples/` that can be run: what each does, and its code."""
    yield "# Examples\n\nShort scripts from the folder `examples/`. The tests run each of them.\n"
    for path in sorted(folder.glob("*.py")):
        code = path.read_text(encoding="utf-8")
        if "__main__" in code:
            title = (ast.get_docstring(ast.parse(code)) or path.stem).splitlines()[0]
            yield f'## {title.rstrip(".")}\n\n```python title="examples/{path.name}"\n{code}```\n'


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Lines:
    heads = list(heads)
    yield '<div class="described" markdown>\n'
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield "\n</div>\n"


def _named(name: str, text: str) -> str:
    return f"{_code(name)}<br>{_prose(text)}" if text else _code(name)


def _prose(text: str) -> str:
    """Return help text as Markdown in which nothing but `code` means anything."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]<>#])", lambda found: f"&#{ord(found[0])};", text)


def _code(text: str) -> str:
    return f"<code>{html.escape(text.replace(' <bool>', ''))}</code>"


def _value(value: object) -> str:
    value = _listed(value)
    return "" if value is None or value in ([], "") else _code(json.dumps(value).strip('"'))


def _listed(value: object) -> object:
    return list(value) if isinstance(value, (tuple, frozenset, set)) else value
