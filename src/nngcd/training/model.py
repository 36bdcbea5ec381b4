"""A model: backbone, method and category names; built from a few facts, saved to and loaded from one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import Backbone, feature_backbone, frozen
from nngcd.backbones.sizes import with_sizes
from nngcd.backbones.weights import mismatches
from nngcd.backbones.whitened import whitened
from nngcd.core import config, model_schemas
from nngcd.core.components import find_component
from nngcd.core.device import Precision
from nngcd.core.errors import DataError, ResourceError, UserError
from nngcd.core.files import write_json, write_tensors, write_text
from nngcd.core.run_reading import CATEGORIES, PREPROCESSOR, read_categories
from nngcd.core.seeds import torch_generator
from nngcd.core.verified_files import read_json, read_tensors
from nngcd.methods.contract import BaseMethod, Task
from nngcd.training.model_limits import check_outputs, no_larger_than

FORMAT = 3
"""2: images may be seen at several sizes. 3: the final norm layer may have been trained."""
ROWS_PER_PIECE = 8192
CARD = """# A category discovery model made by nngcd

{method} on {backbone} (effort {effort}): {n_old} known and {n_new} new categories.

Label new images with `nngcd predict RUN IMAGES --out labels.csv`, RUN being the folder above this one.

| file | what it is |
|---|---|
| `model.safetensors` | all weights: frozen trunk, trained tail, method |
| `config.json` | what the network is built from |
| `preprocessor.json` | how an image becomes the network's input |
| `categories.json` | the category of each output, known ones first |
| `confidence.json`, `surroundings.safetensors` | what turns scores and features into a confidence |
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blueprint:
    """Plan that a model is built from; with the weights it is the whole model."""

    backbone: str
    """Name of a backbone, or `features` when the input is features instead of images."""
    effort: str
    tail_blocks: int
    image_size: int | None
    method: str
    loss: Mapping[str, Any]
    n_features: int | None
    """Given only when the input is features."""
    n_clusters: int
    n_old: int
    whitened_features: int | None = None
    """To how many directions the features are whitened; None when they are not."""
    sizes: tuple[float, ...] = (1.0,)
    """At which multiples of the image size the network sees an image."""
    tail_norm: bool = False
    """Whether the final norm layer is trained."""


@dataclass(frozen=True, slots=True)
class Model:
    """A backbone and a method that fit together."""

    blueprint: Blueprint
    backbone: Backbone
    method: BaseMethod

    @classmethod
    def assemble(
        cls, blueprint: Blueprint, backbone: Backbone, *, seed: int, k_range: tuple[int, int] | None = None
    ) -> Model:
        """Return a model with a freshly started method on a backbone, where the backbone is.

        Args:
            blueprint: what it is built from.
            backbone: the network.
            seed: of the method's first weights.
            k_range: fewest and most clusters that training may end with; None: as many as the blueprint says.
        """
        module = find_component("nngcd.methods", blueprint.method, "Method")
        task = Task(
            n_features=backbone.n_features,
            n_clusters=blueprint.n_clusters,
            n_old=blueprint.n_old,
            k_range=k_range,
            generator=torch_generator(seed, "init"),
            sparse_weights=tuple(backbone.sparse_weights),
        )
        method = module.Method(config.build(module.Config, blueprint.loss), task)
        return cls(blueprint, backbone, method.to(device_of(backbone)))

    def trimmed(self) -> Model:
        """Return the model with as many clusters as training ended with, and no room for more."""
        self.method.trim()
        return replace(self, blueprint=replace(self.blueprint, n_clusters=self.method.n_clusters))

    def to(self, device: torch.device) -> Model:
        """Move all parts to a device and return the model."""
        move(self.backbone, device)
        self.method.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return device_of(self.backbone)

    @torch.no_grad()
    def scores(self, features_nd: Tensor) -> Tensor:
        """Return scores_nk of the categories; their softmax is the probability of each.

        In pieces, so that what lies between features and scores never exists for all images at once.

        Raises:
            DataError: some scores are not finite, so nothing can be said of these images.
        """
        scores_nk = features_nd.new_empty(len(features_nd), self.blueprint.n_clusters)
        for start in range(0, len(features_nd), ROWS_PER_PIECE):
            piece = slice(start, start + ROWS_PER_PIECE)
            scores_nk[piece] = self.method.assign(features_nd[piece])
        if n_bad := int((~scores_nk.isfinite().all(-1)).sum()):
            raise DataError(
                f"S05: the scores of {n_bad:,} of {len(scores_nk):,} images are not finite, so nothing is written. "
                "The model is damaged, or the features are far larger than those it was trained on."
            )
        return scores_nk

    def save(self, folder: Path, categories: list[str]) -> None:
        """Write the model so that `load` needs nothing else: no download, no pickle."""
        blueprint = self.blueprint
        write_tensors(folder / "model.safetensors", self._state())
        write_json(folder / PREPROCESSOR, self.backbone.preprocessing.to_json())
        write_json(folder / CATEGORIES, {"categories": categories, "n_known": blueprint.n_old})
        write_text(folder / "README.md", CARD.format(**asdict(blueprint), n_new=blueprint.n_clusters - blueprint.n_old))
        write_json(folder / "config.json", {"format": FORMAT, **asdict(blueprint)})

    @classmethod
    def load(cls, folder: Path) -> tuple[Model, list[str]]:
        """Return a saved model and the category of each of its outputs.

        Raises:
            DataError: the folder holds no model, a damaged one, or one of a newer format.
        """
        facts = read_json(folder / "config.json", model_schemas.StoredBlueprint)
        if (version := facts.pop("format")) > FORMAT:
            raise DataError(f"{folder} was written by a newer nngcd (format {version}): pip install -U nngcd.")
        state, _ = read_tensors(folder / "model.safetensors")
        categories, n_known = read_categories(folder)
        try:
            blueprint = Blueprint(**facts | {"sizes": tuple(facts["sizes"])})
            if (len(categories), n_known) != (blueprint.n_clusters, blueprint.n_old):
                counts = f"{n_known} known of {len(categories)}; {blueprint.n_old} of {blueprint.n_clusters}"
                raise DataError(f"its categories.json has a different number of categories: {counts}")
            return cls._built(blueprint, state), categories
        except ResourceError:
            raise
        except Exception as error:  # a stranger's file may name anything
            reason = " ".join(str(error).split())[:300]
            raise DataError(
                f"R03: the model in {folder} does not match its config.json ({reason}). Run `nngcd fit` again."
            ) from error

    @classmethod
    def _built(cls, blueprint: Blueprint, state: Mapping[str, Tensor]) -> Model:
        """Return the model with these weights; none is built that is far larger than they are."""
        check_outputs(blueprint.n_clusters, state)
        with no_larger_than(state):
            model = cls.assemble(blueprint, build_backbone(blueprint, pretrained=False), seed=0)
            parts = model._parts()
        for name, part in parts.items():
            own = {key.removeprefix(f"{name}."): t for key, t in state.items() if key.startswith(f"{name}.")}
            if wrong := mismatches(part.state_dict(), own):
                count = f"{len(wrong):,} tensors of its {name} differ"
                raise DataError(f"{count} ({'; '.join(wrong[:3])}). Use the nngcd version that made it.")
            part.load_state_dict(own)
        return model

    def _parts(self) -> dict[str, torch.nn.Module]:
        return {"trunk": self.backbone.trunk, "tail": self.backbone.tail, "method": self.method}

    def _state(self) -> dict[str, Tensor]:
        return {f"{name}.{key}": t for name, part in self._parts().items() for key, t in part.state_dict().items()}


