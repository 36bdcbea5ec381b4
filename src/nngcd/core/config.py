"""Settings: frozen dataclasses, read from YAML, flags or Python through one door."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from nngcd.core.errors import ConfigError, did_you_mean

Values = dict[str, Any]
MOST_BYTES, MOST_VALUES, MOST_LEVELS = 2**20, 100_000, 50
"""Of a settings file; a run has some hundred settings."""
NOT_YAML = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors of PyYAML: its own, and others for what a type of YAML cannot hold (the 99th of a month), or for
groups within groups without end."""
_Settings = TypeVar("_Settings")


def build(cls: type[_Settings], values: Mapping[str, Any], *, group: str = "") -> _Settings:
    """Return a checked settings object from plain values; errors name a setting with its group, such as `loss.`.

    Raises:
        ConfigError: an unknown name (the neighbours are listed) or a value of the wrong kind.
    """
    try:
        return _built(cls, values)
    except ConfigError as error:
        raise (error.within(group) if group else error) from None


def _built(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
    check_names(cls, values)
    try:
        return TypeAdapter(cls).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        own = first.get("ctx", {}).get("error")
        if isinstance(own, ConfigError):  # raised by a settings class itself; pydantic takes it for one of its own
            raise own from None
        name = ".".join(str(part) for part in first["loc"])
        is_list = first["type"] == "tuple_type"
        raise ConfigError(name, first["input"], "give a list, such as '[A, B]'" if is_list else first["msg"]) from None


def check_names(cls: type, values: Mapping[str, Any], prefix: str = "") -> None:
    """Raise `ConfigError` for the first name that is not a field of the settings class, at any depth.

    Also for true or false where a number or text is wanted: it would count as 1 or 0.
    """
    kinds = _field_types(cls)
    for name, value in values.items():
        if name not in kinds:
            hint = did_you_mean(str(name), kinds)
            raise ConfigError(
                f"{prefix}{name}", value, f"unknown setting.{hint} Choose from: {', '.join(sorted(kinds))}"
            )
        kind = kinds[name]
        if isinstance(value, bool) and kind is not Any and bool not in (kind, *typing.get_args(kind)):
            raise ConfigError(prefix + name, value, "must be a number or a name, not true or false")
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            if not isinstance(value, Mapping):
                raise ConfigError(prefix + name, value, f"must be a group of settings: {', '.join(_field_types(kind))}")
            check_names(kind, value, f"{prefix}{name}.")


def as_values(settings: Mapping[str, Any] | None) -> Values:
    """Return settings that were given in Python as a dict."""
    if not isinstance(settings, Mapping | None):
        raise ConfigError("settings", settings, "give a dict of names and values, such as {'k': 12}")
    return dict(settings or {})


def check_text(values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise `ConfigError` for the first of these settings that is given and is neither text nor a path."""
    for name in names:
        if not isinstance(values.get(name), str | Path | None):
            raise ConfigError(name, values[name], "must be text")


def to_values(settings: Any) -> Values:  # noqa: ANN401 (any dataclass instance; typing has no public name for it)
    """Return settings as nested plain values that YAML and JSON can hold."""
    return typing.cast(Values, TypeAdapter(type(settings)).dump_python(settings, mode="json"))


def merge(*layers: Mapping[str, Any]) -> Values:
    """Return the layers laid over each other, later ones winning, groups merged name by name.

    Raises:
        ConfigError: a group would be laid over a value, which would be lost in silence.
    """
    merged: Values = {}
    for layer in layers:
        for name, value in layer.items():
            below = merged.get(name)
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                merged[name] = merge(below, value)
            elif isinstance(value, Mapping) and below is not None:
                raise ConfigError(name, below, f"is a group; set its settings, such as {', '.join(value)}")
            else:
                merged[name] = value
    return merged


def flatten(values: Mapping[str, Any], prefix: str = "") -> Values:
    """Return nested values by their full names, `training.epochs`."""
    flat: Values = {}
    for name, value in values.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def parse_assignments(assignments: Iterable[str]) -> Values:
    """Return the nested values of `a.b=c` flags; the right side is read as YAML, so numbers become numbers."""
    values: Values = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise ConfigError("--set", assignment, "expected NAME=VALUE, for example training.epochs=30")
        try:
            value: Any = yaml.load(text, Loader=_PlainNames)
        except _BadName as error:
            raise ConfigError(f"--set {path}", text[:80], str(error)) from None
        except NOT_YAML as error:
            raise ConfigError(f"--set {path}", text[:80], f"is not valid YAML ({error.__class__.__name__})") from None
        for part in reversed(path.split(".")):
            value = {part: value}
        values = merge(values, value)
    return values


RESTORE = "Correct it, restore it from a backup, or run `nngcd fit` again"


def read_yaml(path: Path, *, what: str = "config file", way_out: str = RESTORE) -> Values:
    """Return the values of a YAML file; messages say `what` it is and the `way_out`.

    Raises:
        ConfigError: the file is missing or does not hold a mapping.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _BadName(f"is too large for a settings file. {way_out}")
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_PlainNames)
    except OSError as error:
        raise ConfigError(what, str(path), error.strerror or "cannot be read") from None
    except NOT_YAML as error:
        raise ConfigError(what, str(path), _damage(error, way_out)) from None
    if not isinstance(values, dict):
        raise ConfigError(what, str(path), f"must have lines of the form 'name: value'. {way_out}")
    if _n_values(values) > MOST_VALUES:
        raise ConfigError(what, str(path), f"has more than {MOST_VALUES:,} values. {way_out}")
    return values


def _n_values(values: object) -> int:
    """Return how many values there are at any depth, or a number above the bound: a few anchors can stand for any."""
    waiting, n = [values], 0
    while waiting and n <= MOST_VALUES:
        value = waiting.pop()
        n += 1
        if isinstance(value, (dict, list, tuple, set)):
            n += len(value)
            waiting += value.values() if isinstance(value, dict) else value
    return n


class _BadName(yaml.YAMLError):
    """A name that cannot be meant; says which, where, and what to do."""


class _PlainNames(yaml.SafeLoader):
    """YAML whose names are text, as written, and stand once: else `on` is True, and of two values the last one wins."""

    level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next value; PyYAML's time grows with the square of how deep it is nested."""
        self.level += 1
        if self.level > MOST_LEVELS:
            raise _BadName(f"is damaged: groups or lists are nested more than {MOST_LEVELS} deep")
        node = super().compose_node(parent, index)
        self.level -= 1
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Return a group of names and values as it is written, before values and anchors are filled in."""
        node = super().compose_mapping_node(anchor)
        names = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _BadName(f"has a list or a group instead of a name (line {line}); write 'name: value'")
            if key.value in names:
                raise _BadName(f"has '{key.value}' twice in one group (again in line {line}); remove one of them")
            names.add(key.value)
            if key.tag != MERGE:
                key.tag = self.DEFAULT_SCALAR_TAG
        return node


MERGE = "tag:yaml.org,2002:merge"
"""Tag of the name `<<` in YAML."""


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Return the string under each field of a settings class, the one text behind `--help` and the docs."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        docs |= _own_field_docs(base)
    return docs


def _own_field_docs(cls: type) -> dict[str, str]:
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]).body
    docs: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        is_documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_documented:
            text = typing.cast(ast.Constant, typing.cast(ast.Expr, below).value).value
            docs[field.target.id] = " ".join(str(text).split())
    return docs


def _field_types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _damage(error: Exception, way_out: str) -> str:
    if isinstance(error, _BadName):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text. {way_out}"
    mark = getattr(error, "problem_mark", None)
    where = "not valid YAML" if mark is None else f"line {mark.line + 1} is not valid YAML"
    return f"is damaged ({where}). {way_out}"
