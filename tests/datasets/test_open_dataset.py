import numpy as np
import pytest

from nngcd.core.components import component_names
from nngcd.core.errors import DataError, UserError
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_names


def test_components_are_found_and_parts_are_not():
    names = component_names("nngcd.datasets", "load")
    assert {"folder", "manifest", "arrays", "digits", *published_names()} <= set(names)
    assert not {"split", "image_files", "published", "labels", "file_tree", "benchmark", "cifar_files"} & set(names)


def test_paths_are_recognised(birds, tmp_path):
    assert open_dataset(str(birds))[0].name == "birds"
    (birds / "table.tsv").write_text("file_name\tlabel\nowl/a.png\towl\nowl/b.png\t\n")
    assert open_dataset(str(birds / "table.tsv"))[0].n_labelled == 1
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 2)), y=[0, -1])
    assert open_dataset(str(tmp_path / "a.npz"))[0].features_nvd.shape == (2, 1, 2)


def test_names_are_recognised():
    split, truth = open_dataset("digits")
    assert split.name == "digits" and len(truth.classes) == len(split)


def test_a_dataset_can_be_named_and_given_options(birds, save_image):
    save_image(birds / "unknown" / "a.png")
    split, _ = open_dataset(str(birds), dataset="folder", reading=ReadingSettings(unlabelled_names=("unknown",)))
    assert split.n_unlabelled == 4
    with pytest.raises(DataError, match="no CUB-200-2011"):
        open_dataset(str(birds), dataset="cub")
    with pytest.raises(UserError, match=r"unknown dataset 'cup'.*Did you mean 'cub'"):
        open_dataset(str(birds), dataset="cup")


def test_what_is_not_there_gets_a_suggestion(birds, monkeypatch):
    with pytest.raises(DataError, match=r"D01: '.*brids' not found; .*Did you mean '.*birds'"):
        open_dataset(str(birds.with_name("brids")))
    monkeypatch.chdir(birds)
    with pytest.raises(DataError, match="Did you mean 'owl'"):
        open_dataset("owls/")
    with pytest.raises(DataError, match="Did you mean 'digits'"):
        open_dataset("digit")


def test_other_files_are_refused(birds):
    with pytest.raises(DataError, match=r"\.csv.*folder of images"):
        open_dataset(str(birds / "loose.png"))
    (birds / "table.xlsx").touch()
    with pytest.raises(DataError, match=r"D17.*Save it as CSV"):
        open_dataset(str(birds / "table.xlsx"))
