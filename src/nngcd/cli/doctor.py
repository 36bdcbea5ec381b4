"""`nngcd doctor`: what this machine has, for bug reports, and whether a run or a cache is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json
from nngcd.core.errors import ConfigError, DataError, UserError

if TYPE_CHECKING:
    from nngcd.runs.soundness import Verdict

RUN_HELP = "A run folder to verify: checks every file, and the cache next to the folder if there is one."
CACHE_HELP = "A cache folder to verify."


def doctor(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help=RUN_HELP)] = None,
    cache: Annotated[Path | None, typer.Option(metavar="FOLDER", help=CACHE_HELP)] = None,
    json: shared_options.Json = False,
) -> None:
    """Print versions, devices and free disk space, and test the default backbone; or verify a run and its cache.

    Example:  nngcd doctor runs/first
    """
    if run is None and cache is None:
        _show_machine(is_json=json)
        return
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.user_cache import BESIDE
    from nngcd.runs.soundness import check_cache, check_run

    if cache is not None and not cache.is_dir():
        raise ConfigError("--cache", str(cache), "is not a folder")
    found: dict[str, list[Verdict]] = {}
    if run is not None:
        folder = RunFolder.open(run)
        found[str(run)] = list(check_run(folder))
        beside = folder.path.parent / BESIDE
        cache = cache or (beside if beside.is_dir() else None)
    if cache is not None:
        found[str(cache)] = list(check_cache(cache))
    if json:
        say_json({place: [verdict._asdict() for verdict in verdicts] for place, verdicts in found.items()})
    else:
        for place, verdicts in found.items():
            _show(place, verdicts)
    if any(verdict.state == "damaged" for verdicts in found.values() for verdict in verdicts):
        raise typer.Exit(DataError.exit_code)


def _show(place: str, verdicts: Iterable[Verdict]) -> None:
    states = [verdict.state for verdict in verdicts]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("fine", "not verified", "damaged"))
    say(f"{place}: {len(states)} files, {counts}")
    for verdict in verdicts:
        if verdict.state == "damaged":
            say(f"  damaged       {verdict.file}: {verdict.reason}")
        elif verdict.state == "not verified":
            say(f"  not verified  {verdict.file} (it has no checksum)")


def _show_machine(*, is_json: bool) -> None:
    facts = _machine()
    if is_json:
        say_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            say(f"{name}:")
            for part, text in value.items():
                say(f"  {part:<18} {text}")
        else:
            say(f"{name}: {', '.join(value) if isinstance(value, list) else value}")


def _machine() -> dict[str, Any]:
    from nngcd.core.components import component_names
    from nngcd.core.environment import machine, versions

    return {
        "versions": versions(),
        "machine": machine(),
        "disk_free_gb": round(shutil.disk_usage(Path.cwd()).free / 1e9, 1),
        "methods": list(component_names("nngcd.methods", "Method")),
        "datasets": list(component_names("nngcd.datasets", "load")),
        "backbones": list(component_names("nngcd.backbones", "load")),
        "default_backbone": _try_default_backbone(),
    }


def _try_default_backbone() -> str:
    from nngcd.backbones import load_backbone
    from nngcd.backbones.backbone import frozen
    from nngcd.backbones.engines import FEWEST_IMAGES, choose_engine
    from nngcd.backbones.sizes import with_sizes
    from nngcd.settings import resolve

    try:
        backbone = frozen(load_backbone("efficientnet_lite0"))
    except UserError as error:
        return f"does not load: {error}"
    # At the sizes that `nngcd fit` sees images at.
    seen = with_sizes(backbone, resolve({"data": "digits"}).views.sizes)
    choose_engine("auto", seen, n_images=FEWEST_IMAGES)
    engine = f"computed by {seen.trunk.engine}: {seen.trunk.engine_reason}"
    return f"ok ({backbone.name}, {backbone.n_features} features; {engine})"
