import unicodedata

import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets import folder
from nngcd.datasets.folder import load


def test_sub_folders_are_labels_and_the_rest_is_unlabelled(birds):
    split, truth = load(birds)
    assert truth is None
    assert split.name == "birds"
    assert split.class_names == ("crow", "owl")
    labels = dict(zip(split.table["file_name"], split.labels.tolist(), strict=True))
    assert labels == {
        "_unlabelled/x.png": -1,
        "_unlabelled/y.png": -1,
        "crow/a.png": 0,
        "loose.png": -1,
        "owl/a.png": 1,
        "owl/b.png": 1,
    }
    assert list(labels) == sorted(labels)
    assert split.n_classes is None and split.problems == ()
    assert split.images.open(0).mode == "RGB"


@pytest.mark.parametrize("name", [*folder.UNLABELLED_FOLDERS, "Unlabelled"])
def test_every_spelling_of_unlabelled_is_understood(name, tmp_path, save_image):
    save_image(tmp_path / "owl" / "a.png")
    save_image(tmp_path / name / "deep" / "er" / "b.png")
    split, _ = load(tmp_path)
    assert (split.class_names, split.n_unlabelled) == (("owl",), 1)


def test_loading_twice_gives_the_same_split(birds):
    assert load(birds)[0].fingerprint == load(birds)[0].fingerprint


def test_missing_and_empty_folders_are_errors(tmp_path):
    with pytest.raises(DataError, match="D01"):
        load(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"D01.*needs the path"):
        load(None)
    with pytest.raises(DataError, match=r"D02: no images.*found 0 files.*_unlabelled"):
        load(tmp_path)
    for name in ("1.cr2", "2.cr2", "notes.txt", "README"):
        (tmp_path / name).write_text("II*")
    with pytest.raises(DataError, match=r"found 4 files: 2 \.cr2, 1 no extension, 1 \.txt.*RAW"):
        load(tmp_path)


def test_raw_files_and_notes_are_left_out(birds, save_image):
    # A RAW file starts like a TIFF; opened by content it would be its thumbnail.
    save_image(birds / "owl" / "raw.tif").rename(birds / "owl" / "raw.cr2")
    (birds / "owl" / "notes.txt").write_text("seen at dusk")
    split, _ = load(birds)
    assert (len(split), split.problems) == (6, ())


def test_wrong_upper_case_and_missing_extensions_are_read_by_content(birds, save_image):
    save_image(birds / "owl" / "c.png").rename(birds / "owl" / "c.jpg")
    save_image(birds / "owl" / "d.png").rename(birds / "owl" / "D.PNG")
    save_image(birds / "owl" / "e.png").rename(birds / "owl" / "e")
    split, _ = load(birds)
    assert split.n_labelled == 6
    assert all(split.images.open(index).size == (6, 8) for index in range(len(split)))


def test_only_unlabelled_and_only_labelled_can_be_read(tmp_path, save_image):
    save_image(tmp_path / "loose" / "a.png")
    save_image(tmp_path / "named" / "owl" / "a.png")
    assert load(tmp_path / "loose", use_labels=True)[0].labels.tolist() == [-1]
    assert load(tmp_path / "named")[0].labels.tolist() == [0]


def test_labels_can_be_left_aside_even_unclear_ones(tmp_path, save_image):
    save_image(tmp_path / "unknown" / "a.png")
    split, _ = load(tmp_path, use_labels=False)
    assert (split.class_names, split.labels.tolist()) == ((), [-1])


def test_hidden_files_are_ignored_quietly(birds, save_image):
    save_image(birds / "owl" / "._a.png")
    save_image(birds / "@eaDir" / "a.png")
    (birds / "owl" / "Thumbs.db").write_bytes(b"x")
    split, _ = load(birds)
    assert (len(split), split.problems) == (6, ())


def test_images_in_hidden_folders_are_left_out_with_a_note(birds, save_image):
    save_image(birds / "..hid" / "a.png")
    with pytest.warns(NngcdWarning, match=r"D28: 1 image in hidden folders is left out: '\.\.hid'"):
        assert len(load(birds)[0]) == 6


def test_empty_category_folders_are_skipped_and_listed(birds):
    (birds / "eagle").mkdir()
    (birds / "unlabeled").mkdir()
    split, _ = load(birds)
    assert [(problem.file_name, problem.code) for problem in split.problems] == [("eagle", "D29")]
    assert "eagle" not in split.class_names


def test_the_first_level_is_the_label(birds, save_image):
    save_image(birds / "owl" / "2021" / "may" / "c.png")
    with pytest.warns(NngcdWarning, match=r"D30: 1 labelled image .*owl/2021/may/c\.png"):
        split, _ = load(birds)
    assert split.class_names == ("crow", "owl")
    assert split.n_labelled == 4


def test_unreadable_files_are_listed_and_too_many_stop(birds, save_image):
    for index in range(14):
        save_image(birds / "_unlabelled" / f"more{index}.png")
    (birds / "crow" / "a.png").write_bytes(b"<html>404</html>")
    split, _ = load(birds)
    assert [(problem.file_name, problem.reason) for problem in split.problems] == [
        ("crow/a.png", "not an image (HTML page)")
    ]
    # The only image of the category is gone, so the category is gone too.
    assert split.class_names == ("owl",)
    for name in ("a", "b"):
        (birds / "owl" / f"{name}.png").write_bytes(b"")
    with pytest.raises(DataError, match="D03: 3 of 20 images"):
        load(birds)
    assert len(load_with(birds, allow_bad=0.2)) == 17


def load_with(root, **options):
    return load(root, reading=ReadingSettings(**options))[0]


def test_links_that_leave_the_folder_are_listed(birds, tmp_path, save_image):
    save_image(tmp_path / "elsewhere" / "a.png")
    (birds / "hawk").symlink_to(tmp_path / "elsewhere")
    (birds / "owl" / "loop").symlink_to(birds)
    split, _ = load(birds)
    assert {(problem.file_name, problem.code) for problem in split.problems} == {("hawk", "D19"), ("owl/loop", "D19")}
    assert len(split) == 6


def test_unclear_folder_names_are_asked_about(birds, save_image):
    save_image(birds / "unknown" / "a.png")
    with pytest.raises(DataError, match="D08: 1 image labelled 'unknown'"):
        load(birds)
    assert load_with(birds, unlabelled_names=("unknown",)).n_labelled == 3
    assert load_with(birds, category_names=("unknown",)).n_labelled == 4


def test_two_spellings_of_one_accent_are_one_category(tmp_path, save_image):
    for form in ("NFC", "NFD"):
        save_image(tmp_path / unicodedata.normalize(form, "bécasse") / "1 \N{BIRD}.png")
    save_image(tmp_path / "loose.png")
    split, _ = load(tmp_path)
    assert split.class_names == (unicodedata.normalize("NFC", "bécasse"),)
    assert split.n_labelled == 2
    assert split.images.open(0).mode == "RGB"


def test_one_image_in_two_categories_is_used_as_unlabelled(birds, save_image):
    save_image(birds / "owl" / "twin.png", seed=99)
    save_image(birds / "crow" / "twin.png", seed=99)
    with pytest.warns(NngcdWarning, match="D13"):
        split, _ = load(birds)
    assert split.n_labelled == 3
    assert {problem.file_name for problem in split.problems} == {"owl/twin.png", "crow/twin.png"}


def test_progress_is_reported(birds):
    steps = []
    load(birds, on_progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 6) for done in range(1, 7)]
