"""Folders that were exported, rearranged by hand, and read back."""

import shutil

import numpy as np
import pytest
from finished_runs import IMAGES, finished_run, lines
from PIL import Image

from nngcd.core.errors import DataError, NoSuchDataError
from nngcd.review.rearranged import apply_folders, read_folders
from nngcd.review.session import Review


@pytest.fixture
def run(tmp_path):
    """The run of `finished_runs`, with a picture for every image."""
    rng, data = np.random.default_rng(0), tmp_path / "data"
    for name, *_ in IMAGES:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, size=(6, 6, 3), dtype=np.uint8)).save(data / name)
    return finished_run(tmp_path / "run", data=data)


@pytest.fixture
def folders(run, tmp_path, nngcd):
    """What `nngcd export --to folders` makes of it."""
    code, _, errors = nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "sorted", "-q")
    assert code == 0, errors
    return tmp_path / "sorted" / "images"


def move(folders, name, to):
    (found,) = folders.rglob(name)
    (folders / to).mkdir(exist_ok=True)
    found.rename(folders / to / name)


def apply(run, folders, **settings):
    review = Review(run)
    return apply_folders(review, read_folders(folders, review.results), **settings), review


def test_what_nobody_touched_changes_nothing(run, folders):
    words, _ = apply(run, folders.parent)
    assert words == [] and not run.edits.exists()


def test_moved_files_renamed_folders_and_junk_are_one_edit(run, folders):
    move(folders, "b.png", "crow")
    move(folders, "c.png", "_rejected")
    move(folders, "h.png", "wren")
    (folders / "new-002").rename(folders / "Tawny")
    words, review = apply(run, folders, is_preview=True)
    assert words == [
        "name 'new-002' 'Tawny'", "reject 1 image", "move 1 image to 'crow'", "move 1 image to the new category 'wren'",
    ]  # fmt: skip
    assert not run.edits.exists()
    assert apply(run, folders)[0] == words and [line["op"] for line in lines(run)] == ["batch"]
    review = Review(run)
    by_name = dict(zip(review.results["file_name"], review.results["image_id"], strict=True))
    placed = {name[-5]: review.state.images[image] for name, image in by_name.items()}
    assert placed["b"].category == "crow" and placed["c"].is_rejected
    assert review.state.categories[placed["h"].category].name == "wren"
    assert review.state.categories["new-002"].name == "Tawny"
    assert apply(run, folders)[0] == [], "the folders are what the run is now"
    review.undo()
    assert review.state == review.first


def test_a_folder_emptied_into_another_is_a_merge(run, folders):
    move(folders, "i.png", "owl")
    assert apply(run, folders)[0] == ["merge 'new-002' into 'owl'"]
    assert Review(run).state.categories["new-002"].into == ("owl",)


def test_missing_and_foreign_files_are_said_and_left_alone(run, folders):
    next(folders.rglob("g.png")).unlink()
    Image.new("RGB", (4, 4)).save(folders / "owl" / "holiday.png")
    (folders / "owl" / "Thumbs.db").touch()
    found = read_folders(folders, Review(run).results)
    assert found.unknown == ["owl/holiday.png"] and found.n_missing == 1
    assert found.notes == [
        "Not used: 1 file that the run does not have ('owl/holiday.png').",
        "1 image not in the folders stays as it is. To reject it, use a folder '_rejected'.",
    ]
    assert apply(run, folders)[0] == []


def test_the_content_decides_where_a_name_is_not_enough(run, folders):
    Image.new("RGB", (4, 4)).save(folders / "crow" / "b.png")  # another picture that has the same name
    found = read_folders(folders, Review(run).results)
    assert found.unknown == ["crow/b.png"] and found.n_missing == 0
    shutil.copy(folders / "owl" / "b.png", folders / "crow" / "b.png")
    with pytest.raises(DataError, match=r"'b.png' is in 'crow' and in 'owl'. Remove one"):
        read_folders(folders, Review(run).results)


def test_names_that_the_export_had_to_change_are_known(run, tmp_path, nngcd):
    Review(run).rename("new-002", 'Wald<kauz>: "klein"')
    assert nngcd("export", run.path, "--to", "folders", "--out", tmp_path / "again", "-q")[0] == 0
    assert (tmp_path / "again" / "images" / "names.csv").is_file()
    assert apply(run, tmp_path / "again")[0] == []


def test_the_images_of_arrays_are_exported_as_png_and_read_back(tmp_path):
    review = Review(finished_run(tmp_path / "run"))
    folder = tmp_path / "sorted"
    for image, category in zip(review.results["file_name"], review.results["category"], strict=True):
        (folder / category).mkdir(parents=True, exist_ok=True)
        (folder / category / f"{image.rpartition('/')[2]}.png").write_bytes(b"any")
    assert read_folders(folder, review.results).n_missing == 0


def test_a_folder_without_images_of_the_run_is_refused(run, tmp_path):
    results = Review(run).results
    with pytest.raises(NoSuchDataError, match="is not a folder"):
        read_folders(tmp_path / "nothing", results)
    (tmp_path / "empty" / "owl").mkdir(parents=True)
    with pytest.raises(DataError, match="no folders with images of this run"):
        read_folders(tmp_path / "empty", results)


def test_the_command_shows_it_first(run, folders, nngcd):
    move(folders, "b.png", "crow")
    code, said, _ = nngcd("review", run.path, "--from-folders", folders.parent)
    assert code == 0 and "move 1 image to 'crow'" in said and "Nothing was changed" in said
    assert nngcd("review", run.path, "--from-folders", folders.parent, "--yes")[0] == 0
    assert len(lines(run)) == 1
    code, _, errors = nngcd("review", run.path, "--from-folders", folders, "--apply", folders)
    assert code == 2 and "cannot be combined with --apply" in errors
