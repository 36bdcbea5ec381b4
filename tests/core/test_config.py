from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from nngcd.core import config
from nngcd.core.errors import ConfigError
from nngcd.views.preprocessing import ViewSettings


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
    with pytest.raises(ConfigError, match=r"inner\.raet = 1: unknown setting. Did you mean 'rate'\?"):
        config.build(Outer, {"inner": {"raet": 1}})


def test_wrong_kind_names_the_setting():
    with pytest.raises(ConfigError, match=r"inner\.rate = 'fast'"):
        config.build(Outer, {"inner": {"rate": "fast"}})


def test_a_group_needs_names():
    with pytest.raises(ConfigError, match=r"inner = 3: must be a group of settings: rate"):
        config.build(Outer, {"inner": 3})


def test_later_layers_win_name_by_name():
    assert config.merge({"a": 1, "g": {"x": 1, "y": 2}}, {"g": {"y": 3}}) == {"a": 1, "g": {"x": 1, "y": 3}}


def test_a_value_where_another_layer_has_a_group_is_not_lost():
    with pytest.raises(ConfigError, match=r"^g = 3: is a group; set its settings, such as x"):
        config.merge({"g": 3}, {"g": {"x": 1}})
    assert config.merge({"g": None}, {"g": {"x": 1}}) == {"g": {"x": 1}}


def test_assignments_are_nested_and_typed():
    parsed = config.parse_assignments(["a.b=3", "a.c=true", "name=x=y"])
    assert parsed == {"a": {"b": 3, "c": True}, "name": "x=y"}


def test_settings_of_a_group_are_named_in_full():
    from nngcd.methods.nngcd import Config

    for wrong in ({"entropy_weight": -1}, {"entropy_weight": "x"}, {"entropy_weigth": 1}):
        with pytest.raises(ConfigError, match=rf"^loss\.{next(iter(wrong))} = "):
            config.build(Config, wrong, group="loss")


def test_what_a_settings_class_says_is_said_as_it_is():
    from nngcd.settings import Settings

    for wrong, said in (
        ({"training": {"tail_final_learning_rate": 2}}, "training.tail_final_learning_rate = 2.0: must be in [0, 1]"),
        ({"tail_blocks": 0}, "tail_blocks = 0: must be at least 1"),
    ):
        with pytest.raises(ConfigError) as error:
            config.build(Settings, wrong)
        assert str(error.value) == said


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
    with pytest.raises(
        ConfigError, match=r"c\.yaml': is damaged \(line 3 is not valid YAML\).*from a backup"
    ) as refused:
        config.read_yaml(path)
    assert "secret" not in str(refused.value)
    path.write_text("a: \x00\n")
    with pytest.raises(ConfigError, match=r"is damaged \(not valid YAML\)"):
        config.read_yaml(path)
    with pytest.raises(ConfigError, match="No such file"):
        config.read_yaml(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("slow: {rate: 1}\nfast: {rate: 3}\nslow: {rate: 2}\n", "slow", 3),
        ("slow:\n  rate: 1\n  rate: 2\n", "rate", 3),
        ("slow: {rate: 1, rate: 2}\n", "rate", 1),
    ],
)
def test_a_name_that_stands_twice_is_refused(tmp_path, text, name, line):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"has '{name}' twice in one group \(again in line {line}\); remove one"):
        config.read_yaml(path)


def test_a_name_that_stands_twice_in_an_assignment_is_refused():
    with pytest.raises(ConfigError, match=r"--set training.*'epochs' twice"):
        config.parse_assignments(["training={epochs: 1, epochs: 2}"])


def test_names_are_text_as_written(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("on: 1\nyes: {0.10: on}\n1: 2\n01: 3\nnull: 4\n")
    assert config.read_yaml(path) == {"on": 1, "yes": {"0.10": True}, "1": 2, "01": 3, "null": 4}
    path.write_text("? [a, b]\n: 1\n")
    with pytest.raises(ConfigError, match=r"instead of a name \(line 1\); write 'name: value'"):
        config.read_yaml(path)


def test_a_group_may_begin_as_another_one(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a: &a {rate: 1}\nx:\n  y: &b\n    <<: *a\n    rate: 2\nc:\n  <<: *b\n")
    assert config.read_yaml(path) == {"a": {"rate": 1}, "x": {"y": {"rate": 2}}, "c": {"rate": 2}}


def test_a_file_that_is_no_text_and_a_list_that_is_none_are_refused_in_plain_words(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        config.read_yaml(tmp_path / "picture.png")
    with pytest.raises(ConfigError, match=r"sizes = 1.25: give a list, such as '\[A, B\]'"):
        config.build(ViewSettings, {"sizes": 1.25})


def test_a_name_that_is_not_text_is_unknown():
    with pytest.raises(ConfigError, match="1 = True: unknown setting"):
        config.build(Outer, {1: True})
