"""All formats of an export: everything is checked before writing, and an interrupted export can continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nngcd.core.components import find_component
from nngcd.core.errors import ConfigError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.export import unfinished
from nngcd.export.source import ExportSource, Format, Options, WrittenExport, check_folder, check_names, make_source
from nngcd.review.reviewed import reviewed_results


def exported(  # noqa: PLR0913 (what, where to, and how)
    run: RunFolder,
    to: str,
    out: Path,
    options: Options,
    *,
    only_reviewed: bool = False,
    may_overwrite: bool = False,
    progress: Progress,
) -> Iterator[WrittenExport]:
    """Write the results of a run, with the edits of its review, and yield each finished file or folder."""
    if not isinstance(to, str):
        raise ConfigError("to", to, "give the formats as text, separated by commas, such as 'csv,folders'")
    formats = [find_component("nngcd.export", name, "write") for name in dict.fromkeys(to.replace(" ", "").split(","))]
    source = make_source(run, reviewed_results(run), options, only_reviewed=only_reviewed, progress=progress)
    yield from write_formats(formats, source, out, may_overwrite=may_overwrite)


def write_formats(
    formats: Sequence[Format], source: ExportSource, out: Path, *, may_overwrite: bool = False
) -> Iterator[WrittenExport]:
    """Write one format after another into a folder, and yield each file or folder as soon as it is whole.

    Raises:
        ConfigError: a name is taken, or the folder is among the images.
        DataError: images are gone, or are not those that the run saw.
        ResourceError: the disk is full or not writable, links cannot be made there, or a package is not installed.
    """
    names = [name for each in formats for name in each.TARGETS]
    check_folder(source.run, out)
    if not (out / unfinished.FILE).exists():
        check_names(out, names, may_overwrite=may_overwrite)
    for each in formats:
        each.check(source, out)
    key = unfinished.content_key(source)
    # With --overwrite files are written again, and only folders, which are never replaced, stay.
    finished = {name for name in unfinished.finished_names(out, key) if (out / name).is_dir() or not may_overwrite}
    check_names(out, [name for name in names if name not in finished], may_overwrite=may_overwrite)
    with unfinished.noted(out, key, names):
        for each in formats:
            yield from _as_written(each, out) if finished.issuperset(each.TARGETS) else each.write(source, out)


def _as_written(finished: Format, out: Path) -> list[WrittenExport]:
    return [WrittenExport(out / name, "kept from the interrupted export") for name in finished.TARGETS]
