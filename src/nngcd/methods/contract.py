"""The interface of a method: settings, modules, loss and assignment; nothing about optimisers or devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.clustering.label_check import LabelCheck
from nngcd.views.loading import balanced_batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The facts that a method is created with."""

    n_features: int
    n_clusters: int
    """K, the number of old and new categories together."""
    n_old: int
    """The number of labelled categories; cluster k < n_old is old class k."""
    k_range: tuple[int, int] | None = None
    """The fewest and most clusters after splits and merges; None: their number is fixed."""
    generator: torch.Generator
    """The only source of randomness for initial weights; clustering draws from `Overview.seed`."""
    sparse_weights: tuple[Tensor, ...] = ()
    """The weights of the backbone's tail for a sparse regulariser; gains of norm layers have one axis."""


class Moment(NamedTuple):
    """A point in training."""

    epoch: int
    n_epochs: int
    step: int
    """Counted over the whole run, from 0."""
    n_steps: int


class Batch(NamedTuple):
    """One training step's images: V views each, as features of the trained tail."""

    features_vbd: Tensor
    labels_b: Tensor
    """-1 for unlabelled images."""
    moment: Moment
    image_b: Tensor
    """The index of each image, as in `Overview`."""
    teacher_features_vbd: Tensor | None = None
    """The same views as features of the averaged tail, for methods that use one (`averages_tail`)."""


class Overview(NamedTuple):
    """All images, each as the feature of its centre view; passed to a method between epochs."""

    features_nd: Tensor
    labels_n: Tensor
    """-1 for unlabelled images."""
    epoch: int
    """Epochs done."""
    seed: int
    """Seed for this look; it depends only on run and epoch, so a resumed run draws the same numbers."""
    plain_nd: Tensor | None = None
    """Features of the pre-trained network, which no label has changed; to count labelled images (`split_epochs`)."""


class KnownSplit(NamedTuple):
    """A known cluster that was split in training because a part of it held too few labelled images."""

    cluster: int
    epoch: int
    """Epochs done by then."""
    n_part: int
    """Images of the part."""
    n_images: int
    """Images of the whole cluster."""
    n_labelled_in_part: int
    n_labelled: int
    """Labelled images of the category."""
    p_value: float
    """The probability of so few labelled images if the part belonged to the category."""


class NewSplit(NamedTuple):
    """A new cluster that was split in training because it held two categories."""

    epoch: int
    """Epochs done by then."""
    n_part: int
    """Images of the part that left it."""
    n_images: int
    """Images of the whole cluster."""
    gain: float
    """The gain of two centres over one (Ward's criterion)."""
    limit: float
    """The largest gain for parts of one category."""


class ClusterMerge(NamedTuple):
    """Two new clusters that were merged in training."""

    epoch: int
    """Epochs done by then."""
    n_kept: int
    """Images of the larger one."""
    n_freed: int
    """Images of the other."""
    cost: float
    """The cost of one centre instead of two (Ward's criterion)."""
    limit: float
    """The largest cost of merging two clusters of one category."""


class MovedImage(NamedTuple):
    """An image that a split or a merge moved to another cluster."""

    move: Literal["split", "new split", "merge"]
    n: int
    """The index of that move, counted from 0."""
    image: int
    """As in `Overview`."""


