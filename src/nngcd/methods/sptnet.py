"""SPTNet: prompts in pixels and the network learn in turns, each with SimGCD's loss (Wang, Vaze and Han, ICLR 2024).

A prompt is a set of numbers that is added to every image: a border around it, and the edges of its patches. Data that
are fitted to the model (by the prompt) and a model that is fitted to the data take turns, a few batches each. It begins
with a network that SimGCD trained: another run (`--init-from RUN`), or the first epochs of this one (`simgcd_share`).

Where this departs from the paper and its scripts, besides what the settings say:
- The scripts have an optimiser for the prompt (1,000 steps of warm-up, then a cosine) and one for the model. Here both
  follow the schedule of the run; the prompt's rate is a multiple of the model's (`PixelPrompt` says how).
- The scripts choose the best epoch by a validation set, and train in half precision; here the last epoch counts, and
  the precision is that of the run.
- The first batch of a run is always SimGCD's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.pixel_prompts import prompt_of, with_pixel_prompts
from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share_below_one
from nngcd.core.schedules import two_stages
from nngcd.methods import simgcd
from nngcd.methods.contract import Moment

Phase = Literal["simgcd", "prompt", "model"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """SPTNet's settings: those of SimGCD, and the prompt's."""

    teacher_warmup_epochs: int = 10
    """Epochs over which the pseudo-labels are sharpened from the start to the final temperature, from the first."""
    simgcd_share: float = 0.0
    """Share of the epochs, in [0, 1), that train SimGCD without a prompt before the turns begin; 0 is for networks that
    SimGCD has trained already (`--init-from`)."""
    phase_steps: int = 20
    """Batches that the prompt learns from, then the model, and so on."""
    border_width: int = 30
    """Width of the prompt at the edge of an image of 224 pixels (other sizes in proportion); 0 leaves only the edges of
    the patches, as the scripts do on CIFAR."""
    prompt_deviation: float = 1.0
    """Standard deviation of the noise that the prompt is at the start, in units of normalised pixels (scripts: 1)."""
    prompt_learning_rate: float = 500.0
    """How many times the model's learning rate the prompt learns with at 224 pixels (other sizes in proportion to the
    area); the scripts: 500 on CUB (25 to 0.05)."""

    def __post_init__(self) -> None:
        simgcd.Config.__post_init__(self)
        check_share_below_one(self, "simgcd_share")
        check_at_least_one(self, "phase_steps")
        check_not_negative(self, "border_width", "prompt_deviation")
        check_positive(self, "prompt_learning_rate")


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
            generator=generator,
        )

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the epochs of SimGCD, or those in which prompt and model take turns."""
        return two_stages(epoch, n_epochs, self.config.simgcd_share)

    def places_prototypes(self, epoch: int) -> bool:
        """Whether prototypes are to be placed before this epoch; those that SimGCD has trained already stay."""
        return self.config.simgcd_share > 0 and super().places_prototypes(epoch)

    def phase(self, moment: Moment) -> Phase:
        """Return what learns in a step."""
        steps_per_epoch = moment.n_steps // moment.n_epochs
        # The prompt is switched on after a step, so there is one before.
        first = max(1, self.stage(moment.n_epochs - 1, moment.n_epochs).start * steps_per_epoch)
        if moment.step < first:
            return "simgcd"
        return "model" if (moment.step - first) // self.config.phase_steps % 2 else "prompt"

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
        # A gradient that nobody wants would cost a pass back through the whole network.
        prompt.values.requires_grad_(after == "prompt")
