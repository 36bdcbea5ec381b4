"""The studies of the paper: its ablation (Table V), its pre-trainings (Table VI) and its hyper-parameter figures.

And one of ours: what is left on poorer data.

Where the paper shows a curve but no values, the grid is ours and contains the value the paper calls best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.core.config import merge, parse_assignments
from nngcd.core.errors import ConfigError, did_you_mean
from nngcd.research.grid import Variant

SWITCHED_OFF: dict[str, dict[str, Any]] = {
    # Eqs. (18, 19) are one component: the activation, and the teacher that averages what it trains.
    "non-negative": {"activation": "identity", "teacher": "student"},
    # The temperature stays: the paper changes it with the loss, which would credit one with the other's effect.
    "nmf-nce": {"contrast": "info_nce"},
    "sparse": {"sparse_weight": 0.0},
}
"""NN-GCD's three components, and what switches each off; without any of them the loss is SimGCD's."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A setting, and the values it takes one after the other."""

    setting: str
    values: tuple[Any, ...]
    title: str
    axis: str
    """Label of the figure's axis."""

    def variants(self, values: Sequence[Any]) -> list[Variant]:
        """Return one variant per value."""
        name = self.setting.rpartition(".")[2]
        return [
            Variant(f"{name}={value}", parse_assignments([f"{self.setting}={value}"]), str(value)) for value in values
        ]


SWEEPS = {
    "temperature": Sweep("loss.contrastive_temperature", (0.1, 0.3, 0.5, 0.7, 1.0), "Temperature of NMF NCE", "tau"),
    "mu": Sweep("loss.nce_mean", (0.0, 0.1, 0.3, 0.5, 0.7), "Similarity at which negatives weigh most", "mu"),
    "sigma": Sweep("loss.nce_deviation", (0.25, 0.5, 1.0, 2.0, 4.0), "Width of the weights of negatives", "sigma"),
    "beta": Sweep("loss.sparse_l1_share", (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), "Share of L1 in the sparse term", "beta"),
    "gamma": Sweep("loss.sparse_weight", (0.0, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5), "Weight of the sparse term", "gamma"),
    "activation": Sweep(
        "loss.activation",
        ("identity", "relu", "rep_relu", "gelu", "silu", "softplus", "sigmoid"),
        "Activation of the projection",
        "activation",
    ),
    "pretraining": Sweep("backbone", tuple(PRE_TRAININGS), "Pre-training of the backbone", "pre-training"),
    "k": Sweep("k", (0.5, 0.75, 1.0, 1.25, 1.5, 2.0), "Number of categories given", "K"),
}
"""By the name of the study; the values of K are shares of the true number."""
NAMES = ("ablation", "robustness", *SWEEPS)


def ablation() -> list[Variant]:
    """Return NN-GCD with every choice of its three components, from none to all."""
    choices = sorted(product((True, False), repeat=len(SWITCHED_OFF)), key=lambda on: (sum(on), [not x for x in on]))
    return [Variant(_name(on), {"loss": _switched_off(on)}) for on in choices]


def robustness(n_classes: int, epochs: int) -> list[Variant]:
    """Return what real data are poorer in than a benchmark: a right K, many labels, classes of one size, and time."""
    return [
        Variant("as-is", {}),
        Variant("k-1.5", {"k": round(1.5 * n_classes)}, "K 1.5 times too large"),
        Variant("k-2", {"k": 2 * n_classes}, "K twice too large"),
        Variant("labels-5", {"reading": {"labels_per_class": 5}}, "5 labels per class"),
        Variant("labels-1", {"reading": {"labels_per_class": 1}}, "1 label per class"),
        Variant("long-tail", {"reading": {"long_tail": 10.0}}, "largest class 10 times the smallest"),
        Variant("half-epochs", {"training": {"epochs": max(epochs // 2, 1)}}, "half the epochs"),
    ]


def chosen_rows(variants: Sequence[Variant], text: str | None) -> list[Variant]:
    """Return the rows of a study a user asks for, `none,sparse,all`, or else all."""
    rows = {variant.name: variant for variant in variants}
    names = list(rows) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in rows:
            raise ConfigError(
                "--values", name, f"unknown row.{did_you_mean(name, rows)} Choose from: {', '.join(rows)}"
            )
    return [rows[name] for name in dict.fromkeys(names)]


def chosen_values(sweep: Sweep, text: str | None, *, n_old: int = 0, n_classes: int | None = None) -> tuple[Any, ...]:
    """Return the values a user asks for, `0.1,0.5`, or else those of the study.

    Args:
        sweep: the study.
        text: the user's values, separated by commas; None for those of the study.
        n_old: the number of old classes, below which no K can be.
        n_classes: the true number of classes, of which the study of K takes shares.
    """
    if text is not None:
        try:
            values = tuple(_value(part) for part in text.split(",") if part.strip())
        except ConfigError:
            values = ()
        if not values or any(not isinstance(value, int | float | str) or isinstance(value, bool) for value in values):
            raise ConfigError("--values", text, "give numbers or names, for example 0.1,0.5")
        return tuple(dict.fromkeys(values))
    if sweep.setting != "k":
        return sweep.values
    if n_classes is None:
        raise ConfigError("--values", None, "the true number of classes is not known; give values of K")
    return tuple(k for share in sweep.values if (k := round(share * n_classes)) >= n_old)


def _value(text: str) -> Any:  # noqa: ANN401 (a number or a name)
    value = parse_assignments([f"value={text}"])["value"]
    try:
        # YAML takes 1e-5 for a name.
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def components_of(variant: str) -> frozenset[str]:
    """Return the components that are on in a variant of the ablation."""
    if variant == "all":
        return frozenset(SWITCHED_OFF)
    return frozenset() if variant == "none" else frozenset(variant.split("+"))


def _name(on: Sequence[bool]) -> str:
    names = [name for name, is_on in zip(SWITCHED_OFF, on, strict=True) if is_on]
    return "all" if all(on) else "+".join(names) or "none"


def _switched_off(on: Sequence[bool]) -> dict[str, Any]:
    return merge(*(off for off, is_on in zip(SWITCHED_OFF.values(), on, strict=True) if not is_on))
