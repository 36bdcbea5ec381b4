"""A finished run of any size with pictures, written without fitting anything: what the review page is measured on."""

from __future__ import annotations

import hashlib
import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from finished_runs import summary
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.files import write_json, write_table, write_tensors, write_yaml
from nngcd.core.run_folder import RunFolder

N_PICTURES = 64
"""Different pictures; all others are hard links to these, since an image id also depends on the file name."""
SIDE = 160
LARGE = 10_000
"""Images of each of two large categories, one of which is merged into the other."""
N_KNOWN_OF = 4
"""A quarter of the categories is known."""
UNSURE, LABELLED = 0.05, 0.5
"""Share of the new images that are unsure, and of the known ones that were given with a label."""


def generated_run(folder: Path, *, n_images: int, n_categories: int, n_features: int) -> RunFolder:
    """Write a finished run: two large categories, the others of about the same size, in groups that resemble.

    Args:
        folder: where `data` and `run` go.
        n_images: how many.
        n_categories: how many, known ones included.
        n_features: of each image.
    """
    rng = np.random.default_rng(0)
    names = [f"known {i:04d}" for i in range(n_categories // N_KNOWN_OF)]
    names += [f"new-{i:04d}" for i in range(1, n_categories - len(names) + 1)]
    category_n = _categories(rng, n_images, n_categories)
    table = _table(rng, names, category_n, _linked_pictures(folder / "data", n_images))
    run = RunFolder.create(folder / "run")
    settings = {"data": str(folder / "data"), "dataset": None, "method": "kmeans", "preset": "default",
                "effort": "quick", "weights": None, "k": n_categories, "reading": {"round": 1}}  # fmt: skip
    write_yaml(run.config, settings)
    write_table(run.results, table)
    write_tensors(run.features, {"features_nd": _features(rng, category_n, n_features)})
    write_json(run.model / "categories.json", {"categories": names, "n_known": n_categories // N_KNOWN_OF})
    write_table(run.problems, pd.DataFrame({"file_name": [], "code": [], "reason": []}))
    facts = {"k": n_categories, "n_images": n_images, "n_known_categories": n_categories // N_KNOWN_OF}
    write_json(run.summary, summary(**facts))
    return run


def _categories(rng: np.random.Generator, n_images: int, n_categories: int) -> NDArray[np.int64]:
    """Return the category of each image; the last two, which are new, are large."""
    large = min(LARGE, n_images // 5)
    some = rng.integers(0, n_categories - 2, n_images - 2 * large)
    category_n = np.concatenate([some, np.repeat([n_categories - 2, n_categories - 1], large)])
    return rng.permutation(category_n)


def _linked_pictures(data: Path, n_images: int) -> tuple[list[str], list[str]]:
    """Write the pictures; return the name and the id of each image."""
    rng, contents = np.random.default_rng(1), []
    for number in range(N_PICTURES):
        small = rng.integers(0, 256, size=(5, 5, 3), dtype=np.uint8)
        file = BytesIO()
        Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
        contents.append(file.getvalue())
        (data / f"{number:02d}").mkdir(parents=True)
        (data / f"{number:02d}" / "first.jpg").write_bytes(contents[-1])
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    names, ids = [], []
    for i in range(n_images):
        name = f"{i % N_PICTURES:02d}/{i:07d}.jpg"
        os.link(data / f"{i % N_PICTURES:02d}" / "first.jpg", data / name)
        names.append(name)
        ids.append(hashlib.sha256(f"{hashes[i % N_PICTURES]}/{name}".encode()).hexdigest()[:16])
    return names, ids


def _features(rng: np.random.Generator, category_n: NDArray[np.int64], n_features: int) -> torch.Tensor:
    """Return features around the centre of each category; centres come in groups of four that resemble."""
    n_categories = int(category_n.max()) + 1
    groups = rng.normal(size=(-(-n_categories // 4), n_features)).astype(np.float32)
    centres = np.repeat(groups, 4, axis=0)[:n_categories] + 0.5 * rng.normal(size=(n_categories, n_features))
    features_nd = np.empty((len(category_n), n_features), dtype=np.float16)
    for start in range(0, len(category_n), 8192):
        rows = category_n[start : start + 8192]
        features_nd[start : start + 8192] = centres[rows] + 0.6 * rng.standard_normal((len(rows), n_features))
    return torch.from_numpy(features_nd)


def _table(
    rng: np.random.Generator, names: list[str], category_n: NDArray[np.int64], files: tuple[list[str], list[str]]
) -> pd.DataFrame:
    n, n_known = len(category_n), len(names) // N_KNOWN_OF
    category = np.array(names, dtype=object)[category_n]
    is_known, confidence = category_n < n_known, rng.beta(4, 2, n).round(4)
    is_labelled = is_known & (rng.random(n) < LABELLED)
    status = np.where(is_known, "known", np.where(rng.random(n) < UNSURE, "unsure", "new"))
    return pd.DataFrame(
        {
            "file_name": files[0], "image_id": files[1],
            "label_given": pd.Series(np.where(is_labelled, category, None), dtype="object"),
            "category": category, "label": category, "status": status, "confidence": confidence, "novelty": 0.5,
            "alt_1": np.array(names, dtype=object)[rng.integers(0, len(names), n)],
            "alt_1_p": ((1 - confidence) / 2).round(4), "possible_label_error": False, "split": None, "group": None,
        }
    )  # fmt: skip
