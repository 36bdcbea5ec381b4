"""DCCL's concepts: their start, their moves, and their images in a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def mean_concepts(features_nd: Tensor, concept_n: Tensor, n_concepts: int) -> Tensor:
    """Return concepts_cd: the direction of the mean of each concept's features, long ones counting more.

    Args:
        features_nd: features as the network gives them.
        concept_n: the concept of each image, -1 for those in none.
        n_concepts: C.
    """
    is_in_one_n = concept_n >= 0
    sum_cd = features_nd.new_zeros(n_concepts, features_nd.shape[1])
    sum_cd.index_add_(0, concept_n[is_in_one_n], features_nd[is_in_one_n])
    return F.normalize(sum_cd, dim=-1)


def moved_concepts(concepts_cd: Tensor, unit_vbd: Tensor, concept_b: Tensor, *, momentum: float) -> Tensor:
    """Return the concepts, normalised again: one with images keeps `momentum` of itself, and the rest is their mean.

    Args:
        concepts_cd: directions of the concepts.
        unit_vbd: directions of the images.
        concept_b: the concept of each image, -1 for those in none.
        momentum: share that a concept keeps of itself.
    """
    is_in_one = concept_b >= 0
    mean_bd, concept_b = unit_vbd[:, is_in_one].mean(0), concept_b[is_in_one]
    n_images_c1 = concept_b.bincount(minlength=len(concepts_cd))[:, None]
    mean_cd = torch.zeros_like(concepts_cd).index_add_(0, concept_b, mean_bd) / n_images_c1.clamp_min(1)
    moved_cd = F.normalize(momentum * concepts_cd + (1 - momentum) * mean_cd, dim=-1)
    return torch.where(n_images_c1 > 0, moved_cd, concepts_cd)


def moved_in_turn(concepts_cd: Tensor, unit_vbd: Tensor, concept_b: Tensor, *, momentum: float) -> Tensor:
    """Return the concepts after a move by each image, view after view: the last one counts most, as in DCCL's code."""
    moved_cd, concepts = concepts_cd.clone(), concept_b.tolist()
    for unit_bd in unit_vbd:
        for unit_d, concept in zip(unit_bd, concepts, strict=True):
            if concept >= 0:
                moved_cd[concept] = F.normalize(momentum * moved_cd[concept] + (1 - momentum) * unit_d, dim=-1)
    return moved_cd


def images_of_concepts(concept_n: Tensor, n_each: int, generator: torch.Generator) -> Tensor:
    """Return `n_each` images of every concept, concept after concept in random order.

    As in DCCL's sampler: one image at random, then others of the concept, which repeat themselves only where there are
    fewer than `n_each`.
    """
    order = concept_n.argsort(stable=True)
    sizes = concept_n[concept_n >= 0].bincount()
    images = torch.split(order[int((concept_n < 0).sum()) :], sizes.tolist())
    drawn = [order[:0]]
    for concept in torch.randperm(len(sizes), generator=generator).tolist():
        # In random order; the first one is the image that the others accompany.
        first, others = images[concept][torch.randperm(int(sizes[concept]), generator=generator)].split(
            [1, int(sizes[concept]) - 1]
        )
        if 0 < len(others) < n_each:
            others = others[torch.randint(len(others), (n_each - 1,), generator=generator)]
        drawn += [first, others[: n_each - 1]]
    return torch.cat(drawn)
