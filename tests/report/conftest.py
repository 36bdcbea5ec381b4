from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nngcd.data.image_arrays import ImageArrays
from nngcd.data.split import image_table
from nngcd.report.findings import Findings
from nngcd.results.images import Pictures

EVIL = "<script>window.hacked = true</script>"
LONG = "a_name_without_a_single_space_" * 4
COLOURS = ((190, 60, 50), (60, 140, 70), (60, 80, 180), (200, 160, 40))
SUMMARY = {"method": "nngcd", "preset": "default", "effort": "quick", "backbone": "efficientnet_lite0", "seed": 0,
           "k": 4, "k_estimate": None}  # fmt: skip


@pytest.fixture
def findings() -> Findings:
    """Two known and two new categories of 12, 10, 8 and 6 images; one known name is a script, one is very long."""
    rng = np.random.default_rng(0)
    category_n = np.repeat(np.arange(4), (12, 10, 8, 6))
    n, ids = len(category_n), [EVIL, LONG, "new-001", "new-002"]
    features_nd = np.eye(4)[category_n] + 0.1 * rng.normal(size=(n, 4))
    pixels = np.array(COLOURS)[category_n][:, None, None] + rng.integers(-40, 40, size=(n, 24, 32, 3))
    images = ImageArrays(np.clip(pixels, 0, 255).astype(np.uint8))
    table = image_table([f"{EVIL}/{i}.png" for i in range(n)], [images.fingerprint(i) for i in range(n)])
    is_labelled = (category_n < 2) & (np.arange(n) % 2 == 0)
    names = np.array(ids, dtype=object)[category_n]
    results = pd.DataFrame(
        {
            "file_name": table["file_name"],
            "image_id": table["image_id"],
            "label_given": np.where(is_labelled, names, None),
            "category": names,
            "label": names,
            "status": np.where(category_n < 2, "known", "new"),
            "confidence": rng.random(n).round(3),
            "novelty": 0.5,
            "alt_1": names[::-1],
            "alt_1_p": 0.1,
            "possible_label_error": False,
        }
    )
    categories = pd.DataFrame({"id": ids, "name": ids, "kind": ["known", "known", "new", "new"]})
    return Findings(
        title=f"run {EVIL}",
        results=results,
        categories=categories,
        features_nd=features_nd.astype(np.float32),
        pictures=Pictures(images),
        summary=SUMMARY,
        epochs=[{"epoch": e, "loss": 3.0 - e, "contrast": 2.0 - e, "learning_rate": 0.1} for e in range(3)],
        problems=pd.DataFrame({"file_name": [f"{EVIL}.jpg"], "code": ["D03"], "reason": ["truncated"]}),
        settings={"data": EVIL, "dataset": None, "training": {"epochs": 3}},
        environment={"versions": {"nngcd": "0.1.0"}, "command": ["/somewhere/nngcd", "fit", EVIL]},
    )
