"""The 1,797 scanned digits that come with scikit-learn: a benchmark that needs no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from nngcd.core.seeds import numpy_generator
from nngcd.data.image_arrays import ImageArrays
from nngcd.data.split import UNLABELLED, Draw, Split, Truth, draw_labelled, draw_stratified, image_table

N_OLD = 5


def load(root: Path | None = None, *, draw: Draw = "pooled") -> tuple[Split, Truth | None]:
    """Return the digits: 0 to 4 are old classes with half of their images labelled, 5 to 9 are new."""
    digits = load_digits()
    pixels_nhw = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    truth = Truth(classes=digits.target.astype(np.int64), class_names=tuple("0123456789"), n_old=N_OLD)
    # The draw is part of the benchmark, like the images: runs with different seeds must be scored on the same split.
    generator = numpy_generator(0, "split")
    if draw == "stratified":
        is_labelled = draw_stratified(truth.classes, n_old=N_OLD, generator=generator)
    else:
        is_labelled = draw_labelled(truth.is_old, generator=generator)
    images = ImageArrays(pixels_nhw)
    file_names = [f"digit-{index:04d}" for index in range(len(images))]
    split = Split(
        name="digits",
        images=images,
        features_nvd=None,
        labels=np.where(is_labelled, truth.classes, UNLABELLED),
        class_names=truth.class_names[:N_OLD],
        table=image_table(file_names, [images.fingerprint(index) for index in range(len(images))]),
        n_classes=10,
        image_size=96,
        may_flip=False,
    )
    return split, truth
