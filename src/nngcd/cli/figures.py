"""`nngcd figures`: the figures of the paper, drawn from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json

Other = Annotated[Path | None, typer.Argument(metavar="OTHER_RUN", help="A second run on the same images, to compare.")]
OUT_HELP = "Folder to write into; replaces earlier figures. (default: figures in RUN)"
ONLY_HELP = "Figures to draw, for example cooccurrence,tsne. (default: all)"
CLASSES_HELP = "Classes to show in tsne and attention. (default: the largest)"


def figures(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    other_run: Other = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    only: Annotated[str, typer.Option(metavar="NAME,...", help=ONLY_HELP)] = "",
    classes: Annotated[str, typer.Option(metavar="CLASS,...", help=CLASSES_HELP)] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="svg,pdf,png", help="File formats of each figure.")
    ] = "svg,png",
    dpi: Annotated[int, typer.Option(min=20, max=1200, help="Pixels per inch.")] = 150,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Draw the paper's figures: co-occurrence matrix, activations, t-SNE, attention, loss curves.

    Example:  nngcd figures runs/nngcd runs/simgcd --only cooccurrence,tsne
    """
    from nngcd.core.files import check_outside
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.run_reading import read_config
    from nngcd.research.drawing import Wishes, draw_figures

    wishes = Wishes(names=_listed(only), formats=_listed(form), dpi=dpi, classes=_listed(classes))
    runs = [RunFolder.open(path) for path in (run, other_run) if path is not None]
    if out:
        check_outside(out, str(read_config(runs[0]).get("data", "")))
    with progress_display(is_quiet=quiet or json) as progress:
        drawn = draw_figures(runs, out or runs[0].figures, wishes, progress)
    if json:
        say_json({"written": [str(path) for path in drawn.written], "skipped": drawn.skipped})
        return
    for path in drawn.written:
        say(f"Written to {path}")
    for name, reason in drawn.skipped.items():
        say(f"Skipped {name}: {reason}")


def _listed(text: str) -> tuple[str, ...]:
    """Return the words of `a,b,c`, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
