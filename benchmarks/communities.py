"""How well communities of the neighbour graph agree with labels, by the least similarity of linked images (DCCL).

Only labelled images decide: half of them are given with their labels, and the agreement (adjusted mutual information)
is that of the other half, whose labels the communities have not seen. An image in no community is one of its own.

python benchmarks/communities.py digits --cache runs/.nngcd-cache
python benchmarks/communities.py ../shared/data/cub --dataset cub --cache runs/.nngcd-cache
"""

from __future__ import annotations

from statistics import mean

import numpy as np
import torch
from sklearn.metrics import adjusted_mutual_info_score

from frozen_features import data_parser, frozen_features
from nngcd.clustering.communities import link_communities, nearest_with_cosines, neighbour_links

SIMILARITIES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)


def main() -> None:
    """Print one line per similarity."""
    parser = data_parser(__doc__)
    parser.add_argument("--draws", type=int, default=4)
    arguments = parser.parse_args()
    split, _, features_nd = frozen_features(arguments)
    nearest, labels, n = nearest_with_cosines(features_nd, 15), split.labels, len(split.labels)
    rng = np.random.default_rng(0)
    is_given_rn = [(labels >= 0) & (rng.random(n) < 0.5) for _ in range(arguments.draws)]
    print("| least similarity | communities | images in none | agreement |\n|---|---|---|---|")
    for similarity in SIMILARITIES:
        found = []
        for draw, is_given_n in enumerate(is_given_rn):
            given_n = torch.from_numpy(np.where(is_given_n, labels, -1))
            links = neighbour_links(nearest, given_n, min_similarity=similarity)
            community_n = link_communities(links, n, seed=draw)
            is_judged_n, own_n = (labels >= 0) & ~is_given_n, np.where(community_n < 0, -1 - np.arange(n), community_n)
            agreement = adjusted_mutual_info_score(labels[is_judged_n], own_n[is_judged_n])
            found.append((community_n.max() + 1, (community_n < 0).mean(), agreement))
        number, share, agreement = (mean(map(float, values)) for values in zip(*found, strict=True))
        print(f"| {similarity} | {number:.0f} | {share:.0%} | {agreement:.3f} |", flush=True)


if __name__ == "__main__":
    main()
