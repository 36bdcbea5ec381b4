"""All formats of an export: everything is checked before the first is written, and an interrupted export goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nngcd.export import unfinished
from nngcd.export.source import Format, Source, Written, check_folder, check_names


def write_formats(
    formats: Sequence[Format], source: Source, out: Path, *, may_overwrite: bool = False
) -> Iterator[Written]:
    """Write one format after another into a folder, and yield each file or folder as soon as it is whole.

    Raises:
        ConfigError: a name is taken, or the folder lies among the images.
        DataError: images are gone, or are not those that the run saw.
        ResourceError: the disk is full or not writable, links cannot be made there, or a package is not installed.
    """
    names = [name for each in formats for name in each.targets()]
    check_folder(source.run, out)
    if not unfinished.has_note(out):
        check_names(out, names, may_overwrite=may_overwrite)
    for each in formats:
        each.check(source, out)
    key = unfinished.content_key(source)
    # Asked to overwrite, files are written anew, and only folders, which are never replaced, stay.
    finished = {name for name in unfinished.finished_names(out, key) if (out / name).is_dir() or not may_overwrite}
    check_names(out, [name for name in names if name not in finished], may_overwrite=may_overwrite)
    with unfinished.noted(out, key, names):
        for each in formats:
            yield from _as_written(each, out) if finished.issuperset(each.targets()) else each.write(source, out)


def _as_written(finished: Format, out: Path) -> list[Written]:
    return [Written(out / name, "there since the interrupted export") for name in finished.targets()]
