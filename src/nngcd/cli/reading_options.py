"""The flags that say how DATA is read: the same for every command that reads a user's own images."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli.shared_options import COLUMNS_HELP
from nngcd.core.errors import ConfigError

PANEL = "Reading DATA"


def _flag(*names: str, help: str, metavar: str | None = None) -> Any:  # noqa: ANN401 (typer has no name for it)
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=PANEL)


_OPTIONS: dict[str, Any] = {
    "labels": Annotated[
        Path | None,
        _flag("--labels", metavar="TABLE", help="Labels for the images of a folder (columns file_name,label)."),
    ],
    "unlabelled_names": Annotated[
        list[str] | None, _flag("--unlabelled", "--unlabeled", metavar="NAME", help='A label that means "no label".')
    ],
    "category_names": Annotated[
        list[str] | None, _flag("--category", metavar="NAME", help="A label, such as unknown, that is a real category.")
    ],
    "same": Annotated[
        list[str] | None, _flag("--same", metavar="A=B", help="B is another spelling of category A.")
    ],
    "label_level": Annotated[
        int | None, _flag("--label-level", metavar="N", help="Level of sub-folders that are categories. (default: 1)")
    ],
    "image_root": Annotated[
        Path | None, _flag("--root", metavar="FOLDER", help="Folder that a table's paths are relative to.")
    ],
    "columns": Annotated[
        str | None, _flag("--columns", metavar="ROLE=NAME,...", help=COLUMNS_HELP)
    ],
    "rest": Annotated[
        str | None,
        _flag("--rest", metavar="unlabelled|ignore", help="Sort images that the table does not list, or ignore them."),
    ],
    "allow_bad": Annotated[
        float | None, _flag("--allow-bad", metavar="SHARE", help="Share of unreadable files to accept. (default: 0.1)")
    ],
    "follow_links": Annotated[bool, _flag("--follow-links", help="Follow links that leave the folder.")],
    "drop_duplicates": Annotated[bool, _flag("--drop-duplicates", help="Use only one of several identical files.")],
    "max_pixels": Annotated[
        float | None, _flag("--max-pixels", metavar="N", help="Maximum pixels in an image. (default: 179 million)")
    ],
    "sample": Annotated[
        int | None,
        _flag("--sample", metavar="N", help="Train on N images, all labelled ones among them; then sort all."),
    ],
    "grey16": Annotated[
        str | None,
        _flag("--grey16", metavar="per-image|fixed:A-B", help="Black and white values of 16-bit and float images."),
    ],
}  # fmt: skip
_FLAG_OF = {
    "unlabelled_names": "--unlabelled", "category_names": "--category", "image_root": "--root",
}  # fmt: skip


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the flags of reading added; it gets those that were used as `reading`, a dict."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_default(kind))
        for name, kind in _OPTIONS.items()
    ]

    def with_reading(**given: Any) -> None:  # noqa: ANN401 (what was typed)
        used = {name: given.pop(name) for name in _OPTIONS}
        command(**given, reading=_settings({name: value for name, value in used.items() if _is_given(value)}))

    with_reading.__name__, with_reading.__doc__ = command.__name__, command.__doc__
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in [*own, *added]]
    with_reading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer looks at
    with_reading.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_reading


def as_typed(reading: dict[str, Any]) -> list[str]:
    """Return settings of reading as they are typed."""
    words: list[str] = []
    for name, value in reading.items():
        flag = _FLAG_OF.get(name, f"--{name.replace('_', '-')}")
        if name == "columns":
            words += [flag, ",".join(value)]
        elif value is True:
            words.append(flag)
        else:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (flag, str(one))]
    return words


def _is_given(value: object) -> bool:
    """Whether a flag was typed; 0 is a value like any other."""
    return value is not None and value is not False and value != []


def _default(kind: Any) -> Any:  # noqa: ANN401 (a type)
    return False if kind.__origin__ is bool else None


def _settings(used: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed as settings of reading; paths are absolute, so that a run can be resumed from anywhere."""
    settings = dict(used)
    for name in ("labels", "image_root"):
        if name in settings:
            settings[name] = str(settings[name].resolve())
    if "columns" in settings:
        settings["columns"] = settings["columns"].split(",")
    if "max_pixels" in settings:
        settings["max_pixels"] = _whole(settings["max_pixels"])
    if settings.get("rest") == "unlabeled":
        settings["rest"] = "unlabelled"
    return settings


def _whole(max_pixels: float) -> int:
    """Return the number of pixels, which may be written as 2e9."""
    if not 1 <= max_pixels < math.inf:
        raise ConfigError("--max-pixels", max_pixels, "must be a number of pixels, at least 1")
    return int(max_pixels)
