"""Start from another run (`--init-from`): its trained tail, and the parts of its method that both methods have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nngcd.core.errors import ConfigError, warn
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_split
from nngcd.data.split import UNLABELLED, Split
from nngcd.methods.contract import BaseMethod
from nngcd.training.model import Blueprint, Model

SAME = {
    "backbone": "--backbone {}",
    "effort": "--effort {}",
    "tail_blocks": "--set tail_blocks={}",
    "image_size": "--image-size {}",
    "sizes": "--set 'views.sizes={}'",
    "n_features": "the features it had",
    "n_clusters": "--k {}",
    "n_old": "the labels it had",
}
"""Values that must be equal in both runs, so that their tensors mean the same, and the way to set each one."""

ONE_SIZE = " and --set 'views.sizes=[1]'"


@dataclass(frozen=True, slots=True)
class Start:
    """Model and labels of a finished run, to start from."""

    path: Path
    model: Model
    class_names: tuple[str, ...]
    """The known categories, in the order of the model's outputs."""
    taught_by: frozenset[str]
    """The ids of the images whose labels it was trained with."""

    @classmethod
    def of(cls, run: RunFolder) -> Start:
        """Return what a run learned."""
        run.check_complete()
        model, categories = Model.load(run.model)
        split = read_split(run)
        taught_by = frozenset(split["image_id"][(split["label_given"] != "") & (split["held_back"] != "True")])
        return cls(run.path, model, tuple(categories[: model.blueprint.n_old]), taught_by)

    def k_within(self, k_range: tuple[int, int] | None) -> int:
        """Return the run's number of categories; raise `ConfigError` when it is not in the range asked for."""
        k = self.model.blueprint.n_clusters
        if k_range and not k_range[0] <= k <= k_range[1]:
            self._refuse(f"it has {k} categories, not {k_range[0]} to {k_range[1]}; leave out --k")
        return k

    def check(self, blueprint: Blueprint, split: Split) -> None:
        """Raise `ConfigError` unless a run built like this, which may know this much of the data, can start here."""
        theirs = self.model.blueprint
        if self.model.method.cuts_network:
            self._refuse(f"{theirs.method} splits the network differently; start from a run of another method")
        if theirs.whitened_features:
            self._refuse(
                "its features are whitened, and every run learns its own whitening; fit it with --set "
                f"whitened_features=null{ONE_SIZE if len(theirs.sizes) > 1 else ''}, or start from another run"
            )
        if blueprint.whitened_features:
            self._refuse("every run learns its own whitening; leave out whitened_features")
        for name, way in SAME.items():
            if (its := getattr(theirs, name)) != (ours := getattr(blueprint, name)):
                # There is no flag for the image size of the backbone itself.
                its, ours = (list(value) if isinstance(value, tuple) else value for value in (its, ours))
                start = "start" if its is None else f"start with {way.format(its)}, or"
                self._refuse(f"its {name} is {its}, but this run's is {ours}; {start} from another run")
        if self.class_names != split.class_names:
            others = sorted({*self.class_names} ^ {*split.class_names})
            what = f"for example '{others[0]}'" if others else "they come in another order"
            self._refuse(f"its known categories differ from those of the data: {what}")
        if n_seen := len(self.taught_by & {*split.table["image_id"][split.labels == UNLABELLED]}):
            self._refuse(
                f"it was trained with {n_seen} labels that this run holds back or does not have; start with "
                "the same labels and --seed, with --use-all-labels, or from another run"
            )

    def load_method(self, method: BaseMethod) -> None:
        """Give a method the tensors of the same name and shape: all of them, if it is the same method."""
        own, theirs = method.state_dict(), self.model.method.state_dict()
        shared = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
        if own and not shared:
            what = f"{self.path} ({self.model.blueprint.method}) has no head in common with this method"
            warn(f"--init-from: {what}; only its features are used.")
        left = {name.split(".")[0] for name, _ in method.named_parameters() if name in theirs.keys() - shared.keys()}
        if shared and left:
            what = f"these of {self.path} have another shape and are not used: {', '.join(sorted(left))}"
            way = "to use them, give both runs the same loss settings (loss.n_hidden)"
            warn(f"--init-from: {what}; {way}.")
        method.load_state_dict(own | shared)

    def _refuse(self, reason: str) -> None:
        raise ConfigError("--init-from", str(self.path), reason)