def build_backbone(
    blueprint: Blueprint,
    *,
    weights: Path | None = None,
    pretrained: bool = True,
    start: Backbone | None = None,
    seed: int = 0,
) -> Backbone:
    """Return the backbone of a blueprint, by default with its pre-trained weights.

    Args:
        blueprint: what it is built from.
        weights: a file of weights instead of those that belong to the name.
        pretrained: False for random weights.
        start: the same network with the same cut, whose tail this one begins with.
        seed: of what a method adds to it.

    Raises:
        UserError: the backbone or its weights cannot be had, the start's are others, or the method needs images and
            was given features.
    """
    module = find_component("nngcd.methods", blueprint.method, "Method")
    if blueprint.n_features is not None:
        backbone = feature_backbone(blueprint.n_features)
    else:
        network = load_backbone(
            blueprint.backbone,
            weights=weights,
            tail_blocks=blueprint.tail_blocks,
            tail_norm=blueprint.tail_norm,
            image_size=blueprint.image_size,
            pretrained=pretrained,
        )
        backbone = frozen(network) if blueprint.effort == "quick" else network
        if tuple(blueprint.sizes) != (1.0,):
            backbone = with_sizes(backbone, blueprint.sizes)
    if start is not None:
        if start.trunk_fingerprint != backbone.trunk_fingerprint:
            raise UserError(
                f"--init-from: the frozen part of that run's {blueprint.backbone} has other weights, and its tail fits "
                "only them. Give the same --weights, or start from another run."
            )
        backbone.tail.load_state_dict(start.tail.state_dict())
    if module.Method.cuts_network:
        if blueprint.n_features is not None:
            raise UserError(
                f"{blueprint.method} trains inside the network and needs images, but these data are features."
            )
        loss = config.build(module.Config, blueprint.loss)
        backbone = module.Method.own_cut(backbone, loss, torch_generator(seed, "own cut"))
    return whitened(backbone, blueprint.whitened_features) if blueprint.whitened_features else backbone


def move(backbone: Backbone, device: torch.device, precision: Precision | None = None) -> Backbone:
    """Move a backbone to a device, set what its trunk computes in if that is given, and return it.

    What was compiled for a CPU is left behind.
    """
    backbone.trunk.compiled = None
    backbone.trunk.to(device)
    if precision is not None:
        backbone.trunk.precision = precision
    backbone.tail.to(device)
    return backbone


def device_of(backbone: Backbone) -> torch.device:
    """Return where a backbone computes."""
    return next(backbone.tail.parameters()).device
