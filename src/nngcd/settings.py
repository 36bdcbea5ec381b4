"""The settings of a run: recipe, effort, file and flags merged, checked, and written as one YAML file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

import yaml

from nngcd.backbones import OWN_BACKBONE
from nngcd.backbones.engines import USUAL, Engine
from nngcd.core import config
from nngcd.core.components import find_component
from nngcd.core.device import choose_workers
from nngcd.core.errors import ConfigError, did_you_mean
from nngcd.core.ranges import Checked, ShareBelowOne, WholeFromOne
from nngcd.data.holding_back import SHARE
from nngcd.data.reading_settings import ReadingSettings
from nngcd.results.confidence import UNSURE, check_unsure
from nngcd.training.eagc import EagcSettings
from nngcd.training.loop import TrainingSettings
from nngcd.views.preprocessing import ViewSettings

OF_THE_MACHINE = ("device", "precision", "engine", "workers")
"""Settings of the machine: a run may be finished on another one."""
PRESETS = ("default", "official", "paper")
"""A method may lack some of them; one without recipes is the same in each."""
OF_THE_BACKBONE = ("weights", "image_size")
"""Settings of a recipe that apply only to the recipe's own backbone."""
FIRST_STAGES = {"contrastive_share", "simgcd_share"}
"""Shares of the epochs for a first stage, which a run that starts from another one skips."""
ADDED: dict[str, config.Values] = {"hypcd": {"loss": {"geometry": "poincare"}}, "eagc": {"eagc": {"active": True}}}
"""Names that a benchmark can add to a method, as in `simgcd+eagc`, and their settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings(Checked):
    """Everything that determines a result; `config.yaml` in the run folder holds exactly this."""

    data: str = ""
    """Folder, manifest or array file, or the name of a data set."""
    dataset: str | None = None
    """Reader of the data: the name of a file in `nngcd/datasets`; detected when absent."""
    method: str = "nngcd"
    """The name of a file in `nngcd/methods`."""
    preset: str = "default"
    """The recipe that the settings start from: default, paper or official."""
    effort: Literal["quick", "normal", "full"] = "quick"
    """Amount of work: frozen features (minutes on a CPU), last block trained, or the paper's recipe."""
    k: int | str | None = None
    """Number of categories, known and new together: a number, `auto` (estimated) or `A..B` (estimated within that
    range). When absent, the published number for a benchmark data set, otherwise auto."""
    seed: int = 0
    """Random seed; views kept in a bank do not depend on it, so that all seeds share them."""
    backbone: str = OWN_BACKBONE
    """The name of a file in `nngcd/backbones`, of a pre-training of the paper (`dino`, ...), or of any timm model."""
    weights: str | None = None
    """Local .safetensors or .pth file with the backbone's weights, or `random` (timm models, for a trial). When absent,
    the backbone's own weights."""
    init_from: str | None = None
    """A finished run on the same data and backbone; training starts from its trained tail and heads. Parts that the
    recipe initialises from features, such as prototypes at matched centres, use the features of that run."""
    tail_blocks: WholeFromOne = 1
    """Number of blocks (ViT) or stages (CNN) at the end of the backbone that efforts normal and full train."""
    tail_norm: bool = False
    """Whether efforts normal and full also train the norm layer after the last block (ViT, Swin, ConvNeXt), as DCCL's
    authors do."""
    image_size: WholeFromOne | None = None
    """Side of the square crop in pixels; when absent, that of the data set or of the backbone."""
    whitened_features: WholeFromOne | None = None
    """Number of principal directions of the pre-trained features that are kept and whitened within the labelled
    classes, so that differences within a class count less. When absent, the features stay as they are."""
    device: str = "auto"
    """Device to compute on: auto, cpu, cuda or mps."""
    precision: str = "auto"
    """Number format: auto, 32-true, 16-mixed or bf16-mixed."""
    engine: Engine = USUAL
    """Engine for frozen networks: torch, openvino (on a CPU), or auto, which uses OpenVINO if a trial shows that it
    gives the same numbers faster."""
    workers: int | None = None
    """Processes that read images; when absent, one per core."""
    hold_back: ShareBelowOne = SHARE
    """Share of the labelled images of each category whose labels are held back from training, to calibrate the
    confidence and measure the accuracy on known categories. 0 uses all labels; benchmarks hold nothing back."""
    unsure: float = UNSURE
    """Share of the held-back images to call unsure."""
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    """Settings for reading folders and tables."""
    views: ViewSettings = field(default_factory=ViewSettings)
    """The views of an image that are compared."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    """Optimiser and schedule."""
    eagc: EagcSettings = field(default_factory=EagcSettings)
    """EAGC, a plug-in that protects what labelled images teach from the gradients of unlabelled ones."""
    loss: Any = None
    """The method's own settings: the `Config` in its file."""

    def __post_init__(self) -> None:
        self.k_range  # noqa: B018 (raises when k cannot be read)
        Checked.__post_init__(self)
        check_unsure(self.unsure)
        choose_workers(self.workers)  # refuses a number that cannot be
        if self.views.sizes != (1.0,) and self.effort == "full":
            raise ConfigError(
                "views.sizes",
                list(self.views.sizes),
                "several sizes need --effort quick or normal; use one size with --set 'views.sizes=[1]'",
            )
        if self.training.resting_share and (self.effort == "quick" or self.views.n_kept is None):
            reason = (
                "needs a trained block and kept views: --effort normal --views-per-image N. Or turn it off "
                "(--set training.resting_share=0)"
            )
            raise ConfigError("training.resting_share", self.training.resting_share, reason)
        if self.training.resting_share and self.eagc.active:
            reason = "EAGC trains the block before anything rests; add --set training.resting_share=0"
            raise ConfigError("eagc.active", True, reason)

    @property
    def data_path(self) -> str:
        """The path of the data; empty for a data set that is known by its name, even if a folder has that name."""
        return "" if self.data == self.dataset else self.data

    @property
    def k_range(self) -> tuple[int, int] | None:
        """The fewest and most categories there may be, equal when K is given; None when nothing is said."""
        if self.k is None or self.k == "auto":
            return None
        ends = str(self.k).split("..")
        if len(ends) > 2 or not all(text.removeprefix("-").isdecimal() for text in ends):
            raise ConfigError("k", self.k, "must be a number, auto, or a range such as 20..60")
        first, last = int(ends[0]), int(ends[-1])
        if first < 1:
            raise ConfigError("k", self.k, "must be at least 1")
        if first > last:
            raise ConfigError("k", self.k, "the first number must not be larger than the second")
        return first, last


