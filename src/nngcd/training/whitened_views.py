"""Whitened features, learnt from the images at hand; frozen ones are so few that the kept views stay in memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.whitened import WhitenedFeatures, whitened, whitening_part
from nngcd.clustering.whitening import whitening
from nngcd.training.bank import Bank, MemoryBank
from nngcd.training.model import move

IMAGES_PER_BLOCK = 1024
"""Images of which one view is whitened at a time; a quarter, four and sixteen times as many were slower."""


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
    if bank is None or features in result.tail.modules():
        return result, bank
    return result, _mapped(bank, features, n)


def _mapped(bank: Bank, features: WhitenedFeatures, n_images: int) -> MemoryBank:
    """Return all views whitened: many fewer numbers than the bank's, of which a block of images is read at a time."""
    n_directions = features.map_de.shape[1]
    white_nve = features.map_de.new_empty(n_images, bank.n_views, n_directions)
    for image_b in torch.split(torch.arange(n_images), IMAGES_PER_BLOCK):
        for view in range(bank.n_views):
            hidden_bd = bank.take(image_b, torch.full_like(image_b, view)).to(white_nve.device)
            white_nve[image_b, view] = features.whiten(hidden_bd)
    return MemoryBank(white_nve)
