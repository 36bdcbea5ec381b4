from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from nngcd.core import config
from nngcd.core.errors import ConfigError
from nngcd.views import Config as ViewsConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    rate: float = 0.1
    """How fast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    name: str = "a"
    """Its name,
    over two lines."""
    count: int = 1
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True, kw_only=True, slots=True)
class Further(Outer):
    extra: bool = False
    """Something more."""


def test_values_become_a_checked_object_and_back():
    values = {"name": "b", "count": 3, "inner": {"rate": 0.5}}
    built = config.build(Outer, values)
    assert built == Outer(name="b", count=3, inner=Inner(rate=0.5))
    assert config.to_values(built) == values


def test_numbers_written_as_text_are_numbers():
    assert config.build(Inner, {"rate": "3e-5"}).rate == 3e-5


def test_unknown_name_suggests_the_neighbour():
    with pytest.raises(ConfigError, match=r"inner\.raet = 1: no such setting. Did you mean 'rate'\?"):
        config.build(Outer, {"inner": {"raet": 1}})


def test_wrong_kind_names_the_setting():
    with pytest.raises(ConfigError, match=r"inner\.rate = 'fast'"):
        config.build(Outer, {"inner": {"rate": "fast"}})


def test_a_group_needs_names():
    with pytest.raises(ConfigError, match=r"inner = 3: is a group of settings: rate"):
        config.build(Outer, {"inner": 3})


def test_later_layers_win_name_by_name():
    assert config.merge({"a": 1, "g": {"x": 1, "y": 2}}, {"g": {"y": 3}}) == {"a": 1, "g": {"x": 1, "y": 3}}


def test_assignments_are_nested_and_typed():
    parsed = config.parse_assignments(["a.b=3", "a.c=true", "name=x=y"])
    assert parsed == {"a": {"b": 3, "c": True}, "name": "x=y"}


def test_settings_of_a_group_are_named_in_full():
    from nngcd.methods.nngcd import Config

    for wrong in ({"entropy_weight": -1}, {"entropy_weight": "x"}, {"entropy_weigth": 1}):
        with pytest.raises(ConfigError, match=rf"^loss\.{next(iter(wrong))} = "):
            config.build(Config, wrong, group="loss")


@pytest.mark.parametrize("text", ["nothing", "=3", "a=[1"])
def test_a_bad_assignment_is_refused(text):
    with pytest.raises(ConfigError):
        config.parse_assignments([text])


def test_the_string_under_a_field_is_its_help_also_when_inherited():
    assert config.field_docs(Outer) == {"name": "Its name, over two lines."}
    assert config.field_docs(Further) == {"name": "Its name, over two lines.", "extra": "Something more."}


def test_yaml_files(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    assert config.read_yaml(path) == {"a": 1}
    path.write_text("- 1\n")
    with pytest.raises(ConfigError, match="name: value"):
        config.read_yaml(path)
    path.write_text("a: 1\ndata: [secret\nb: 2\n")
    with pytest.raises(ConfigError, match=r"c\.yaml': is damaged \(line 3 is not valid YAML\).*from a copy") as refused:
        config.read_yaml(path)
    assert "secret" not in str(refused.value)
    path.write_text("a: \x00\n")
    with pytest.raises(ConfigError, match=r"is damaged \(not valid YAML\)"):
        config.read_yaml(path)
    with pytest.raises(ConfigError, match="No such file"):
        config.read_yaml(tmp_path / "absent.yaml")


def test_a_name_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("slow: {rate: 1}\nfast: {rate: 3}\nslow: {rate: 2}\n")
    with pytest.raises(ConfigError, match=r"line 3 names 'slow' a second time"):
        config.read_yaml(path)
    path.write_text("slow:\n  rate: 1\n  rate: 2\n")
    with pytest.raises(ConfigError, match=r"line 3 names 'rate' a second time"):
        config.read_yaml(path)


def test_a_file_that_is_no_text_and_a_list_that_is_none_are_refused_in_plain_words(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        config.read_yaml(tmp_path / "picture.png")
    with pytest.raises(ConfigError, match=r"sizes = 1.25: give a list, such as '\[A, B\]'"):
        config.build(ViewsConfig, {"sizes": 1.25})