def resolve(values: config.Values) -> Settings:
    """Return checked settings: the preset's recipe, over it the effort, and over both `values` (file and flags).

    Raises:
        ConfigError: an unknown name or an impossible value.
    """
    config.check_text(values, ("method", "preset", "effort", "data", "dataset"))
    chosen = {"method": "nngcd", "preset": "default", "effort": "quick"} | values
    method, _, added = chosen["method"].partition("+")
    if added in ADDED:
        setting = " ".join(f"--set {name}={str(value).lower()}" for name, value in config.flatten(ADDED[added]).items())
        raise ConfigError("--method", chosen["method"], f"works only in `nngcd bench`; use --method {method} {setting}")
    method_config = find_component("nngcd.methods", chosen["method"], "Method").Config
    recipe, in_effort = _recipe(chosen["method"], chosen["preset"], chosen.get("dataset") or chosen.get("data", ""))
    names = {f.name for f in dataclasses.fields(method_config)}
    effort = _effort(chosen["effort"], names)
    special = _suited(in_effort.get(chosen["effort"], {}), chosen)
    started = {"loss": {name: 0.0 for name in names & FIRST_STAGES}} if chosen.get("init_from") else {}
    preset = config.merge(recipe, effort, special, started)
    if "backbone" in chosen:
        preset = {name: value for name, value in preset.items() if name not in OF_THE_BACKBONE}
    merged = config.merge(preset, chosen)
    loss = config.build(method_config, _group(merged.pop("loss", None)), group="loss")
    return dataclasses.replace(config.build(Settings, merged), loss=loss)


