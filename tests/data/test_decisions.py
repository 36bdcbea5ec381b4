import pandas as pd
import pytest

from nngcd.core.errors import DataError
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.folder import load
from nngcd.datasets.opening import open_dataset


@pytest.fixture
def decisions(birds, tmp_path):
    """x is an owl now, a.png of the owls is a raven, b.png was rejected."""
    table = load(birds)[0].table[["image_id", "file_name"]]
    said = {"_unlabelled/x.png": ("owl", "approved"), "owl/a.png": ("raven", "moved"), "owl/b.png": ("", "rejected"),
            "crow/a.png": ("crow", "given")}  # fmt: skip
    table["label"], table["source"] = zip(*(said.get(name, ("", "")) for name in table["file_name"]), strict=True)
    table.to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "labels.csv"


def test_a_persons_labels_replace_those_of_the_data(birds, decisions):
    split, truth = open_dataset(str(birds), reading=ReadingSettings(decisions=str(decisions)))
    assert truth is None
    assert split.class_names == ("crow", "owl", "raven")
    names = [None if label < 0 else split.class_names[label] for label in split.labels]
    assert dict(zip(split.table["file_name"], names, strict=True)) == {
        "_unlabelled/x.png": "owl",
        "_unlabelled/y.png": None,
        "crow/a.png": "crow",
        "loose.png": None,
        "owl/a.png": "raven",
    }
    assert [(p.file_name, p.code) for p in split.problems] == [("owl/b.png", "rejected")]
    assert split.images.fingerprint(4) == load(birds)[0].images.fingerprint(4)
    assert len(split.images) == 5


def test_features_keep_their_rows(blobs, tmp_path):
    from nngcd.data.decisions import with_decisions_of
    from nngcd.datasets.arrays import from_arrays

    whole = from_arrays(*blobs[:2])
    table = whole.table[["image_id", "file_name"]].assign(label="", source="")
    table.loc[0, ["label", "source"]] = ["a", "moved"]
    table.loc[1, "source"] = "rejected"
    table.to_csv(tmp_path / "labels.csv", index=False)
    split = with_decisions_of(whole, tmp_path / "labels.csv")
    assert (len(split), split.n_labelled, split.class_names) == (239, 1, ("a",))
    assert (split.features_nvd[1] == whole.features_nvd[2]).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "not found. Restore the reviewed run"),
        (lambda path: path.write_text(""), "cannot read"),
        (lambda path: path.write_text("image_id,label\n"), "lacks the column 'file_name'"),
        (
            lambda path: pd.read_csv(path)[1:].to_csv(path, index=False),
            "1 images were not in the run that was reviewed",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(birds, decisions, damage, message):
    damage(decisions)
    with pytest.raises(DataError, match=message):
        open_dataset(str(birds), reading=ReadingSettings(decisions=str(decisions)))
