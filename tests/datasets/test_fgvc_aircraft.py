import miniatures
import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.fgvc_aircraft import load
from nngcd.datasets.published_splits import published_split


@pytest.fixture
def miniature(miniature_of):
    return miniature_of("fgvc_aircraft")


@pytest.fixture
def data(miniature):
    return miniature / "fgvc-aircraft-2013b" / "data"


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="about 1,700 labelled and 5,000 unlabelled images, 6,667 in all"):
        return load(root, Request(**options))


def test_trainval_images_are_read_in_the_order_of_the_table(miniature, data):
    split, truth = load_miniature(miniature)
    lines = [line.split(" ", 1) for line in (data / "images_variant_trainval.txt").read_text().splitlines()]
    assert split.table["file_name"].tolist() == [f"{image_id}.jpg" for image_id, _ in lines]
    assert [truth.class_names[number] for number in truth.classes] == [variant for _, variant in lines]
    old = [sorted(miniatures.AIRCRAFT_VARIANTS)[place] for place in published_split("fgvc_aircraft").old_classes]
    assert split.class_names == tuple(old)
    assert {"707-320", "F/A-18", "Yak-42"} <= set(old) and "737-600" not in old


def test_classes_are_numbered_by_sorted_names_whatever_the_order_of_the_table(miniature, data):
    before = load_miniature(miniature)[1].class_names
    (data / "variants.txt").write_text("\n".join(miniatures.AIRCRAFT_VARIANTS[::-1]))
    assert load_miniature(miniature)[1].class_names == before


def test_the_folders_inside_are_accepted(miniature, data):
    fingerprints = {load_miniature(root)[0].fingerprint for root in (miniature, data.parent, data)}
    assert len(fingerprints) == 1


def test_missing_images_are_listed_and_do_not_move_other_labels(miniature, data):
    whole = load_miniature(miniature)[0]
    labels = dict(zip(whole.table["file_name"], whole.labels, strict=True))
    gone = whole.table["file_name"][20]
    (data / "images" / gone).unlink()
    split, _ = load_miniature(miniature)
    assert [(problem.file_name, problem.reason) for problem in split.problems] == [(gone, "missing")]
    assert all(labels[name] == label for name, label in zip(split.table["file_name"], split.labels, strict=True))


def test_tables_that_do_not_fit_are_refused(miniature, data):
    with (data / "images_variant_trainval.txt").open("a") as file:
        file.write("9999999 A388\n")
    with pytest.raises(DataError, match=r"a variant 'A388' not in variants.txt. Did you mean 'A380'"):
        load(miniature)
    (data / "variants.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"D17: '.*variants.txt' is not UTF-8"):
        load(miniature)


def test_a_half_copied_archive_is_named(miniature, data):
    (data / "variants.txt").unlink()
    with pytest.raises(DataError, match=r"which lacks fgvc-aircraft-2013b/data/variants.txt\. Expected .*2013b.tar.gz"):
        load(miniature)
