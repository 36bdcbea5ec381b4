import numpy as np
import pytest

from nngcd.core.errors import DataError
from nngcd.data.image_arrays import ImageArrays


@pytest.mark.parametrize(
    ("shape", "pixel"),
    [((2, 4, 5), (9, 9, 9)), ((2, 4, 5, 1), (9, 9, 9)), ((2, 4, 5, 3), (9, 9, 9)), ((2, 4, 5, 4), (246, 246, 246))],
)
def test_every_layout_opens_as_rgb(shape, pixel):
    images = ImageArrays(np.full(shape, 9, dtype=np.uint8))
    assert len(images) == 2
    image = images.open(1)
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (5, 4), pixel)


def test_the_fingerprint_sees_content_and_shape():
    zeros = ImageArrays(np.zeros((2, 4, 6), dtype=np.uint8))
    assert zeros.fingerprint(0) == zeros.fingerprint(1)
    other = np.zeros((1, 4, 6), dtype=np.uint8)
    other[0, 0, 0] = 1
    assert zeros.fingerprint(0) != ImageArrays(other).fingerprint(0)
    assert zeros.fingerprint(0) != ImageArrays(np.zeros((1, 6, 4), dtype=np.uint8)).fingerprint(0)


@pytest.mark.parametrize("array", [np.zeros((2, 4, 4)), np.zeros((2, 4, 4, 2), np.uint8), np.zeros((2, 4), np.uint8)])
def test_other_arrays_are_refused(array):
    with pytest.raises(DataError, match="images must be uint8"):
        ImageArrays(array)
