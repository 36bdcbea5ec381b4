"""All formats of an export: everything is checked before the first is written, and a broken-off export goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nngcd.export import unfinished
from nngcd.export.source import Format, Source, Written, check_place


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
    key = unfinished.content_key(source)
    finished = unfinished.finished_names(out, key)
    check_place(source.run, out, [name for name in names if name not in finished], may_overwrite=may_overwrite)
    left = [each for each in formats if not finished.issuperset(each.targets())]
    for each in left:
        each.check(source, out)
    with unfinished.noted(out, key, names):
        for each in formats:
            yield from each.write(source, out) if each in left else _as_written(each, out)


def _as_written(finished: Format, out: Path) -> list[Written]:
    return [Written(out / name, "complete since the export that was broken off") for name in finished.targets()]
