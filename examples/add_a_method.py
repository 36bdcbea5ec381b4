"""Try a method of your own: one file, found by its name.

    python examples/add_a_method.py

The method is examples/methods/nearest_mean.py. Copied into src/nngcd/methods/, it also works on the command line:
`nngcd fit digits --method nearest_mean`. Your own file starts as a copy of it under another name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer
from sklearn.datasets import load_digits

import nngcd.methods

nngcd.methods.__path__.append(str(Path(__file__).parent / "methods"))  # only because the file is not in the package


def main(method: str = "nearest_mean", far_share: float = 0.5) -> None:
    """Sort features of scikit-learn's digits with METHOD and count how many images of known digits are right."""
    pixels, digits = load_digits(return_X_y=True)
    is_labelled = (digits < 5) & (np.arange(len(digits)) % 2 == 0)
    y = np.where(is_labelled, digits, -1)  # half of the digits 0 to 4 have labels, 5 to 9 have none

    settings = {"loss": {"far_share": far_share}} if method == "nearest_mean" else None
    discovery = nngcd.CategoryDiscovery(n_categories=10, method=method, settings=settings).fit(pixels, y)

    asked = (digits < 5) & ~is_labelled
    is_right = discovery.labels_[asked] == digits[asked]
    print(discovery.categories_[["name", "kind", "size", "labelled"]])
    print(f"{method}: {is_right.mean():.1%} of the unlabelled images of known digits are right")


if __name__ == "__main__":
    typer.run(main)
