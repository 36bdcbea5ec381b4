"""Starting where another run ended: with its trained tail, and whatever of its method this one has, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nngcd.core.errors import ConfigError
from nngcd.core.run_folder import RunFolder
from nngcd.methods.contract import BaseMethod
from nngcd.training.model import Blueprint, Model

SAME = ("backbone", "effort", "tail_blocks", "image_size", "n_features", "n_clusters", "n_old")
"""What both runs must have in common: then their tensors mean the same."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a finished run learned."""

    path: Path
    model: Model
    class_names: tuple[str, ...]
    """The known categories, in the order of the model's outputs."""

    @classmethod
    def of(cls, run: RunFolder) -> Start:
        """Return what a run learned.

        Raises:
            DataError: the run is not finished, or its model is damaged.
        """
        run.check_complete()
        model, categories = Model.load(run.model)
        return cls(run.path, model, tuple(categories[: model.blueprint.n_old]))

    @property
    def k(self) -> int:
        """The run's number of categories."""
        return self.model.blueprint.n_clusters

    @property
    def tail_state(self) -> dict[str, Tensor]:
        """The tensors of its tail."""
        return self.model.backbone.tail.state_dict()

    def check(self, blueprint: Blueprint, class_names: tuple[str, ...]) -> None:
        """Raise `ConfigError` unless a run built like this, with these known categories, can start here."""
        theirs = self.model.blueprint
        if self.model.method.cuts_network:
            self._refuse(f"{theirs.method} cuts the network its own way; start from another method's run")
        if theirs.whitened_features or blueprint.whitened_features:
            self._refuse("whitened features are made anew in every run; leave out whitened_features, in both")
        for name in SAME:
            if (its := getattr(theirs, name)) != (ours := getattr(blueprint, name)):
                self._refuse(f"its {name} is {its}, this run's is {ours}")
        if self.class_names != class_names:
            others = sorted({*self.class_names} ^ {*class_names})
            what = f"for example '{others[0]}'" if others else "they come in another order"
            self._refuse(f"its known categories are not those of these data: {what}")

    def load_method(self, method: BaseMethod) -> None:
        """Give a method the tensors of the same name and shape: all of them, if it is the same method."""
        own, theirs = method.state_dict(), self.model.method.state_dict()
        shared = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
        method.load_state_dict(own | shared)

    def _refuse(self, reason: str) -> None:
        raise ConfigError("init_from", str(self.path), reason)
