from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from nngcd.clustering import snc
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.points import as_labels, as_rows
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.errors import ConfigError, DataError
from nngcd.counting.estimate_k import estimate_k

TRUTH = np.repeat(np.arange(4), 15)
LABELS = np.where(np.arange(60) % 3 == 0, TRUTH, -1)


def blobs(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(4, 8))[TRUTH] * 5 + rng.normal(size=(60, 8)) * 0.1).astype(dtype)


USES_OF_DIRECTIONS = [
    lambda x: snc.partitions(x, LABELS),
    lambda x: snc.cluster(x, LABELS, 4),
    lambda x: next(snc.merge_closest(x, LABELS, np.arange(60))),
    lambda x: estimate_k(x, LABELS, k_range=(4, 6)),
]


@pytest.mark.parametrize("use", USES_OF_DIRECTIONS)
@pytest.mark.parametrize(("dtype", "scale"), [("f4", 1e20), ("f4", 1e-14), ("f4", 1e-30), ("f8", 1e200), ("f8", 1e-14)])
def test_features_whose_directions_cannot_be_told_are_refused(use, dtype, scale):
    x = blobs(dtype) * np.dtype(dtype).type(scale)
    with pytest.raises(
        DataError, match=r"features from .* to .* in row 0 are too large or too small to be squared; rescale"
    ):
        use(x)


@pytest.mark.parametrize("use", USES_OF_DIRECTIONS)
def test_one_row_too_many_is_named_and_a_row_of_zeros_is_none(use):
    x = blobs()
    x[7] = 0
    use(x)
    x[7] = 1e-14
    with pytest.raises(
        DataError, match=r"features from 1e-14 to 1e-14 in row 7 are too large or too small to be squared; rescale"
    ):
        use(x)
    x[7] = np.inf
    with pytest.raises(DataError, match="the features have NaN or infinite values"):
        use(x)


@pytest.mark.parametrize(("dtype", "scale"), [("f4", 1e17), ("f4", 1e-10), ("f8", 1e100), ("f8", 1e-10)])
def test_at_any_scale_that_is_taken_the_blobs_are_found(dtype, scale):
    x = blobs(dtype) * np.dtype(dtype).type(scale)
    assert np.array_equal(snc.cluster(x, LABELS, 4), TRUTH)
    assert estimate_k(x, LABELS).k == estimate_k(blobs(dtype), LABELS).k


def test_rows_whose_sum_cannot_be_squared_are_refused():
    x, labels = np.full((100, 1), 1e153), np.full(100, -1)
    assert snc.partitions(x[:5], labels[:5])[0].tolist() == [0] * 5
    with pytest.raises(
        DataError, match=r"features from 1e\+153 to 1e\+153 are too large or too small to be squared; rescale"
    ):
        snc.partitions(x, labels)


def test_a_dataframe_and_a_series_are_taken():
    x = blobs()
    frame, series = pd.DataFrame(x), pd.Series(LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of an array that may not be written to
        fitted = KMeans(4).fit(frame)
        assert torch.equal(fitted.labels_, KMeans(4).fit(x).labels_)
        assert torch.equal(fitted.predict(frame), fitted.labels_)
        assert np.array_equal(snc.cluster(frame, series, 4), snc.cluster(x, LABELS, 4))
    assert torch.equal(as_rows(pd.DataFrame({"a": [1, 2], "b": [0.5, 1]})), torch.tensor([[1, 0.5], [2, 1]]).double())
    assert as_labels(series, 60).tolist() == LABELS.tolist()


def test_a_dataframe_of_words_is_refused():
    with pytest.raises(DataError, match="these features cannot be used: could not convert string to float: 'x'"):
        KMeans(2).fit(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}))


def test_what_is_sparse_is_refused():
    with pytest.raises(DataError, match=r"sparse features cannot be used; give features\.to_dense\(\)"):
        KMeans(2).fit(torch.eye(4).to_sparse())
    with pytest.raises(TypeError, match=r"Sparse data was passed for features.*Use '\.toarray\(\)'"):
        KMeans(2).fit(csr_array(np.eye(4)))
    with pytest.raises(DataError, match="sparse labels cannot be used"):
        SemiSupervisedKMeans(2).fit(np.eye(4), torch.ones(4, dtype=torch.int64).to_sparse())


def test_a_file_mapped_into_memory_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", blobs())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    assert as_rows(mapped).data_ptr() == mapped.ctypes.data


