import unicodedata

import pandas as pd
import pytest

from nngcd.core.errors import DataError
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.manifest import load

TABLE = "file_name,label\nimg/a.png,owl\nimg/b.png,crow\nimg/c.png,\n"


@pytest.fixture
def write(tmp_path, save_image):
    for name in "abc":
        save_image(tmp_path / "img" / f"{name}.png")

    def write_table(text, name="labels.csv", encoding="utf-8"):
        (tmp_path / name).write_bytes(text.encode(encoding))
        return tmp_path / name

    return write_table


def names_given(split):
    labels = [None if label < 0 else split.class_names[label] for label in split.labels]
    return dict(zip(split.table["file_name"], labels, strict=True))


OWL_AND_CROW = {"img/a.png": "owl", "img/b.png": "crow", "img/c.png": None}


def test_a_table_labels_its_images(write):
    split, truth = load(write(TABLE))
    assert truth is None and split.name == "labels"
    assert split.class_names == ("crow", "owl")
    assert names_given(split) == OWL_AND_CROW


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_delimiters_byte_order_marks_and_newlines_are_handled(write, mark, encoding, newline):
    text = TABLE.replace(",", mark).replace("\n", newline)
    assert names_given(load(write(text, encoding=encoding))[0]) == OWL_AND_CROW


def test_parquet_is_read_with_missing_values(write, tmp_path):
    write("")
    table = pd.DataFrame({"file_name": list(OWL_AND_CROW), "label": ["owl", "crow", None], "group": ["g1", "g1", None]})
    table.to_parquet(tmp_path / "t.parquet")
    split, _ = load(tmp_path / "t.parquet")
    assert names_given(split) == OWL_AND_CROW
    assert split.table["group"].isna().tolist() == [False, False, True]
    table.assign(label=[10.0, 9.0, float("nan")]).to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet")[0].class_names == ("9", "10")
    table.assign(label=[3, 4, -1]).to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet")[0].labels.tolist() == [0, 1, -1]
    # Found by benchmarks/fuzz.py: Arrow notices broken text only when a cell is read.
    table.assign(label=["owlowlowl", "crow", None]).to_parquet(tmp_path / "t.parquet", compression=None)
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data.replace(b"owlowlowl", b"owl\x80wlowl"))
    with pytest.raises(DataError, match=r"D17.*Parquet"):
        load(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match=r"D17.*Parquet"):
        load(tmp_path / "t.parquet")


def test_split_and_group_are_carried_through_and_quotes_understood(write, save_image, tmp_path):
    save_image(tmp_path / "one, two.png")
    text = 'file_name,label,split,group\nimg/a.png,owl,train,tree 1\n"one, two.png",,test,\n'
    split, _ = load(write(text))
    assert split.table["split"].tolist() == ["train", "test"]
    assert split.table["group"][0] == "tree 1" and pd.isna(split.table["group"][1])


@pytest.mark.parametrize("missing", ["-1", "", "nan", "-1.0"])
def test_a_column_of_numbers_may_say_minus_one(write, missing):
    split, _ = load(write(f"file_name,label\nimg/a.png,10\nimg/b.png,9.0\nimg/c.png,{missing}\n"))
    assert split.class_names == ("9", "10")
    assert split.labels.tolist() == [1, 0, -1]


@pytest.mark.parametrize("name", ["unknown", "other", "-1", "?", "nan", "misc", "Unknown"])
def test_unclear_labels_stop_until_settled(write, name):
    path = write(f"file_name,label\nimg/a.png,owl\nimg/b.png,{name}\nimg/c.png,\n")
    with pytest.raises(DataError, match="D08: 1 image"):
        load(path)
    assert load(path, reading=ReadingSettings(unlabelled_names=(name,)))[0].class_names == ("owl",)
    assert set(load(path, reading=ReadingSettings(category_names=(name,)))[0].class_names) == {"owl", name}


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "img/../../x.png", "..\\x.png", "/etc/x.png", "C:\\x.png", "C:/x.png", "\\\\server\\x.png",
     "file:///x.png", "https://example.org/x.png", "s3://bucket/x.png", "file:x.png"],
)  # fmt: skip
def test_paths_outside_the_folder_are_refused_with_their_line(write, name):
    with pytest.raises(DataError, match="D18: line 3 "):
        load(write(f"file_name,label\nimg/a.png,owl\n{name},\n"))


def test_detours_and_backslashes_inside_the_folder_are_fine(write):
    split, _ = load(write("file_name,label\nimg\\a.png,owl\n./img/../img/b.png,\n"))
    assert split.table["file_name"].tolist() == ["img/a.png", "img/b.png"]


