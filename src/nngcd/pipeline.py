"""The whole story: images → views → trunk → tail → heads → losses → training → assignment → run folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from nngcd.core import processes
from nngcd.core.config import as_values
from nngcd.core.device import choose_device
from nngcd.core.errors import Interrupted, UserError, warn
from nngcd.core.files import check_outside
from nngcd.core.memory import forget_peak
from nngcd.core.progress import Counted, Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.core.user_cache import default_cache
from nngcd.core.words import argument
from nngcd.data.findings import notes_of
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import Split, Truth
from nngcd.datasets.opening import open_dataset
from nngcd.finished_run import Run
from nngcd.methods.contract import Overview
from nngcd.report import read_findings, write_report
from nngcd.results.calibrating import PlainClusters, calibrate
from nngcd.results.result_tables import Fitted, name_clusters, new_prefix, with_decisions
from nngcd.runs import writing
from nngcd.runs.at_scale import plan_words, sort_all
from nngcd.runs.at_work import at_work, begun_words, new_run_folder, resume_command
from nngcd.runs.estimation import moves_range, number_of_categories
from nngcd.runs.first_look import shrinking
from nngcd.runs.from_review import values_from_review
from nngcd.runs.preparing import Job, check_start, prepare
from nngcd.runs.run_settings import settings_of
from nngcd.runs.views import Views
from nngcd.settings import Settings, resolve
from nngcd.training.checkpoint import epochs_done
from nngcd.training.eagc import make_guide
from nngcd.training.learner import Learner
from nngcd.training.loop import train
from nngcd.training.model import Model

_LOG = logging.getLogger(__name__)
Opened = tuple[Split, Truth | None]
"""Images with the labels given, and their true labels if known, for scoring only."""


def run(  # noqa: PLR0913 (everything but the data has a default)
    data: str | Path | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    from_review: str | Path | None = None,
    out: str | Path | None = None,
    report: bool = True,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Sort images into known and new categories, and write everything into one run folder.

    Args:
        data: a folder, a table, an .npz file or the name of a data set, as for `nngcd fit`.
        settings: settings that differ from the recipe, nested as in config.yaml, for example
            `{"method": "simgcd", "k": 12}`.
        from_review: a finished run to start from, using its reviewed labels; instead of `data`.
        out: the run folder to create, by default `runs/NAME-DATE`; if it exists, `-2` is added.
        report: whether to write report.html, if the data are images.
        cache: folder that keeps the views of images for later runs; your own cache by default.
        progress: receives the stages of the work.

    Raises:
        UserError: the data or the settings cannot be used, or the machine lacks something.

    Example:
        >>> import nngcd
        >>> trees = nngcd.run("my_images/", {"k": 12}, out="runs/trees")  # doctest: +SKIP
        >>> trees.results  # doctest: +SKIP
    """
    progress = progress or Progress()
    if not isinstance(settings, Settings):
        asked = {**as_values(settings), **({} if data is None else {"data": str(data)})}
        asked = values_from_review(Path(from_review), asked, progress) if from_review else asked
        settings = settings_of(asked, tell=progress.tell)
    done = carry_out(settings, out=_path(out), cache=_path(cache), progress=progress)
    return _finished(done, progress, report=report)


def fit_job(job: Job, *, run: RunFolder | None, cache: Path | None, progress: Progress) -> Fitted:
    """Tell the story: views through the trunk, K, training of tail and method, features, assignment, names."""
    settings, given, started = job.settings, job.given, time.process_time()
    views = Views.of(job, cache=cache, progress=progress)
    viewed = time.process_time()
    k, estimate = number_of_categories(job, views, run=run, progress=progress)
    views = views.with_plain_features(progress)
    if settings.whitened_features:
        views = views.whitened(progress)
    model = Model.assemble(
        job.blueprint_of(k, views.backbone), views.backbone, seed=settings.seed, k_range=moves_range(estimate)
    )
    _LOG.info("K = %d, method %s, backbone %s, device %s", k, settings.method, views.backbone.name, model.device)
    if job.start:
        job.start.load_method(model.method)
    clusters = PlainClusters.of(views.centre_features(), k, seed=settings.seed)
    if model.method.trains:
        _train(model, views, job=job, run=run, progress=progress)
    last = views.overview(settings.training.epochs, progress)
    model, scores_nk = _settled(model, last)
    cluster_n, n_clusters = scores_nk.argmax(-1), scores_nk.shape[1]
    categories = name_clusters(cluster_n.numpy(), given, n_clusters, prefix=new_prefix(settings.reading.round))
    confidence = calibrate(
        scores_nk, last.features_nd, given.labels, job.is_held_back, n_old=given.n_old, unsure=job.unsure,
        steadiness=clusters.steadiness(cluster_n, max(k, n_clusters))[:n_clusters], seed=settings.seed,
    )  # fmt: skip
    processor = {"views": viewed - started, "fit": time.process_time() - viewed}
    return Fitted(model, categories, last.features_nd.cpu(), scores_nk, estimate, confidence, processor)


def resume(
    path: str | Path, *, report: bool = True, cache: str | Path | None = None, progress: Progress | None = None
) -> Run:
    """Finish an interrupted run. The result is the same as without the interruption.

    Raises:
        UserError: there is no such run, or its data have changed since it began.
    """
    begun, progress = RunFolder.open(Path(path)), progress or Progress()
    settings = resolve(read_config(begun))
    done = carry_out(settings, begun=begun, cache=_path(cache), progress=progress)
    return _finished(done, progress, report=report)