class BaseMethod(nn.Module):
    """The base class of all methods. A new method is one file that defines `Config` and `Method(BaseMethod)`."""

    trains: ClassVar[bool] = True
    """False for methods that only cluster; `settle` is then called without training."""
    averages_tail: bool = False
    """True if the teacher is a whole network. Training then keeps a moving average of the backbone's tail, passes its
    features with every batch, and makes it the result."""
    cuts_network: ClassVar[bool] = False
    """True for a method that trains in the otherwise frozen part of the network, for example prompts. It then uses its
    `own_cut` for every effort, and needs images, not features."""
    without_search: ClassVar[str] = ""
    """For a method that searches known clusters: the setting that turns the search off."""
    remembers: tuple[str, ...] = ()
    """Names of buffers whose size depends on the data and that later epochs need, for example facts about every image
    from a look before training. Checkpoints keep them for resumed runs; models do not (`persistent=False`)."""

    def __init__(self, config: Any, task: Task) -> None:  # noqa: ANN401 (each method has its own Config)
        super().__init__()
        self.config = config
        self.task = task

    @classmethod
    def own_cut(cls, backbone: Backbone, config: Any, generator: torch.Generator) -> Backbone:  # noqa: ANN401
        """Return the network with the method's own cut (see `cuts_network`).

        Args:
            backbone: the network with the cut of the effort.
            config: the method's settings.
            generator: the source of randomness for added parts.
        """
        raise NotImplementedError

    @classmethod
    def check_machine(cls) -> None:
        """Raise `ResourceError` if training needs a package that is not installed. Default: do nothing."""

    @classmethod
    def starts_from(cls, config: Any) -> str | None:  # noqa: ANN401 (each method has its own Config)
        """Return the method whose trained run this one must start from (`init_from`). Default: None."""
        return None

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the epochs of an epoch's stage; the learning rate decays once per stage. Default: one stage."""
        return range(n_epochs)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether to call `look` before this epoch, which costs a pass over all images. Default: never."""
        return False

    def look(self, overview: Overview) -> None:
        """Use all images between epochs, for example to place prototypes or to group images. Default: do nothing."""

    def draw(
        self, labels: NDArray[np.int64], batch_size: int, generator: torch.Generator, *, drop_last: bool = True
    ) -> Sequence[Tensor]:
        """Return the images of each batch of an epoch; all epochs have equally many. Default: half of them labelled."""
        return balanced_batches(labels, batch_size, generator, drop_last=drop_last)

    def arrange(self, hidden_vb: Tensor, moment: Moment) -> Tensor:
        """Return the hidden states (V, B, ...) for the tail in training. Default: all views unchanged."""
        return hidden_vb

    def paced(self, tail: nn.Module) -> list[nn.Parameter]:
        """Return the tail's parameters with their own learning rate (see `pace`) and no weight decay. Default: none."""
        return []

    def pace(self, moment: Moment) -> float:
        """Return the learning rate of the `paced` parameters in a step, as a fraction of its start."""
        raise NotImplementedError

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted terms of the loss by name; training sums, logs and plots them."""
        raise NotImplementedError

    def before_step(self, tail: nn.Module, moment: Moment) -> None:
        """Change gradients before an optimiser step; parameters without one are not updated. Default: do nothing."""

    def after_step(self, moment: Moment) -> None:
        """Update after an optimiser step, for example move a teacher. Default: do nothing."""

    def teacher_momentum(self, moment: Moment) -> float:
        """Return the momentum of the averaged tail after this step (see `averages_tail`)."""
        raise NotImplementedError

    def settle(self, overview: Overview) -> Tensor | None:
        """Use all images after training; clustering methods find their centres here. Default: do nothing.

        Returns:
            None, or cluster_n if the clusters of images do not follow from `assign` alone.
        """
        return None

    def known_splits(self) -> list[KnownSplit]:
        """Return the known clusters split in training, in order. Default: none."""
        return []

    def new_splits(self) -> list[NewSplit]:
        """Return the new clusters split in training, in order. Default: none."""
        return []

    def cluster_merges(self) -> list[ClusterMerge]:
        """Return the new clusters merged in training, in order. Default: none."""
        return []

    def moved_images(self) -> list[MovedImage]:
        """Return the images that splits and merges moved to another cluster. Default: none."""
        return []

    def label_check(self) -> LabelCheck | None:
        """Return what a search found about the labels; None without a search. Default: None."""
        return None

    @property
    def n_clusters(self) -> int:
        """The number of clusters; splits and merges may have changed it."""
        return self.task.n_clusters

    def trim(self) -> None:
        """Free the room for clusters that were never added; called after training. Default: do nothing."""

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores_nk: their softmax gives the probability of each cluster, their arg max the assignment."""
        raise NotImplementedError
