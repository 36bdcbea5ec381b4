"""`nngcd fit`: train on partly labelled images and sort them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say
from nngcd.cli.reading_options import as_typed, takes_reading
from nngcd.core.errors import ConfigError
from nngcd.core.progress import Progress

ALL_LABELS_HELP = "Train with every label. Confidence is then not calibrated."
STRICT_HELP = "Exit with code 5 if nearly all images fall into one category."
FROM_REVIEW_HELP = "Start a new run from RUN, using its reviewed labels."
INIT_FROM_HELP = "Start from the trained tail and heads of a finished run on the same data."
BANK_HELP = "Maximum size of the view bank. (default: 50)"
VIEWS_HELP = (
    "Random views to keep of each image, or online for new ones every epoch. "
    "(default: depends on --effort; see the speed guide)"
)


@takes_reading
def fit(  # noqa: PLR0913 (one parameter per flag)
    data: shared_options.OptionalData = None,
    dataset: shared_options.Dataset = None,
    k: shared_options.K = None,
    method: shared_options.Method = None,
    effort: shared_options.Effort = None,
    preset: shared_options.Preset = None,
    backbone: shared_options.Backbone = None,
    download: shared_options.Download = "ask",
    weights: shared_options.Weights = None,
    init_from: Annotated[str | None, typer.Option(metavar="RUN", help=INIT_FROM_HELP)] = None,
    image_size: shared_options.ImageSize = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. (default: 0)")] = None,
    device: shared_options.OptionalDevice = None,
    engine: shared_options.Engine = None,
    workers: shared_options.Workers = None,
    views_per_image: Annotated[str | None, typer.Option(metavar="N|online", help=VIEWS_HELP)] = None,
    bank_size: Annotated[float | None, typer.Option(metavar="GB", help=BANK_HELP)] = None,
    unsure: shared_options.Unsure = None,
    use_all_labels: Annotated[bool, typer.Option("--use-all-labels", help=ALL_LABELS_HELP)] = False,
    strict: Annotated[bool, typer.Option("--strict", help=STRICT_HELP)] = False,
    out: Annotated[Path | None, typer.Option(help="Run folder to create. (default: runs/NAME-DATE)")] = None,
    cache: shared_options.Cache = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="Settings, such as a run's config.yaml.")] = None,
    assignments: shared_options.Assignments = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Continue an interrupted run.")] = None,
    report: Annotated[bool, typer.Option(help="Write report.html at the end (images only).")] = True,
    from_review: Annotated[Path | None, typer.Option(metavar="RUN", help=FROM_REVIEW_HELP)] = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    verbose: shared_options.Verbose = False,
    reading: dict[str, Any] | None = None,
) -> None:
    """Sort the images of DATA into known and new categories.

    Sub-folders are known categories. Loose images and those in _unlabelled/ are sorted.

    Example:  nngcd fit my_images/ --out runs/first
    """
    say("Loading…", is_quiet=quiet or json)  # before torch, which takes seconds
    from nngcd import pipeline
    from nngcd.cli import run_display

    run_display.show_log(verbose)
    flags = {"data": data, "dataset": dataset, "k": k, "method": method, "effort": effort, "preset": preset,
        "backbone": backbone, "weights": weights, "init_from": init_from, "image_size": image_size, "seed": seed,
        "device": device, "engine": engine, "workers": workers, "views": _views(views_per_image, bank_size),
        "reading": reading or None, "unsure": unsure, "hold_back": 0.0 if use_all_labels else None}  # fmt: skip
    others = {"views-per-image": views_per_image, "bank-size": bank_size, "from-review": from_review, "out": out}
    _refuse_beside(resume, flags | others | {"config": config_file, "set": assignments})
    with run_display.shown(is_quiet=quiet or json) as progress:
        if resume:
            run = pipeline.resume(resume, report=report, cache=cache, progress=progress)
        else:
            asked = _requested_values(flags, config_file, assignments or [], from_review)
            asked = asked if from_review else _with_backbone(asked, download, progress, is_quiet=quiet or json)
            run = pipeline.run(
                settings=asked, from_review=from_review, out=out, report=report, cache=cache, progress=progress
            )
    run_display.show(run.folder, is_json=json, is_strict=strict)


def _requested_values(
    flags: dict[str, Any], config_file: Path | None, assignments: list[str], from_review: Path | None
) -> dict[str, Any]:
    """Return the settings that the user gives; `--set` overrides flags, flags override the file."""
    from nngcd.core import config  # here: `nngcd --help` should not wait for pydantic

    if from_review and config_file:
        raise ConfigError("--from-review", str(from_review), "uses the settings of that run; leave out --config")
    given = {name: value for name, value in flags.items() if value is not None}
    from_file = config.read_yaml(config_file) if config_file else {}
    for name in ("method", "preset", "effort"):
        if name in given and given[name] != from_file.get(name, given[name]):
            reason = f"the settings file has {name} {from_file[name]}; change single settings with --set"
            raise ConfigError(f"--{name}", given[name], reason)
    return config.merge(from_file, given, config.parse_assignments(assignments))


def _with_backbone(asked: dict[str, Any], download: str, progress: Progress, *, is_quiet: bool) -> dict[str, Any]:
    """Return what is asked for with a network; the flag or the user says whether one may be downloaded."""
    from nngcd.runs.run_settings import with_backbone

    may_download: Callable[[str], bool] | None = None
    if download == "yes":
        may_download = lambda question: True  # noqa: E731 (the flag has answered)
    elif download == "ask" and not is_quiet and sys.stdin.isatty() and sys.stdout.isatty():
        may_download = partial(typer.confirm, default=True)
    return with_backbone(asked, tell=progress.tell, may_download=may_download)


def _refuse_beside(resume: Path | None, flags: dict[str, Any]) -> None:
    """Raise `ConfigError` for the first flag that would change a run that is to be continued."""
    others = {name: value for name, value in flags.items() if name not in ("views", "reading", "hold_back")}
    others |= {flag.removeprefix("--"): True for flag in as_typed(flags["reading"] or {})[:1]}
    others["use-all-labels"] = flags["hold_back"]
    for name, value in others.items():
        if resume and value is not None:
            flag = "DATA" if name == "data" else "--" + name.replace("_", "-")
            raise ConfigError("--resume", str(resume), f"continues a run with its own settings; leave out {flag}")


def _views(per_image: str | None, bank_gb: float | None) -> dict[str, Any] | None:
    """Return the settings of views that flags give."""
    number = int(per_image) if per_image and per_image.isdecimal() else per_image
    given = {"per_image": number, "bank_gb": bank_gb}
    return {name: value for name, value in given.items() if value is not None} or None
