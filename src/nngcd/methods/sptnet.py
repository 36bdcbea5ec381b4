"""SPTNet: prompts in pixels and the network learn in turns, each with SimGCD's loss (Wang, Vaze and Han, ICLR 2024).

A prompt is a set of numbers that is added to every image: a border around it, and the edges of its patches. Data that
are fitted to the model (by the prompt) and a model that is fitted to the data take turns, a few batches each. It begins
with a network that SimGCD trained: another run (`--init-from RUN`), or the first epochs of this one (`simgcd_share`).

Where this departs from the scripts: one optimiser has both, in which the prompt's rate is made by its scale
(`PixelPrompt`, the same steps), and the last epoch is the result, not the best by a validation set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.pixel_prompts import prompt_of, with_pixel_prompts
from nngcd.core.ranges import AtLeastOne, NotNegative, Positive, ShareBelowOne, WholeNotNegative
from nngcd.core.schedules import two_stages, warmed_cosine
from nngcd.methods import simgcd
from nngcd.methods.contract import Moment

Phase = Literal["simgcd", "prompt", "model"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """SPTNet's settings: those of SimGCD, and the prompt's."""

    teacher_warmup_epochs: WholeNotNegative = 10
    """Epochs, counted from the first, over which the pseudo-labels are sharpened from the start to the final
    temperature."""
    simgcd_share: ShareBelowOne = 0.0
    """Share of the epochs, in [0, 1), that train SimGCD without a prompt before the turns begin. Use 0 for networks
    already trained with SimGCD (`--init-from`)."""
    phase_steps: AtLeastOne = 20
    """Batches per turn: the prompt learns from this many, then the model, and so on."""
    turns_per_epoch: bool = False
    """Whether every epoch starts with the prompt, whose first turn is one batch shorter (19, then 20 each), as in the
    scripts. Otherwise turns continue across epochs, after a first batch of SimGCD."""
    border_width: WholeNotNegative = 30
    """Width of the prompt at the edge of an image of 224 pixels (other sizes in proportion); 0 leaves only the edges of
    the patches, as the scripts do on CIFAR."""
    prompt_deviation: NotNegative = 1.0
    """Standard deviation of the noise that the prompt starts with, in normalised pixels (scripts: 1)."""
    prompt_learning_rate: Positive = 500.0
    """Learning rate of the prompt at 224 pixels, as a multiple of the model's (other sizes in proportion to the area);
    the scripts use 500 on CUB (25 to 0.05)."""
    prompt_warmup_steps: WholeNotNegative | None = None
    """Batches over which the prompt's rate rises (scripts: 1,000) before it falls to 0 along a cosine. When absent, it
    falls like the model's rate."""

    @property
    def is_prompted_at_once(self) -> bool:
        """Whether the first batch is the prompt's."""
        return self.turns_per_epoch and not self.simgcd_share


class Method(simgcd.Method):
    """SPTNet. The prompt learns from two prompted views of an image; the model from one view, with and without prompt.

    Images are sorted with the prompt on them.
    """

    config: Config
    cuts_network = True

    @classmethod
    def own_cut(cls, backbone: Backbone, config: Config, generator: torch.Generator) -> Backbone:
        """Return the network with the prompt in front of it; all of it is after the cut."""
        return with_pixel_prompts(
            backbone,
            border=config.border_width,
            deviation=config.prompt_deviation,
            learning_rate=config.prompt_learning_rate,
            is_on=config.is_prompted_at_once,
            generator=generator,
        )

    @classmethod
    def starts_from(cls, config: Config) -> str | None:
        """Return SimGCD, unless this run trains it first."""
        return None if config.simgcd_share else "simgcd"

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the epochs of SimGCD, or those in which prompt and model take turns."""
        return two_stages(epoch, n_epochs, self.config.simgcd_share)

    def places_prototypes(self, epoch: int) -> bool:
        """Whether prototypes are to be placed before this epoch; those that SimGCD has trained already stay."""
        return self.config.simgcd_share > 0 and super().places_prototypes(epoch)

    def phase(self, moment: Moment) -> Phase:
        """Return what learns in a step."""
        if moment.step < (first := self._first_turn(moment)):
            return "simgcd"
        in_epoch = moment.step % (moment.n_steps // moment.n_epochs) + 1
        done = in_epoch if self.config.turns_per_epoch else moment.step - first
        return "model" if done // self.config.phase_steps % 2 else "prompt"

    def _first_turn(self, moment: Moment) -> int:
        """Return the first step of the turns."""
        first = self.stage(moment.n_epochs - 1, moment.n_epochs).start * (moment.n_steps // moment.n_epochs)
        # A prompt that is off at the start is switched on after a step, so there is one before.
        return first if self.config.is_prompted_at_once else max(1, first)

    def paced(self, tail: nn.Module) -> list[nn.Parameter]:
        """Return the prompt, if it has a schedule of its own."""
        return [] if self.config.prompt_warmup_steps is None else [prompt_of(tail).values]

    def pace(self, moment: Moment) -> float:
        """Return the prompt's rate as a fraction of its highest."""
        first = self._first_turn(moment)
        return warmed_cosine(max(0, moment.step - first), moment.n_steps - first, self.config.prompt_warmup_steps or 0)

    def arrange(self, hidden_vb: Tensor, moment: Moment) -> Tensor:
        """Return two views, prompted or not as the phase wants them: channel 3 is the share of the prompt."""
        match self.phase(moment):
            case "prompt":
                return hidden_vb
            case "model":
                # The same crop twice.
                hidden_vb, share_v = torch.stack([hidden_vb[0], hidden_vb[0]]), hidden_vb.new_tensor([0, 1])
            case "simgcd":
                hidden_vb, share_v = hidden_vb.clone(), hidden_vb.new_tensor([0, 0])
        hidden_vb[:, :, 3] = share_v[:, None, None, None]
        return hidden_vb

    def before_step(self, tail: nn.Module, moment: Moment) -> None:
        """Let the model rest, or the prompt, and make the prompt ready for the step after this one."""
        prompt, learns_prompt = prompt_of(tail), self.phase(moment) == "prompt"
        for parameter in (*tail.parameters(), *self.parameters()):
            if (parameter is prompt.values) != learns_prompt:
                parameter.grad = None
        after = self.phase(moment._replace(step=moment.step + 1))
        if after != "simgcd":
            prompt.is_on.fill_(1.0)
        # An unused gradient would cost a backward pass through the whole network.
        prompt.values.requires_grad_(after == "prompt")