@pytest.mark.parametrize("value", [10.0, "a", None, np.array(10.0), torch.tensor(10.0)])
@pytest.mark.parametrize("name", ["block_size", "n_init", "max_iter", "n_clusters", "random_state"])
def test_what_is_no_whole_number_is_refused(name, value):
    settings = {"n_clusters": 4, name: value}
    with pytest.raises(ConfigError, match=f"{name} = .*: must be a whole number"):
        KMeans(**settings).fit(blobs())
    with pytest.raises(ConfigError, match=f"{name} = .*: must be a whole number"):
        SemiSupervisedKMeans(**settings).fit(blobs(), LABELS)


@pytest.mark.parametrize("tol", [-1, float("nan"), "x", None])
def test_a_tolerance_that_no_move_is_within_is_refused(tol):
    with pytest.raises(ConfigError, match=r"tol = .*: must be a number, 0 or more"):
        KMeans(4, tol=tol).fit(blobs())
    with pytest.raises(ConfigError, match=r"tol = .*: must be a number, 0 or more"):
        SemiSupervisedKMeans(4, tol=tol).fit(blobs(), LABELS)


@pytest.mark.parametrize("kmeans", [KMeans(4), SemiSupervisedKMeans(4)])
def test_rows_cannot_be_compared_with_centres_that_are_not_there(kmeans):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        kmeans.predict(blobs())


@pytest.mark.parametrize("size_limit", [15.5, 15.0, "15"])
def test_a_size_limit_that_is_no_whole_number_is_refused(size_limit):
    with pytest.raises(ConfigError, match=r"size_limit = .*: must be a whole number"):
        SemiSupervisedKMeans(4, size_limit=size_limit).fit(blobs(), LABELS)


@pytest.mark.parametrize("n_clusters", [4.0, "4", None])
def test_a_number_of_neighbour_clusters_that_is_not_whole_is_refused(n_clusters):
    with pytest.raises(ConfigError, match=r"n_clusters = .*: must be a whole number"):
        snc.cluster(blobs(), LABELS, n_clusters)


@pytest.mark.parametrize("k_range", ["2..6", "46", 5, (4,), (4, 5, 6), (4.0, 6.0), (4, None)])
def test_a_range_that_is_not_two_whole_numbers_is_refused(k_range):
    with pytest.raises(ConfigError, match=r"k_range = .*: must be \(fewest, most\), two whole numbers"):
        estimate_k(blobs(), LABELS, k_range=k_range)


def test_a_range_may_be_an_array():
    assert estimate_k(blobs(), LABELS, k_range=np.array([4, 6])) == estimate_k(blobs(), LABELS, k_range=(4, 6))


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (np.full((2, 8), 3e38, "f4"), r"3e\+38 to 3e\+38 in row 0"),
        (np.full((2, 8), 1e300), r"1e\+300 to 1e\+300 in row 0"),
        (np.vstack([np.ones(8), np.arange(8) * 1e25]), r"0 to 7e\+25 in row 1"),
    ],
)
@pytest.mark.parametrize("block_size", [1, 4096])
def test_rows_too_large_for_the_centres_are_refused(rows, ends, block_size):
    fitted = KMeans(4, block_size=block_size).fit(blobs())
    with pytest.raises(DataError, match=f"features from {ends} are too large or too small to be squared; rescale"):
        fitted.predict(rows)
    with pytest.raises(DataError, match="the features have NaN or infinite values"):
        fitted.predict(np.where(np.eye(2, 8) == 1, np.nan, rows))


def test_rows_are_compared_in_the_type_of_the_centres():
    x = blobs(np.float64)
    wide = KMeans(4).fit(x)
    assert wide.predict(np.full((2, 8), 1e100)).shape == (2,)
    assert torch.equal(wide.predict(x), wide.labels_)


def test_what_is_masked_is_refused_unless_nothing_is():
    x = blobs()
    with pytest.raises(DataError, match="features must not be masked; fill the values or remove those rows"):
        KMeans(4).fit(np.ma.masked_array(x, mask=x > x.mean()))
    with pytest.raises(DataError, match="labels must not be masked"):
        as_labels(np.ma.masked_array(LABELS, mask=LABELS < 0), len(LABELS))
    assert torch.equal(KMeans(4).fit(np.ma.masked_array(x)).labels_, KMeans(4).fit(x).labels_)


def test_the_order_of_bytes_is_no_matter():
    x = blobs()
    assert torch.equal(as_rows(x.astype(x.dtype.newbyteorder(">"))), torch.from_numpy(x))