def fit(
    split: Split,
    settings: Settings,
    *,
    run: RunFolder | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Put every image of the split into a category. Training sees no `Truth`."""
    return fit_job(prepare(split, settings), run=run, cache=cache, progress=progress or Progress())


def carry_out(  # noqa: PLR0913 (a run of its own, one that goes on, or one of many)
    settings: Settings,
    *,
    begun: RunFolder | None = None,
    out: Path | None = None,
    opened: Opened | None = None,
    go_on: str | None = None,
    cache: Path | None = None,
    progress: Progress,
) -> RunFolder:
    """Do a whole run except its report: open, prepare, lock, fit, write and score.

    Args:
        settings: the settings of the run.
        begun: the folder of a run to continue.
        out: the folder of a new run.
        opened: the data, already read, if several runs share them; the folder is then exactly `out`, with no `-2`.
        go_on: the command that continues the work after an interrupt; by default the one that resumes this run.
        cache: where views are kept for later runs.
        progress: receives the stages of the work.
    """
    if begun and begun.is_complete:
        begun.remove_litter()
        if settings.reading.sample:
            sort_all(begun, settings, progress)
        progress.tell(f"{begun.path} is already complete.")
        return begun
    choose_device(settings.device)
    check_start(settings)
    if out:  # before the images are read, which may take long
        check_outside(out, settings.data_path)
    with shrinking(settings) as shrinker:
        split, truth = opened or open_data(settings, progress, shrinker)
        job = prepare(split, settings, shrinker=shrinker)
        for note in notes_of(split):
            warn(str(note))
        folder = begun or new_run_folder(out, split, settings.data_path, may_rename=opened is None)
        with at_work(folder, go_on or resume_command(folder, cache)):
            for line in [*begun_words(job, folder.path, out), *plan_words(job)]:
                progress.tell(line)
            discover(job, truth, folder, cache=cache or default_cache(folder.path.parent), progress=progress)
            if settings.reading.sample:
                sort_all(folder, settings, progress)
    return folder


def open_data(settings: Settings, progress: Progress, shrinker: Shrinker | None = None) -> Opened:
    """Open the data of a run."""
    reading = Counted(progress, "reading")
    opened = open_dataset(
        settings.data, dataset=settings.dataset, reading=settings.reading, on_progress=reading, shrinker=shrinker
    )
    reading.finish()
    return opened


def discover(job: Job, truth: Truth | None, run: RunFolder, *, cache: Path | None, progress: Progress) -> None:
    """Fit, write everything into the run folder, and score if the truth is known. A killed run can be resumed.

    With several processes, only the first one writes.
    """
    if processes.from_first(run.is_complete):  # another process completed it while this one read the data
        return
    # Epochs trained before an interruption count towards the time.
    earlier = run.read_metrics()
    started = time.perf_counter() - sum(epoch.get("seconds", 0) for epoch in earlier)
    forget_peak()
    split, settings = job.given, job.settings
    _LOG.info("%s: %d images, %d labelled in %d classes", split.name, len(split), split.n_labelled, split.n_old)
    if processes.is_first():
        writing.write_inputs(run, split, job.is_held_back, settings, backbone=job.backbone)
    fitted = fit_job(job, run=run, cache=cache, progress=progress)
    if not processes.is_first():
        return
    fitted.processor_seconds["fit"] += sum(epoch.get("processor_seconds", 0) for epoch in earlier)
    facts = writing.write_outputs(run, split, fitted)
    seconds = time.perf_counter() - started
    writing.write_summary(
        run, split, truth, settings, fitted, facts=facts, is_held_back=job.is_held_back, seconds=seconds
    )
    run.remove_litter()
    _LOG.info("complete after %.1f s", time.perf_counter() - started)


def _finished(folder: RunFolder, progress: Progress, *, report: bool) -> Run:
    """Return the run, with its report if asked for. If writing that fails or is interrupted, the run stays complete."""
    if not report or not processes.is_first() or folder.report.is_file():
        return Run(folder)
    if folder.read_summary()["backbone"] == "features":  # there are no images to show
        return Run(folder)
    again = f"The run is complete. To write the report: nngcd report {argument(folder.path)}"
    try:
        write_report(read_findings(folder), folder.report, progress=progress)
    except UserError as error:
        warn(f"the report could not be written: {error} {again}")
    except KeyboardInterrupt:
        raise Interrupted(f"Stopped before the report was written. {again}") from None
    return Run(folder)


def _train(model: Model, views: Views, *, job: Job, run: RunFolder | None, progress: Progress) -> None:
    """Train the model; an interrupted run continues after its last whole epoch."""
    settings, training = job.settings, job.settings.training
    rate = model.backbone.tail_learning_rate if training.tail_learning_rate is None else training.tail_learning_rate
    # Features that the user brings have no block that could rest.
    resting = training.resting_epochs if model.blueprint.n_features is None else 0
    n_done = epochs_done(run.checkpoint, training.epochs) if run else 0
    if resting > n_done:
        views = views.with_resting_block(progress)
    # A resumed run has the state of the guide in its checkpoint.
    guide = make_guide(
        settings.eagc, model, training, tail_learning_rate=rate, seed=settings.seed, is_learnt=n_done > 0,
        source_of=views.batches, overview=views.overview, fabric=job.fabric, progress=progress,
    )  # fmt: skip
    learner = Learner(model.backbone.tail, model.method, tail_learning_rate=rate, resting_epochs=resting, guide=guide)
    train(
        learner, views.batches(model.method), training, overview=views.overview, fabric=job.fabric, run=run,
        progress=progress,
    )  # fmt: skip


def _settled(model: Model, last: Overview) -> tuple[Model, Tensor]:
    """Return the finished model and the scores of all images, changed where the method settles on other clusters."""
    decided_n = model.method.settle(last)
    model = model.trimmed()
    scores_nk = model.scores(last.features_nd).cpu()
    return model, scores_nk if decided_n is None else with_decisions(scores_nk, decided_n.cpu())


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)
