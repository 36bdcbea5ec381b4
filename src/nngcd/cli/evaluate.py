"""`nngcd evaluate`: score a finished run against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import say, say_json, say_table


def evaluate(
    run: options.Run,
    truth: Annotated[
        Path | None, typer.Option(help="Table with file_name,label. (default: the data set's own truth)")
    ] = None,
    json: options.Json = False,
) -> None:
    """Score a run's unlabelled images: accuracy of all, old and new classes, NMI, ARI.

    Example:  nngcd evaluate runs/first --truth true_labels.csv
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd import evaluation
    from nngcd.core.run_folder import RunFolder

    scores = evaluation.evaluate(RunFolder.open(run), truth)
    if json:
        say_json(scores)
        return
    rows = [
        [title, *("-" if part is None else f"{part:.1f}" for part in scores[name].values())]
        for title, name in (
            ("accuracy (v2, one match)", "accuracy"),
            ("accuracy (v1, two matches)", "accuracy_v1"),
            ("accuracy, mean over classes", "balanced_accuracy"),
        )
    ]
    say_table(["per cent", "All", "Old", "New"], rows)
    say(f"NMI {scores['nmi']:.1f}   ARI {scores['ari']:.1f}")
    counts = f"{scores['n_clusters_used']} clusters used, {scores['n_true_classes']} true classes"
    say(f"{counts}, {scores['n_scored']} images")
    say(f"Protocol: {scores['protocol']}")
