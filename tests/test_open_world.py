"""A folder with new categories that look like known ones: is every line that a user is told true?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

KNOWN = ("one", "three", "five", "seven")
NEW = ("two", "eight", "nine")
"""A two looks like a seven, an eight like a three, a nine like a five."""
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
N_EACH = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with half of the known digits labelled, and the true label of every file."""
    root, digits, rows = tmp_path_factory.mktemp("open-world"), load_digits(), []
    for name in (*KNOWN, *NEW):
        images = digits.images[digits.target == NAMES.index(name)][:N_EACH]
        for i, image in enumerate(images):
            is_labelled = name in KNOWN and i % 2 == 0
            path = Path(name if is_labelled else "_unlabelled") / f"{name}-{i:02d}.png"
            (root / "digits" / path).parent.mkdir(parents=True, exist_ok=True)
            pixels = Image.fromarray((255 - image * 15.9375).astype(np.uint8))
            pixels.resize((32, 32), Image.Resampling.BICUBIC).save(root / "digits" / path)
            rows.append((path.as_posix(), name))
    pd.DataFrame(rows, columns=["file_name", "label"]).to_csv(root / "truth.csv", index=False)
    return root


def shares(line):
    """Return the percentages of a line."""
    return [int(number) / 100 for number in re.findall(r"(\d+)%", line)]


@pytest.mark.slow
def test_every_line_is_true_where_new_categories_look_like_known_ones(nngcd, folder):
    run = folder / "run"
    code, out, err = nngcd("fit", folder / "digits", "--k", 7, "--image-size", 112, "--out", run, "--quiet")
    assert code == 0, err
    results = pd.read_csv(run / "results.csv")
    truth = pd.read_csv(folder / "truth.csv").set_index("file_name")["label"]
    free = results[results["label_given"].isna()].assign(truth=lambda table: table["file_name"].map(truth))
    lines = out.splitlines()

    known = free[free["status"] == "known"]
    said = next(line for line in lines if "look like one of your 4 known categories" in line)
    expected, low, high = shares(said)
    assert said.split()[0] == str(len(known))
    assert expected == pytest.approx(known["confidence"].mean(), abs=0.006)
    assert low <= (known["category"] == known["truth"]).mean() <= high

    new = free[free["status"] == "new"]
    main = new.groupby("category")["truth"].agg(lambda names: names.mode().iloc[0])
    said = next(line for line in lines if "new categor" in line and "fall into" in line)
    expected, low, high = shares(said)
    assert low <= (new["category"].map(main) == new["truth"]).mean() <= high

    held_back = next(line for line in lines if line.startswith("Accuracy on images of known categories"))
    split = pd.read_csv(run / "data" / "split.csv")
    assert f"of {split['held_back'].sum()} held-back labels" in held_back
    for line in (line for line in lines if "may hide another category" in line):
        name, n_group = re.match(r"'(\w+)' may hide another category: (\d+) of its", line).groups()
        group = free[(free["category"] == name) & (free["confidence"] < 0.4)]
        assert len(group) == int(n_group)
        assert (group["truth"] != name).mean() > 0.5

    code, out, _ = nngcd("evaluate", run, "--truth", folder / "truth.csv", "--json")
    found = json.loads(out)["confidence"]
    called = free[free["category"].isin(KNOWN)]
    assert found["known"]["n"] == len(called)
    assert found["known"]["right"] == pytest.approx((called["category"] == called["truth"]).mean(), abs=1e-4)
    assert found["known"]["stated"] == pytest.approx(called["confidence"].mean(), abs=1e-4)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert held_back in page
