"""`nngcd compare`: finished runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json
from nngcd.core.errors import ConfigError

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished run folders on one data set.")]


def compare(
    runs: Runs,
    form: Annotated[str, typer.Option("--format", metavar="md|csv|latex", help="Format of the table.")] = "md",
    json: shared_options.Json = False,
) -> None:
    """Compare finished runs: mean and deviation over seeds, and differences between runs with the same seed.

    Example:  nngcd compare runs/cub/*
    """
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.run_reading import read_config
    from nngcd.research.comparison import HEAD, by_name_note, gain_sentences, paired_differences, rows_of
    from nngcd.research.table_report import Format, as_table
    from nngcd.settings import flat_settings, resolve

    if form not in get_args(Format):
        raise ConfigError("--format", form, f"must be one of {', '.join(get_args(Format))}")
    folders = [RunFolder.open(path) for path in runs]
    for run in folders:
        run.check_complete()
    summaries = [run.read_summary() for run in folders]
    rows = rows_of(summaries, [flat_settings(resolve(read_config(run))) for run in folders])
    differences = paired_differences(rows)
    if json:
        table = [{"name": row.name, "seconds": row.seconds, "scores": row.scores} for row in rows]
        pairs = [{"name": name, "gain": gain, "seeds": n} for name, gain, n in differences]
        say_json({"rows": table, "best": rows[-1].name, "gains": pairs})
        return
    say(as_table(HEAD, [row.cells for row in rows], cast(Format, form)))
    if form == "md":
        say(f"\n{summaries[0]['scores']['protocol']}; {summaries[0]['scores']['n_scored']:,} images")
        for sentence in [by_name_note(summaries), *gain_sentences(rows)]:
            say(sentence)
        if reviewed := [str(run.path) for run in folders if run.edits.is_file()]:
            say(f"Edits in the review of {', '.join(reviewed)} are not counted here; `nngcd evaluate` counts them.")
