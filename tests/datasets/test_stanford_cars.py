import miniatures
import pytest
from scipy.io import savemat

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.published_splits import published_split
from nngcd.datasets.stanford_cars import load


@pytest.fixture
def miniature(miniature_of):
    return miniature_of("stanford_cars")


@pytest.fixture
def rows(miniature_of):
    return miniature_of("stanford_cars_csv")


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="'stanford_cars' should have 2,000 labelled and 6,144 unlabelled"):
        return load(root, Request(**options))


def test_images_are_read_in_the_order_of_the_devkit(miniature):
    split, truth = load_miniature(miniature)
    numbers = (miniatures._shuffled(196, 3) + 1).tolist()
    assert split.table["file_name"].tolist() == [f"cars_train/{index + 1:05d}.jpg" for index in range(len(numbers))]
    assert [truth.class_names[place] for place in truth.classes] == [f"Car {number} 2012" for number in numbers]
    old = published_split("stanford_cars").old_classes
    assert split.class_names == tuple(f"Car {place + 1} 2012" for place in old)


def test_the_csv_form_gives_the_same_labels(miniature, rows):
    split, truth = load_miniature(miniature)
    other, other_truth = load_miniature(rows)
    assert [name.rpartition("/")[2] for name in other.table["file_name"]] == [
        name.rpartition("/")[2] for name in split.table["file_name"]
    ]
    assert other.table["file_name"].str.startswith("car_data/train/Car ").all()
    assert other.labels.tolist() == split.labels.tolist()
    assert other_truth.classes.tolist() == truth.classes.tolist()
    assert other_truth.class_names == truth.class_names


def test_a_line_of_headings_is_left_out(rows):
    before = load_miniature(rows)[0].fingerprint
    table = rows / "anno_train.csv"
    table.write_text("image_name,x_min,y_min,x_max,y_max,label\n" + table.read_text())
    assert load_miniature(rows)[0].fingerprint == before


def test_the_folder_above_and_one_folder_more_are_accepted(miniature):
    before = load_miniature(miniature)[0]
    root = miniature.parent / "above"
    root.mkdir()
    miniature.rename(root / "stanford_cars")
    assert load_miniature(root)[0].fingerprint == before.fingerprint
    images = root / "stanford_cars" / "cars_train"
    images.rename(root / "kept")
    images.mkdir()
    (root / "kept").rename(images / "cars_train")
    assert load_miniature(root)[0].labels.tolist() == before.labels.tolist()


def test_missing_images_are_listed_and_many_are_refused(miniature):
    (miniature / "cars_train" / "00007.jpg").unlink()
    split, _ = load_miniature(miniature)
    assert [(problem.file_name, problem.code) for problem in split.problems] == [("cars_train/00007.jpg", "D15")]
    for index in range(100, 200):
        (miniature / "cars_train" / f"{index:05d}.jpg").unlink()
    with pytest.raises(DataError, match="D15: 101 of 588 images"):
        load(miniature)


def test_files_that_are_not_the_devkit_s_are_refused(miniature):
    meta = miniature / "devkit" / "cars_meta.mat"
    whole = meta.read_bytes()
    for content in (b"", b"<html>" * 100, whole[: len(whole) // 2]):
        meta.write_bytes(content)
        with pytest.raises(DataError, match=r"D17: '.*cars_meta.mat' cannot be read.*car_devkit.tgz"):
            load(miniature)
    meta.write_bytes(whole)
    savemat(miniature / "devkit" / "cars_train_annos.mat", {"something": [1]})
    with pytest.raises(DataError, match=r"D17: '.*cars_train_annos.mat' cannot be read"):
        load(miniature)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("00001.jpg,14", "six fields a row.*'00001.jpg,14'"),
        ("00001.jpg,1,1,2,2,Audi", "six fields a row"),
        ("00001.jpg,1,1,2,2,197", "classes outside its 196"),
        ("00001.jpg,1,1,2,2,0", "classes outside its 196"),
        ("../../x.jpg,1,1,2,2,5", "D18"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows, row, message):
    with (rows / "anno_train.csv").open("a") as file:
        file.write(f"{row}\n")
    with pytest.raises(DataError, match=message):
        load(rows)


def test_a_half_copied_archive_is_named(miniature):
    (miniature / "devkit" / "cars_meta.mat").unlink()
    with pytest.raises(
        DataError, match=r"which lacks devkit/cars_meta.mat\. Expected .*car_devkit.tgz.*, or anno_train"
    ):
        load(miniature)
