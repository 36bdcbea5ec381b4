"""PromptCAL: prompts in every block of a ViT, and contrast of images that belong together (Zhang et al., CVPR 2023).

Two stages: first GCD's contrast of the class token and, through a head of its own, of the prompts; then the same with
a teacher, the moving average of the network, and contrastive affinity learning (CAL) in a memory of what it saw.
Left out: the distillation of DINO on images of ImageNet in the first 5 epochs (INKD), since users have other images.
The last epoch is the result, not the one that labels and silhouette call the best. All departures:
docs/paper/methods.md.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.token_prompts import with_token_prompts
from nngcd.core.errors import ConfigError
from nngcd.core.ranges import NotNegative, Share, ShareBelowOne, WholeNotNegative
from nngcd.core.schedules import two_stages
from nngcd.core.seeds import torch_generator
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import cosines
from nngcd.losses.supcon import supcon
from nngcd.losses.weighting import weighted
from nngcd.methods import gcd
from nngcd.methods.affinity_memory import AffinityConfig, AffinityMemory
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Batch, Moment, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(AffinityConfig):
    """PromptCAL's settings; defaults are those of its paper."""

    n_prompts: int = 5
    """Learned tokens in each block."""
    n_prompts_read: int = 2
    """Number of learned tokens whose mean output is also contrasted."""
    prompt_weight: NotNegative = 0.35
    """Weight of all terms of the prompts; those of the class token have weight 1."""
    untaught_share: ShareBelowOne = 2 / 3
    """Share of the epochs without a teacher (the paper: 200, then 70 to 100), in [0, 1); kept after --init-from."""
    teacher_momentum: Share = 0.999
    """Momentum of the teacher in each step of the second stage."""
    affinity_share: Share = 0.6
    """Share of CAL in the unsupervised terms, in [0, 1]."""
    affinity_ramp_epochs: WholeNotNegative = 2
    """Epochs of the second stage over which the share of CAL rises from 0."""

    def __post_init__(self) -> None:
        AffinityConfig.__post_init__(self)
        if not 1 <= self.n_prompts_read <= self.n_prompts:
            raise ConfigError("n_prompts_read", self.n_prompts_read, f"must be in 1 ... n_prompts, {self.n_prompts}")


class Method(CentreMethod):
    """PromptCAL. A feature is the class token's, which alone is clustered, followed by the prompts'."""

    config: Config
    cuts_network = True
    averages_tail = True

    def __init__(self, config: Config, task: Task) -> None:
        n = task.n_features // 2
        super().__init__(config, replace(task, n_features=n))
        self.parts = slice(n), slice(n, 2 * n)
        self.heads = nn.ModuleList(gcd.ContrastHead(config, self.task) for _ in self.parts)
        self.teacher_heads = deepcopy(self.heads).requires_grad_(False)
        self.memory = AffinityMemory(config, 2 * n)
        self.seed = int(torch.randint(2**62, (), generator=task.generator))
        self._seen: Batch | None = None

    @classmethod
    def own_cut(cls, backbone: Backbone, config: Config, generator: torch.Generator) -> Backbone:
        """Return the network with prompts; its last block is trained with them, even with effort quick."""
        sizes = {"n_prompts": config.n_prompts, "n_read": config.n_prompts_read}
        return with_token_prompts(backbone, **sizes, generator=generator)

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the epochs without a teacher, or those with one."""
        return two_stages(epoch, n_epochs, self.config.untaught_share)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the class token and, weighted, the same terms of the prompts."""
        of_class, of_prompts = (self._terms(batch, part) for part in (0, 1))
        self._seen = batch
        return of_class | {f"prompt_{name}": self.config.prompt_weight * of_prompts[name] for name in of_prompts}

    def _terms(self, batch: Batch, part: int) -> dict[str, Tensor]:
        """Return GCD's two terms; in the second stage both against the teacher, and with CAL."""
        assert batch.teacher_features_vbd is not None
        c, labels_b, moment, features = self.config, batch.labels_b, batch.moment, self.parts[part]
        z_vbd, teacher_vbd = batch.features_vbd[..., features], batch.teacher_features_vbd[..., features]
        contrasted_vbd = self.heads[part](z_vbd)
        if not self._is_taught(moment):
            return gcd.contrast_terms(contrasted_vbd, labels_b, c)
        keys_vbd = self.teacher_heads[part](teacher_vbd)
        with_all, with_labelled = (partial(cosines, keys_vbd=k) for k in (keys_vbd, keys_vbd[:, labels_b >= 0]))
        contrast = info_nce(contrasted_vbd, temperature=c.contrastive_temperature, similarity=with_all)
        labelled = supcon(contrasted_vbd, labels_b, temperature=c.supcon_temperature, similarity=with_labelled)
        generator = torch_generator(self.seed, "negatives", moment.step, part)
        affinity = self.memory.contrast(z_vbd, teacher_vbd, labels_b, features=features, generator=generator)
        share = self._affinity_share(moment)
        unsupervised = {"contrast": (1 - share) * contrast, "affinity": share * affinity}
        return weighted(unsupervised, {"supcon": labelled}, c.supervised_weight)

    def _is_taught(self, moment: Moment) -> bool:
        return moment.epoch >= self.stage(moment.n_epochs - 1, moment.n_epochs).start

    def _affinity_share(self, moment: Moment) -> float:
        """Return the share of CAL, which rises with every step of its ramp."""
        epochs = moment.step * moment.n_epochs / moment.n_steps - self.stage(moment.epoch, moment.n_epochs).start
        ramp = self.config.affinity_ramp_epochs
        return self.config.affinity_share * (min(1.0, epochs / ramp) if ramp else 1.0)

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the teacher's heads as its tail is moved, and remember what it saw in the second stage."""
        for average, parameter in zip(self.teacher_heads.parameters(), self.heads.parameters(), strict=True):
            average.lerp_(parameter, 1 - self.teacher_momentum(moment))
        # Not in `loss`, whose gradient still needs the memory as it was.
        if self._seen is not None and self._seen.teacher_features_vbd is not None and self._is_taught(moment):
            self.memory.add(self._seen.teacher_features_vbd, self._seen.labels_b)
        self._seen = None

    def teacher_momentum(self, moment: Moment) -> float:
        """Return 0 in the first stage, which has no teacher, and in the last step: the authors judge the student."""
        is_student = not self._is_taught(moment) or moment.step == moment.n_steps - 1
        return 0.0 if is_student else self.config.teacher_momentum

    @torch.no_grad()
    def settle(self, overview: Overview) -> None:
        """Find the centres of the class token's features as GCD does."""
        of_class = overview._replace(features_nd=overview.features_nd[:, self.parts[0]])
        self.centres_kd.copy_(gcd.cluster_centres(of_class, self.task, self.config))
        self.memory.forget()

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores whose arg max is the centre nearest to the class token's feature."""
        return super().assign(features_nd[:, self.parts[0]])
