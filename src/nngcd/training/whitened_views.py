"""Whitened features, learnt from the images at hand; frozen ones are so few that the kept views stay in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.whitened import whitened, whitening_part
from nngcd.clustering.whitening import whitening
from nngcd.training.bank import Bank, mapped_views
from nngcd.training.model import move


def whitened_views(
    backbone: Backbone, bank: Bank | None, features_nd: Tensor, labels: NDArray[np.int64], n_directions: int
) -> tuple[Backbone, Bank | None]:
    """Return the backbone that gives whitened features, and the views as it sees them, if there are kept ones.

    Args:
        backbone: whose features these are.
        bank: the views as the backbone's trunk sees them; None when they are drawn online.
        features_nd: features of the centre views of all images.
        labels: of all images, -1 for unlabelled.
        n_directions: how many features there will be, if the images have as many directions.
    """
    n, n_features = features_nd.shape
    n_directions = min(n_directions, n, n_features)
    mean_d, map_de = whitening(features_nd.cpu(), labels, n_directions)
    result = whitened(backbone, n_directions)
    features = whitening_part(result)
    features.mean_d, features.map_de = mean_d.float(), map_de.float()
    move(result, features_nd.device, backbone.trunk.precision)
    if (compiled := backbone.trunk.compiled) is not None:
        result.trunk.compiled = compiled.around(result.trunk.network)
    if bank is None or features in result.tail.modules():
        return result, bank
    return result, mapped_views(bank, n, lambda hidden_bd: features.whiten(hidden_bd.to(features.map_de.device)))