def presets_of(method: str) -> list[str]:
    """Return the presets that a method has: `official` only where its authors' code is public."""
    folder = resources.files("nngcd") / "recipes" / method
    return [name for name in PRESETS if not folder.is_dir() or (folder / f"{name}.yaml").is_file()]


def to_values(settings: Settings) -> config.Values:
    """Return the settings as plain nested values, the content of config.yaml."""
    values = config.to_values(dataclasses.replace(settings, loss=None))
    return values | {"loss": config.to_values(settings.loss)}


def flat_settings(settings: Settings) -> config.Values:
    """Return what decides a result by full name, such as `loss.entropy_weight`; what only says where it runs is not."""
    return {name: value for name, value in config.flatten(to_values(settings)).items() if name not in OF_THE_MACHINE}


def _suited(special: config.Values, chosen: config.Values) -> config.Values:
    """Return what a preset changes in an effort, less what is for other features than those of this run."""
    if "whitened_features" not in special:
        return special
    is_ours, is_started = chosen.get("backbone", OWN_BACKBONE) == OWN_BACKBONE, bool(chosen.get("init_from"))
    if not is_ours and chosen["effort"] != "quick":
        # How a trained block takes to it was measured with our own backbone only.
        return {}
    special, loss = dict(special), dict(special.get("loss", {}))
    views, training = _part(chosen, "views"), _part(chosen, "training")
    is_plain = is_started or chosen.get("whitened_features", special["whitened_features"]) is None
    is_one_size = views.get("sizes") in ([1], (1,))
    is_trained_plain = is_plain and chosen["effort"] != "quick"
    if "sizes" in special.get("views", {}) and (is_started or is_one_size or is_trained_plain or not is_ours):
        # Not every network takes images of any size, nor has every run seen them so.
        del special["views"]
    if is_plain:
        # Every run makes its own whitened features, so none can start from another's. Features as they are have
        # the heads of the other presets.
        special.pop("whitened_features")
        loss.pop("n_hidden", None)
    if is_plain or views.get("per_image") == "online":
        # The schedule is for whitened features that are computed once.
        special.pop("training", None)
        loss.pop("teacher_warmup_epochs", None)
    elif "resting_share" in training:
        # The rate is for a block that rests as long as the recipe says.
        special["training"] = {**special.get("training", {}), "tail_learning_rate": None}
    return special | {"loss": loss}


def _part(chosen: config.Values, name: str) -> config.Values:
    """Return a group of what was chosen; anything else is refused elsewhere."""
    values = chosen.get(name)
    return values if isinstance(values, dict) else {}


def _group(values: object) -> config.Values:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError("loss", values, "must be a group of settings, for example loss.entropy_weight=2")
    return values


def _recipe(method: str, preset: str, dataset: str) -> tuple[config.Values, config.Values]:
    """Return a preset's values, with those of the data set laid over them, and by effort what it changes in an effort.

    Both are there only where a preset says so.
    """
    folder, presets = resources.files("nngcd") / "recipes" / method, presets_of(method)
    if preset not in presets:
        hint = did_you_mean(preset, presets)
        raise ConfigError("preset", preset, f"unknown preset of {method}.{hint} Choose from: {', '.join(presets)}")
    if not folder.is_dir():
        return {}, {}
    values: config.Values = yaml.safe_load((folder / f"{preset}.yaml").read_text(encoding="utf-8")) or {}
    in_effort, special = values.pop("efforts", {}), values.pop("datasets", {}).get(dataset, {})
    return config.merge(values, special), in_effort


def _effort(effort: str, loss_names: set[str]) -> config.Values:
    """Return an effort's values; a loss setting counts only for methods that have it."""
    efforts = yaml.safe_load((resources.files("nngcd") / "recipes" / "efforts.yaml").read_text(encoding="utf-8"))
    if effort not in efforts:
        hint = did_you_mean(effort, efforts)
        raise ConfigError("effort", effort, f"unknown effort.{hint} Choose from: {', '.join(efforts)}")
    values = config.merge(efforts[effort])
    loss = {name: value for name, value in values.pop("loss", {}).items() if name in loss_names}
    return values | {"loss": loss}
