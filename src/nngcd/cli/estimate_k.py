"""`nngcd estimate-k`: only the number of categories, with its interval and curve."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.cli.reading_options import as_typed, takes_reading
from nngcd.cli.words import k_words
from nngcd.core.errors import ConfigError

if TYPE_CHECKING:
    from nngcd.settings import Settings

DataOrRun = Annotated[str, typer.Argument(metavar="DATA|RUN", help="Images, as for `nngcd fit`, or a finished run.")]
METHOD_HELP = "auto, pairs, accuracy (GCD), hold-out (CiPR), communities (DCCL) or silhouette (uses no labels)."
OUT_HELP = "Folder for k.json and k.svg. (default: runs/NAME-k, or estimate-k in RUN)"


@takes_reading
def estimate_k(  # noqa: PLR0913 (one parameter per flag)
    data: DataOrRun,
    dataset: shared_options.Dataset = None,
    k: Annotated[str, typer.Option("--k", metavar="A..B", help="Smallest and largest number of categories.")] = "auto",
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    backbone: Annotated[str | None, typer.Option(help="As for `nngcd fit`. (default: auto)")] = None,
    weights: shared_options.Weights = None,
    image_size: shared_options.ImageSize = None,
    device: shared_options.OptionalDevice = None,
    engine: shared_options.Engine = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    workers: shared_options.Workers = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    cache: shared_options.Cache = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    reading: dict[str, Any] | None = None,
) -> None:
    """Estimate the number of categories, known and new together, without sorting.

    Example:  nngcd estimate-k my_images/
    """
    from nngcd.core.files import check_outside
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.user_cache import default_cache
    from nngcd.counting.estimate_k import checked_method
    from nngcd.pipeline import open_data
    from nngcd.runs.estimation import estimate_of_images, estimate_of_run
    from nngcd.runs.first_look import shrinking
    from nngcd.runs.writing import write_estimate

    way = checked_method(method)
    chosen = _given(dataset=dataset, backbone=backbone, weights=weights, image_size=image_size, device=device,
                    engine=engine, workers=workers)  # fmt: skip
    typed = as_typed(reading or {})
    is_run = bool(data) and RunFolder(Path(data)).environment.is_file()
    asked = {"data": data, "seed": seed, "k": k, "reading": reading or {}, **chosen}
    settings = _settings(asked, is_run=is_run, tell=partial(say, is_quiet=quiet or json))
    if is_run and (given := as_flags(chosen | ({"cache": cache} if cache else {})) + typed):
        raise ConfigError(given[0], " ".join(given[1:2]), "applies to images only; leave it out for a run")
    with progress_display(is_quiet=quiet or json) as progress:
        if is_run:
            with made_folder(out or Path(data) / "estimate-k") as out:
                found = estimate_of_run(RunFolder.open(Path(data)), settings, method=way, progress=progress)
                write_estimate(out, found)
        else:
            with shrinking(settings) as shrinker:
                split, _ = open_data(settings, progress, shrinker)
                place = out or Path("runs") / f"{split.name}-k"
                check_outside(place, data)
                with made_folder(place) as out:
                    keep = cache or default_cache(out.parent)
                    found = estimate_of_images(split, settings, way, cache=keep, progress=progress, shrinker=shrinker)
                    write_estimate(out, found)
    if json:
        say_json({"out": str(out), **asdict(found)})
        return
    _tell(asdict(found), out, _fit_command(data, [*as_flags(chosen), *typed], is_run=is_run), is_run=is_run)


def _given(**flags: Any) -> dict[str, Any]:  # noqa: ANN401 (flags of any type)
    """Return the flags that were typed."""
    return {name: value for name, value in flags.items() if value is not None}


def _settings(asked: dict[str, Any], *, is_run: bool, tell: Callable[[str], None]) -> Settings:
    """Return the settings of a fit of the same images, so that its features can be used, with a range of numbers."""
    from nngcd.runs.run_settings import with_backbone
    from nngcd.settings import resolve

    settings = resolve(asked if is_run else with_backbone(asked, tell=tell))
    if settings.k_range and settings.k_range[0] == settings.k_range[1]:
        raise ConfigError("k", asked["k"], "is a single number; give a range such as 20..60, or leave out --k")
    return settings


def _tell(found: dict[str, Any], out: Path, command: str, *, is_run: bool) -> None:
    say()
    for line in k_words(found["k"], found):
        say(line)
    if is_run:
        say("The run was trained with a fixed number of clusters, and the estimate is biased towards it.")
    say(f"\nCurve and numbers:  {out / 'k.svg'}, {out / 'k.json'}")
    number = "" if found["confidence"] == "low" else f" --k {found['k']}"
    say(f"Sort the images:    {command}{number}")


def _fit_command(data: str, flags: list[str], *, is_run: bool) -> str:
    return shlex.join(["nngcd", "fit", *(["--config", str(Path(data) / "config.yaml")] if is_run else [data, *flags])])


def as_flags(chosen: dict[str, Any]) -> list[str]:
    """Return settings as they are typed."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in chosen.items()]
    return [part for pair in pairs for part in pair]


@contextmanager
def made_folder(path: Path) -> Iterator[Path]:
    """Make a new folder before the work that fills it, and remove it again if that fails."""
    from nngcd.core.run_folder import new_folder

    folder = new_folder(path)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
        raise
