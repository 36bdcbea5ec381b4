"""`--to hf`: hf/train/, an image folder with metadata.csv that `datasets.load_dataset("imagefolder", ...)` opens."""

from __future__ import annotations

from pathlib import Path

from nngcd.export.csv import write_csv
from nngcd.export.source import ExportSource, WrittenExport
from nngcd.export.tree import check_links, place_all, plan, whole_folder

FOLDER, PART, IMAGES, METADATA = "hf", "train", "images", "metadata.csv"
TARGETS = (FOLDER,)


def check(source: ExportSource, out: Path) -> None:
    """Look for the images, and try one link."""
    check_links(source, out / FOLDER)


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write images and table; `file_name` is the place of the image here, `original` its name in the results."""
    table, originals = source.pictured, source.originals
    names = table["file_name"].tolist()
    folders = [None if folder in ("", IMAGES) else folder for folder in (name.rpartition("/")[0] for name in names)]
    placing = plan(names, folders, originals, rest=IMAGES, taken=[METADATA])
    with whole_folder(out / FOLDER) as folder:
        place_all(source, placing, folder / PART)
        metadata = table.assign(file_name=placing.paths)
        metadata.insert(1, "original", names)
        write_csv(folder / PART / METADATA, metadata)
    n_changed = int((placing.changed["kind"] == "file").sum())
    notes = (f"Changed for {FOLDER}: {n_changed} file names ({METADATA} has both)",) if n_changed else ()
    words = f'{len(names)} images; load_dataset("imagefolder", data_dir="{out / FOLDER}")'
    return [WrittenExport(out / FOLDER, words, (*notes, *source.missing_words(FOLDER)))]
