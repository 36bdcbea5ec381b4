"""Surroundings of an image in its known cluster: how many of the images around it carry the cluster's label.

If some images of a category are labelled, every place where the category's images are has about the same share of
labelled ones. A place in its cluster with hardly any is of another category, which looks alike and was swallowed
(docs/paper/theory.md). This needs no label of an unlabelled image.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.core.files import write_tensors
from nngcd.core.verified_files import damaged_file, read_tensors

FILE = "surroundings.safetensors"
REACH = 0.2
"""Images count by exp(cosine / reach): of 0.02 to 0.2 the largest told swallowed images from others best."""
PRIOR_IMAGES = 2.0
"""Weight of the whole cluster's share, counted in images around one image."""
MOST_IMAGES, MOST_PER_CLUSTER = 50_000, 1000
"""Of more images a random part is kept, labelled and unlabelled alike."""
SAME = 1 - 1e-5
"""A cosine above this is that of an image with itself: half precision is good for 1e-6."""
EXTREME = 0.01
"""Shares are kept this far from 0 and 1, whose log odds are infinite."""


@dataclass(frozen=True, eq=False, slots=True)
class Surroundings:
    """The images of the known clusters, as training left them."""

    unit_md: Tensor
    """Their features, of length 1, in half precision."""
    cluster_m: Tensor
    is_labelled_m: Tensor
    """Whether training knew the label."""
    share_k: Tensor
    """The labelled share of each known cluster as a whole."""
    share: Tensor
    """The labelled share of all known clusters together."""

    @classmethod
    def of(
        cls, features_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, *, n_old: int, generator: torch.Generator
    ) -> Surroundings:
        """Return the surroundings of a run.

        Args:
            features_nd: learned features.
            cluster_n: the cluster of each image; a labelled one is in that of its label, whatever is said here.
            labels_n: what training knew, -1 for unlabelled.
            n_old: clusters below this are known.
            generator: draws which images are kept where there are many.
        """
        is_labelled_n = labels_n >= 0
        own_n = torch.where(is_labelled_n, labels_n, cluster_n)
        n_k = own_n.bincount(minlength=n_old)[:n_old].float()
        n_labelled_k = labels_n[is_labelled_n].bincount(minlength=n_old).float()
        most = max(20, min(MOST_PER_CLUSTER, MOST_IMAGES // max(n_old, 1)))
        row_m = _at_most(own_n, n_old, most, generator)
        return cls(
            unit_md=_unit(features_nd[row_m]).half(),
            cluster_m=own_n[row_m],
            is_labelled_m=is_labelled_n[row_m],
            share_k=(n_labelled_k + 0.5) / (n_k + 1),
            share=((n_labelled_k.sum() + 0.5) / (n_k.sum() + 1)).reshape(1),
        )

    def evidence(self, features_bd: Tensor, cluster_b: Tensor) -> Tensor:
        """Return by how much the labelled share around each image is above that of all known clusters, in log odds.

        Args:
            features_bd: learned features.
            cluster_b: a known cluster for each image.
        """
        unit_bd = _unit(features_bd)
        share_b = self.share_k[cluster_b]
        for cluster in sorted(set(cluster_b.tolist())):
            at, kept = (cluster_b == cluster).nonzero().flatten(), (self.cluster_m == cluster).nonzero().flatten()
            cosine_at_m = unit_bd[at] @ _unit(self.unit_md[kept]).T
            # No image is among its own surroundings, whether it was one of the run or comes again.
            cosine_at_m.masked_fill_(cosine_at_m > SAME, -torch.inf)
            share_b[at] = _local_share(cosine_at_m, self.is_labelled_m[kept], share_b[at])
        return _log_odds(share_b) - _log_odds(self.share)

    def save(self, folder: Path) -> None:
        """Write it into the folder of a model."""
        write_tensors(folder / FILE, {name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def load(cls, folder: Path) -> Surroundings:
        """Return what `save` wrote."""
        path = folder / FILE
        tensors, _ = read_tensors(path)
        if tensors.keys() != set(cls.__slots__):
            raise damaged_file(path, f"it holds {', '.join(sorted(tensors)) or 'nothing'}")
        found = cls(**tensors)
        if reason := found._what_is_wrong():
            raise damaged_file(path, reason)
        return found

    def _what_is_wrong(self) -> str | None:
        """Return what cannot be about values that were read from a file."""
        lengths = {len(tensor) for tensor in (self.unit_md, self.cluster_m, self.is_labelled_m)}
        if len(lengths) > 1 or self.unit_md.ndim != 2 or self.share_k.ndim != 1 or self.share.shape != (1,):
            return "its tensors do not match each other"
        if self.cluster_m.dtype != torch.int64 or self.is_labelled_m.dtype != torch.bool:
            return "a tensor is of the wrong type"
        if len(self.cluster_m) and not 0 <= int(self.cluster_m.min()) <= int(self.cluster_m.max()) < len(self.share_k):
            return "an image is in a cluster that does not exist"
        return None if all(bool(t.isfinite().all()) for t in (self.unit_md, self.share_k, self.share)) else "not finite"


def _local_share(cosine_bm: Tensor, is_labelled_m: Tensor, prior_b: Tensor) -> Tensor:
    """Return the labelled share around each image, drawn towards that of its cluster where few images are near."""
    if cosine_bm.shape[1] == 0:
        return prior_b
    nearest_b1 = cosine_bm.max(-1, keepdim=True).values.clamp(min=-1)
    weight_bm = ((cosine_bm - nearest_b1) / REACH).exp()
    total_b = weight_bm.sum(-1).clamp(min=1e-9)
    n_near_b = total_b.square() / weight_bm.square().sum(-1).clamp(min=1e-9)
    share_b = (weight_bm * is_labelled_m).sum(-1) / total_b
    return (share_b * n_near_b + prior_b * PRIOR_IMAGES) / (n_near_b + PRIOR_IMAGES)


def _unit(features_bd: Tensor) -> Tensor:
    """Return features of length 1, rounded as they are kept, so that an image that comes again has the same ones."""
    rounded_bd = F.normalize(features_bd.float(), dim=-1).half().float()
    return F.normalize(rounded_bd, dim=-1)


def _log_odds(share: Tensor) -> Tensor:
    return share.clamp(EXTREME, 1 - EXTREME).logit()


def _at_most(cluster_n: Tensor, n_clusters: int, most: int, generator: torch.Generator) -> Tensor:
    """Return the rows of the first clusters' images, of each cluster at most so many, drawn at random, in order."""
    shuffled_n = torch.randperm(len(cluster_n), generator=generator)
    order_n = shuffled_n[cluster_n[shuffled_n].argsort(stable=True)]
    sizes = cluster_n.bincount(minlength=n_clusters).tolist()
    kept = [rows[:most] for rows in torch.split(order_n, sizes)[:n_clusters]]
    return torch.cat(kept).sort().values if kept else order_n[:0]