def test_paths_may_be_relative_to_another_folder(write, tmp_path):
    path = write("file_name,label\na.png,owl\nb.png,\n")
    assert len(load(path, reading=ReadingSettings(image_root=str(tmp_path / "img")))[0]) == 2
    with pytest.raises(DataError, match=r"D01: .* not found; expected a folder"):
        load(path, reading=ReadingSettings(image_root=str(tmp_path / "imgs")))


def test_missing_files_are_listed_and_too_many_stop(write, tmp_path, save_image):
    for index in range(17):
        save_image(tmp_path / f"{index}.png")
    text = TABLE + "".join(f"{index}.png,\n" for index in range(17))
    split, _ = load(write(text + "gone.png,\n"))
    assert [(problem.file_name, problem.code, problem.reason) for problem in split.problems] == [
        ("gone.png", "D15", "missing (line 22)")
    ]
    assert len(split) == 20
    with pytest.raises(DataError, match=r"D15: 3 of 23 rows of the table.*'gone1.png': missing \(line 22\).*--root"):
        load(write(text + "gone1.png,\ngone2.png,\ngone3.png,owl\n"))


def test_a_link_that_leaves_the_folder_is_not_followed(write, tmp_path, save_image):
    data = tmp_path / "data"
    save_image(data / "a.png")
    (data / "link.png").symlink_to(save_image(tmp_path / "outside.png"))
    path = write("file_name,label\na.png,owl\nlink.png,\n")
    split, _ = load(path, reading=ReadingSettings(image_root=str(data), allow_bad=0.5))
    assert [(problem.file_name, problem.code) for problem in split.problems] == [("link.png", "D19")]


def test_contradicting_rows_stop_with_both_lines(write):
    with pytest.raises(DataError, match=r"D14: lines 2 and 5 .*'img/a.png' \(owl / crow\)"):
        load(write(TABLE + "./img/a.png,crow\n"))


def test_the_same_row_twice_is_kept_once(write):
    assert len(load(write(TABLE + "img/a.png,owl\n"))[0]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Bild;Klasse\na.png;owl\n", r"D17: no column 'file_name' and 'label' in .*\(found: Bild, Klasse\)"),
        ("file_name,Klasse\na.png,owl\n", "no column 'label'"),
        ("", "D17: .* is empty"),
        ("\ufeff\n", "D17: .* is empty"),
        ("file_name,label\n", "D02: .* lists no images"),
        ("file_name,label\nimg/a.png,owl\nimg/b.png,big, owl\n", "D17: line 3 .* has 3 fields"),
        ("file_name,label\n,owl\n", "D17: line 2 has no file_name"),
        ('file_name,label\n"img/a.png,owl\n' + "x" * 200_000, "D17: .* quote"),
    ],
)
def test_tables_of_the_wrong_form_say_what_was_found(write, text, message):
    with pytest.raises(DataError, match=message):
        load(write(text))


def test_line_numbers_count_blank_lines_and_lines_inside_quotes(write):
    with pytest.raises(DataError, match="D18: line 6 "):
        load(write('file_name,label,group\n\nimg/a.png,owl,"two\nlines"\n\n../x.png,,"two\nlines"\n'))


def test_other_files_are_refused(write, tmp_path):
    with pytest.raises(DataError, match=r"D17.*Save it as CSV"):
        load(write("", name="labels.xlsx"))
    with pytest.raises(DataError, match="not UTF-8"):
        load(write("file_name,label\nimg/a.png,Häher\n", encoding="latin-1"))
    with pytest.raises(DataError, match=r"D01: .*not found; expected a table\. Did you mean '.*labels.csv'"):
        load(tmp_path / "labls.csv")
    with pytest.raises(DataError, match="D01"):
        load(None)


def test_labels_can_be_left_aside_even_unclear_ones(write):
    split, _ = load(write("file_name,label\nimg/a.png,unknown\nimg/b.png,owl\n"), use_labels=False)
    assert (split.class_names, split.n_labelled) == ((), 0)


def test_both_spellings_of_an_accent_find_the_file(write, tmp_path, save_image):
    save_image(tmp_path / unicodedata.normalize("NFD", "bécasse.png"))
    split, _ = load(write("file_name,label\nimg/a.png,owl\n" + unicodedata.normalize("NFC", "bécasse.png") + ",\n"))
    assert len(split) == 2
    assert split.images.open(1).mode == "RGB"


def test_unreadable_files_keep_labels_in_place(write, tmp_path):
    (tmp_path / "img" / "a.png").write_bytes(b"")
    split, _ = load(write(TABLE), reading=ReadingSettings(allow_bad=0.5))
    assert names_given(split) == {"img/b.png": "crow", "img/c.png": None}
    assert split.class_names == ("crow",)
