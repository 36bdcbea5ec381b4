"""What a method is: its settings, its modules, its loss and its assignment; nothing about optimisers or devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.loading import balanced_batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What a method is told when it is made."""

    n_features: int
    n_clusters: int
    """K: old and new categories together."""
    n_old: int
    """How many categories have labels; cluster k < n_old is old class k."""
    k_range: tuple[int, int] | None = None
    """Fewest and most clusters that a method may end with which splits and merges them; None: their number stays."""
    generator: torch.Generator
    """The only source of randomness for initial weights; clustering draws from `Overview.seed`."""
    sparse_weights: tuple[Tensor, ...] = ()
    """The weights of the backbone's tail that a sparse regulariser may touch; gains of norm layers have one axis."""


class Moment(NamedTuple):
    """How far training is."""

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
    """Which images they are, counted as in `Overview`."""
    teacher_features_vbd: Tensor | None = None
    """The same views as features of the averaged tail, for methods that ask for one (`averages_tail`)."""


class Overview(NamedTuple):
    """All images at once, each as the feature of its centre view: what a method sees between epochs."""

    features_nd: Tensor
    labels_n: Tensor
    """-1 for unlabelled images."""
    epoch: int
    """Epochs done."""
    seed: int
    """For what is random in this look; it depends on run and epoch only, so that a resumed run draws the same."""
    plain_nd: Tensor | None = None
    """The images as features that no label has touched, for methods that count labelled images (`split_epochs`)."""


class KnownSplit(NamedTuple):
    """A known cluster that a method split in training, because a part of it held too few labelled images."""

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
    """How likely so few labelled images were if the part belonged to the category."""


class NewSplit(NamedTuple):
    """A new cluster that a method split in training, because it was two things."""

    epoch: int
    """Epochs done by then."""
    n_part: int
    """Images of the part that left it."""
    n_images: int
    """Images of the whole cluster."""
    gain: float
    """By how much its images are nearer to two centres than to one (Ward's criterion)."""
    limit: float
    """What parts of one category gain at most."""


class ClusterMerge(NamedTuple):
    """Two new clusters that a method made one in training."""

    epoch: int
    """Epochs done by then."""
    n_kept: int
    """Images of the larger one."""
    n_freed: int
    """Images of the other."""
    cost: float
    """By how much their images are further from one centre than from two (Ward's criterion)."""
    limit: float
    """What the merge of two clusters that are one thing costs at most."""


class BaseMethod(nn.Module):
    """A way to put images into categories. A new method is one file that defines `Config` and `Method(BaseMethod)`."""

    trains: ClassVar[bool] = True
    """False for methods that only cluster: they are `settle`d without any training."""
    averages_tail: bool = False
    """True for a teacher that is a whole network: training then keeps a moving average of the backbone's tail, passes
    its features with every batch, and leaves it as the result."""
    cuts_network: ClassVar[bool] = False
    """True for a method that learns in the part of the network which is otherwise frozen, for example prompts. In every
    effort it then makes its `own_cut`; it needs images, not features."""
    remembers: tuple[str, ...] = ()
    """Names of buffers that later epochs need and whose size the data decide, for example what a look before training
    found of every image. A checkpoint keeps them for a resumed run; a model does without: `persistent=False`."""

    def __init__(self, config: Any, task: Task) -> None:  # noqa: ANN401 (each method has its own Config)
        super().__init__()
        self.config = config
        self.task = task

    @classmethod
    def own_cut(cls, backbone: Backbone, config: Any, generator: torch.Generator) -> Backbone:  # noqa: ANN401
        """Return the network cut the method's own way (see `cuts_network`).

        Args:
            backbone: the network, cut as the effort says.
            config: the method's settings.
            generator: the source of randomness for what is added.
        """
        raise NotImplementedError

    @classmethod
    def check_machine(cls) -> None:
        """Raise `ResourceError` where training needs a package that is not installed. Default: nothing is needed."""

    @classmethod
    def starts_from(cls, config: Any) -> str | None:  # noqa: ANN401 (each method has its own Config)
        """Return the method whose trained run this one must begin with (`init_from`). Default: None, it needs none."""
        return None

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the epochs of the stage an epoch belongs to; the learning rate falls once per stage. Default: one."""
        return range(n_epochs)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether `look` wants to see all images before this epoch, which costs a pass over them. Default: never."""
        return False

    def look(self, overview: Overview) -> None:
        """See all images between epochs, for example to place prototypes or to group them. Default: nothing."""

    def draw(
        self, labels: NDArray[np.int64], batch_size: int, generator: torch.Generator, *, drop_last: bool = True
    ) -> Sequence[Tensor]:
        """Return the images of each batch of an epoch, all epochs having as many. Default: half of them labelled."""
        return balanced_batches(labels, batch_size, generator, drop_last=drop_last)

    def arrange(self, hidden_vb: Tensor, moment: Moment) -> Tensor:
        """Return the hidden states (V, B, ...) that the tail is given in training. Default: all views as they come."""
        return hidden_vb

    def paced(self, tail: nn.Module) -> list[nn.Parameter]:
        """Return what of the tail has a learning rate of its own, see `pace`, and no weight decay. Default: nothing."""
        return []

    def pace(self, moment: Moment) -> float:
        """Return the learning rate that what is `paced` has in a step, as a fraction of its start."""
        raise NotImplementedError

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted terms of the loss by name; training adds them up, logs and plots them."""
        raise NotImplementedError

    def before_step(self, tail: nn.Module, moment: Moment) -> None:
        """See all gradients before an optimiser step: what has none rests in this step. Default: nothing rests."""

    def after_step(self, moment: Moment) -> None:
        """Do what follows an optimiser step, for example move a teacher. Default: nothing."""

    def teacher_momentum(self, moment: Moment) -> float:
        """Return the share of itself that the averaged tail keeps after this step (see `averages_tail`)."""
        raise NotImplementedError

    def settle(self, overview: Overview) -> Tensor | None:
        """See all images when training is over; clustering methods find their centres here. Default: nothing.

        Returns:
            None, or cluster_n where an image's cluster is more than `assign` of its feature can tell.
        """
        return None

    def known_splits(self) -> list[KnownSplit]:
        """Return which known clusters were split in training, in this order. Default: none."""
        return []

    def new_splits(self) -> list[NewSplit]:
        """Return which new clusters were split in training, in this order. Default: none."""
        return []

    def cluster_merges(self) -> list[ClusterMerge]:
        """Return which new clusters were merged in training, in this order. Default: none."""
        return []

    @property
    def n_clusters(self) -> int:
        """How many clusters there are; moves may have changed it."""
        return self.task.n_clusters

    def trim(self) -> None:
        """Let go of room for clusters that were never added; after training. Default: there is none."""

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores_nk: their softmax is the probability of each cluster, their arg max the assignment."""
        raise NotImplementedError
