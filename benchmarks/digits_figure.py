"""Draw what a run on the digits found: one row of images per category.

nngcd demo && python benchmarks/digits_figure.py nngcd-demo/nngcd-seed0 docs/images/digits.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from nngcd.datasets.opening import open_dataset

N_PER_ROW = 24
INK = {"known": "#20639b", "new": "#c1502e"}


def main(run: Path, picture: Path) -> None:
    """Write the picture: the most confident unlabelled images of each category, known categories first."""
    split, _ = open_dataset("digits")
    results = pd.read_parquet(run / "results.parquet")
    results["row"] = np.arange(len(results))
    unlabelled = results[results["label_given"].isna()]
    rows = list(unlabelled.sort_values("confidence", ascending=False).groupby(["status", "category"]))
    figure, axes = plt.subplots(len(rows), N_PER_ROW, figsize=(9, 4.2), dpi=130)
    for ((status, category), members), line in zip(rows, axes, strict=True):
        # Spread over the ranks, so that the picture also shows the doubtful ones.
        shown = members["row"].to_numpy()[np.linspace(0, len(members) - 1, N_PER_ROW).astype(int)]
        for i, axis in zip(shown, line, strict=True):
            axis.imshow(255 - np.asarray(split.images.open(i).convert("L")), cmap="gray")
            axis.set_xticks([])
            axis.set_yticks([])
            for spine in axis.spines.values():
                spine.set_visible(False)
        title = f"known  {category}" if status == "known" else category
        line[0].set_ylabel(f"{title}   {len(members)}", rotation=0, ha="right", va="center", color=INK[status])
    figure.subplots_adjust(left=0.16, right=0.995, top=0.93, bottom=0.01, wspace=0.05, hspace=0.05)
    figure.suptitle("1,347 unlabelled digits, from the surest (left) to the most doubtful (right)", fontsize=9)
    figure.savefig(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
