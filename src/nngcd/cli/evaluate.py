"""`nngcd evaluate`: score a finished run against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, reading, say, say_json, say_table
from nngcd.cli.words import by_name_words, review_words, trust_words
from nngcd.core.errors import ConfigError
from nngcd.core.words import argument
from nngcd.results.sentences import held_back_words

SPLIT_HELP = "Score the run's unlabelled images (train) or its benchmark's official test images (test)."

IGNORE_HELP = "Score the model alone, without the edits of the run's review."


def evaluate(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    truth: Annotated[
        Path | None, typer.Option(help="Table with columns file_name,label. (default: the data set's own truth)")
    ] = None,
    columns: shared_options.Columns = None,
    split: Annotated[str, typer.Option(metavar="train|test", help=SPLIT_HELP)] = "train",
    ignore_review: Annotated[bool, typer.Option("--ignore-review", help=IGNORE_HELP)] = False,
    device: shared_options.Device = "auto",
    workers: shared_options.Workers = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Score a run: accuracy on all, old and new classes, by match and by name, and the reliability of its confidence.

    Edits made in a review of the run count, unless you add --ignore-review.

    Example:  nngcd evaluate runs/first --truth true_labels.csv
    """
    from nngcd.core.run_folder import RunFolder
    from nngcd.runs import evaluation

    _check_flags(split, truth, columns)
    folder = RunFolder.open(run)
    facts = evaluation.held_back(folder)
    if split == "train" and truth is None and facts and not evaluation.knows_truth(folder):
        _show_held_back(facts, run, n_edits=evaluation.count_edits(folder), is_json=json)
        return
    if split == "test":
        with progress_display(is_quiet=quiet or json) as progress:
            scores = evaluation.evaluate_test(
                folder, device=device, workers=workers, on_progress=reading(progress), progress=progress
            )
    else:
        scores = evaluation.evaluate(
            folder, truth, columns=columns.split(",") if columns else (), use_review=not ignore_review
        )
    if json:
        say_json(scores | {"held_back": facts})
    else:
        # A damaged log that nobody asked for does not stop the scores.
        _show_scores(scores, facts, n_edits=0 if ignore_review else evaluation.count_edits(folder))
        if ignore_review:
            say("All scores are for the model alone: edits of a review are not counted.")


def _check_flags(split: str, truth: Path | None, columns: str | None) -> None:
    if split not in ("train", "test"):
        raise ConfigError("--split", split, "must be train or test")
    if split == "test" and truth is not None:
        raise ConfigError("--truth", str(truth), "is for the run's own images; leave it out with --split test")
    if columns is not None and truth is None:
        raise ConfigError("--columns", columns, "names the columns of a table; add --truth TABLE")


def _show_scores(scores: dict[str, Any], facts: dict[str, Any] | None, *, n_edits: int) -> None:
    """Print every score, by match and by name, and how far the confidence can be trusted."""
    rows = [
        [title, *("-" if part is None else f"{part:.1f}" for part in scores[name].values())]
        for title, name in (
            ("accuracy (v2, one match)", "accuracy"),
            ("accuracy (v1, two matches)", "accuracy_v1"),
            ("accuracy, mean over classes", "balanced_accuracy"),
            ("accuracy, by name", "by_name"),
        )
    ]
    say_table(["per cent", "All", "Old", "New"], rows)
    say(f"NMI {scores['nmi']:.1f}   ARI {scores['ari']:.1f}")
    counts = f"{scores['n_clusters_used']} clusters used, {scores['n_true_classes']} true classes"
    say(f"{counts}, {scores['n_scored']} images")
    say(f"Protocol: {scores['protocol']}")
    held_back = [held_back_words(facts)] if facts else []
    _show_lines([*by_name_words(scores), *trust_words(scores["confidence"]), *held_back])
    _show_lines(review_words(scores, n_edits))


def _show_held_back(facts: dict[str, Any], run: Path, *, n_edits: int, is_json: bool) -> None:
    """Print what is known without the truth: how right the run is on the labels it held back."""
    if is_json:
        say_json({"held_back": facts})
        return
    _show_lines([held_back_words(facts), *review_words({}, n_edits)])
    say(f"\nWith the true labels:  nngcd evaluate {argument(run)} --truth TRUE_LABELS.csv   (columns file_name,label)")


def _show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)
