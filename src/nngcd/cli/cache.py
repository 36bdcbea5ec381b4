"""`nngcd cache`: list or delete the features kept for later runs."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json
from nngcd.core.atomic import SECONDS_PER_DAY
from nngcd.core.errors import ConfigError, ResourceError
from nngcd.core.user_cache import user_cache
from nngcd.core.words import size

KEPT = ("views-*", "seen-*", "engines")
"""Names of files that nngcd puts into a cache; nothing else in the folder is touched."""

Folder = Annotated[Path | None, typer.Option("--cache", metavar="FOLDER", help="Cache folder. (default: your own)")]
Days = Annotated[int, typer.Option(min=0, help="Delete only folders that no run has added to for N days.")]

app = typer.Typer(no_args_is_help=True, help="List or delete the features kept for later runs.")


@app.command("list")
def list_(cache: Folder = None, json: shared_options.Json = False) -> None:
    """Show where features are kept, from which backbone, and how large they are.

    Example:  nngcd cache list
    """
    place = _place(cache)
    found = [_facts(path) for path in _kept(place)]
    total = sum(facts["bytes"] for facts in found)
    if json:
        say_json({"cache": str(place), "bytes": total, "kept": found})
        return
    say(f"{place}: {size(total)}")
    for facts in found:
        say(f"  {size(facts['bytes']):>9}  {facts['days']:>4} days old  {facts['name']}")
    if found:
        say("To delete them: nngcd cache clear. Later runs then compute them again.")


@app.command()
def clear(cache: Folder = None, older_than: Days = 0, json: shared_options.Json = False) -> None:
    """Delete the kept features. Runs, results and models stay.

    Example:  nngcd cache clear --older-than 30
    """
    place = _place(cache)
    old = [(path, facts) for path in _kept(place) if (facts := _facts(path))["days"] >= older_than]
    for path, _ in old:
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise ResourceError(f"R01: cannot delete {path}: {error.strerror}.") from None
    freed = sum(facts["bytes"] for _, facts in old)
    if json:
        say_json({"cache": str(place), "freed": freed, "deleted": [facts["name"] for _, facts in old]})
        return
    say(f"{place}: {size(freed)} deleted" if old else f"{place}: nothing to delete")


def _place(cache: Path | None) -> Path:
    if cache is not None and not cache.is_dir():
        raise ConfigError("--cache", str(cache), "is not a folder; leave it out to use your own cache")
    return cache or user_cache()


def _kept(place: Path) -> list[Path]:
    return [path for pattern in KEPT for path in sorted(place.glob(pattern)) if path.is_dir()]


def _facts(path: Path) -> dict[str, Any]:
    """Return name, bytes and age of a folder of the cache; files may go while they are counted."""
    stats = []
    for file in path.rglob("*"):
        try:
            stats.append(file.stat())
        except OSError:
            continue
    last = max((stat.st_mtime for stat in stats), default=time.time())
    days = int((time.time() - last) / SECONDS_PER_DAY)
    return {"name": path.name, "bytes": sum(stat.st_size for stat in stats), "days": max(days, 0)}
