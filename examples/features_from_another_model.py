"""Sort features that another model computed: any array X with one row per image, and labels y with -1 for unlabelled.

    python examples/features_from_another_model.py

The features here are principal components of scikit-learn's digits. Put the output of your own network in their place.
"""

from __future__ import annotations

import numpy as np
import typer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from nngcd import CategoryDiscovery


def main(n_images: int = 1500) -> None:
    """Sort the features of N_IMAGES images, then predict the others."""
    pixels, digits = load_digits(return_X_y=True)
    X = PCA(32, random_state=0).fit_transform(pixels)  # (1797, 32): replace it with your features

    is_labelled = (digits < 5) & (np.arange(len(digits)) % 2 == 0)
    y = np.where(is_labelled, digits, -1)  # half of the digits 0 to 4 have labels, 5 to 9 have none

    discovery = CategoryDiscovery(n_categories=10).fit(X[:n_images], y[:n_images])
    print(discovery.categories_[["name", "kind", "size", "labelled"]])

    later = X[n_images:]  # rows that the fit has not seen
    print("predicted:", discovery.classes_[discovery.predict(later)][:8])
    print("in truth: ", digits[n_images:][:8])
    print("novelty:  ", discovery.novelty_score(later)[:8].round(2))  # probability of being none of 0 to 4


if __name__ == "__main__":
    typer.run(main)
