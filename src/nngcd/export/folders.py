"""`--to folders`: images/CATEGORY/FILE, links or copies; what a person sees first when opening the result."""

from __future__ import annotations

from pathlib import Path

from nngcd.core.words import count
from nngcd.data.labels import UNLABELLED_FOLDERS, UNSURE_FOLDER
from nngcd.export.csv import write_csv
from nngcd.export.source import ExportSource, WrittenExport
from nngcd.export.tree import NAMES_FILE, check_links, place_all, plan, whole_folder

FOLDER = "images"
TARGETS = (FOLDER,)
_HOW = {"hard": "hard links to your files", "sym": "symbolic links to your files", "copy": "copies of your files"}


def check(source: ExportSource, out: Path) -> None:
    """Look for the images, and try one link."""
    check_links(source, out / FOLDER)


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write one folder per category, and one for the images nobody is sure of; rejected ones are left out."""
    table, originals = source.pictured, source.originals
    names = table["file_name"].tolist()
    is_unsure = (table["status"] == "unsure").to_numpy()
    folders = [None if unsure else label for unsure, label in zip(is_unsure, table["label"], strict=True)]
    # A category of such a name would come back as images without a label.
    placing = plan(names, folders, originals, rest=UNSURE_FOLDER, taken=[NAMES_FILE, *UNLABELLED_FOLDERS])
    with whole_folder(out / FOLDER) as folder:
        place_all(source, placing, folder)
        if len(placing.changed):
            write_csv(folder / NAMES_FILE, placing.changed)
    n_folders = len(set(folders) - {None})
    how = _HOW[source.options.link] if originals.has_files else "PNG files"
    words = f"{n_folders} folders of {how}" + (f", and {UNSURE_FOLDER} ({is_unsure.sum()})" if is_unsure.any() else "")
    return [WrittenExport(out / FOLDER, words, _notes(source, placing.changed["kind"].tolist(), out))]


def _notes(source: ExportSource, changed: list[str], out: Path) -> tuple[str, ...]:
    notes = []
    if changed:
        counts = ", ".join(
            count(changed.count(kind), f"{kind} name") for kind in ("category", "file") if kind in changed
        )
        notes.append(f"Changed for the file system: {counts} ({out / FOLDER / NAMES_FILE})")
    if n_rejected := int((source.table["status"] == "excluded").sum()):
        notes.append(f"Not in {FOLDER}: {n_rejected} rejected {'image' if n_rejected == 1 else 'images'}")
    return (*notes, *source.missing_words(FOLDER))
