"""Neighbour consistency: an image learns the predictions of its nearest neighbours."""

from __future__ import annotations

from torch import Tensor


def neighbour_cross_entropy(
    student_logits_vbk: Tensor,
    neighbour_logits_bmk: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
) -> Tensor:
    """Return the cross-entropy of each view with the mean of the sharpened predictions of the image's neighbours.

    Views of one image teach what does not matter about a photograph; neighbours also what does not matter about an
    individual. SCAN (Van Gansbeke et al. 2020) asks image and neighbour to agree; here the neighbours teach, as views
    do in `cross_view_distillation`, and no gradient flows into them.

    Args:
        student_logits_vbk: cosines to the prototypes, before the temperature; these learn.
        neighbour_logits_bmk: the teacher's cosines for the m neighbours of each image.
        student_temperature: of the predictions that learn.
        teacher_temperature: of the neighbours' predictions.
    """
    n_views, n_images, _ = student_logits_vbk.shape
    if neighbour_logits_bmk.shape[0] != n_images or neighbour_logits_bmk.shape[-1] != student_logits_vbk.shape[-1]:
        shapes = f"{tuple(student_logits_vbk.shape)} and {tuple(neighbour_logits_bmk.shape)}"
        raise ValueError(f"views and neighbours must belong to the same images and clusters, got shapes {shapes}")
    if not neighbour_logits_bmk.shape[1]:  # there is one image only, or hardly more than clusters
        return student_logits_vbk.sum() * 0
    target_bk = (neighbour_logits_bmk.detach() / teacher_temperature).softmax(-1).mean(1)
    logp_vbk = (student_logits_vbk / student_temperature).log_softmax(-1)
    return -(target_bk * logp_vbk).sum() / max(n_views * n_images, 1)
