"""Which engine computes a frozen trunk: torch, or OpenVINO where that gives the same numbers sooner."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, get_args

import torch
from filelock import FileLock

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.compiled import Compiled, core_of
from nngcd.backbones.sizes import SeveralSizes
from nngcd.backbones.weights import fingerprint
from nngcd.core import processes
from nngcd.core.errors import ConfigError, ResourceError
from nngcd.core.files import write_json
from nngcd.core.user_cache import user_cache

Engine = Literal["auto", "torch", "openvino"]
USUAL: Engine = "auto"
"""Default engine."""

LARGEST_DIFFERENCE = 1e-4
"""Between the two engines' outputs, relative to the largest output."""
FEWEST_IMAGES = 256
"""For fewer, what is saved is less than the seconds that compiling takes."""
N_TRIED, N_PASSES = 4, 3
"""Images that both engines are compared with, and how often."""
MISSING = "OpenVINO is not installed (pip install 'nngcd[openvino]')"


@dataclass(frozen=True, slots=True)
class Trial:
    """Comparison of OpenVINO with torch for one network on one machine."""

    failure: str = ""
    """Why the network cannot be computed with OpenVINO; empty when it can."""
    difference: float = 0.0
    """Largest difference of the outputs, relative to the largest output."""
    speed: float = 0.0
    """Torch's seconds over OpenVINO's."""

    @property
    def words(self) -> str:
        """Result as text, for `nngcd doctor` and a run's environment.json."""
        if self.failure:
            return self.failure
        return f"OpenVINO is {self.speed:.1f} times as fast as torch; outputs differ by {self.difference:.0e}"


def choose_engine(name: str, backbone: Backbone, *, n_images: int) -> None:
    """Let a backbone's trunk be computed by the engine called `name` from now on.

    `auto` is OpenVINO where it is installed, the trunk is on a CPU in single precision, there are enough images, and a
    trial has shown that the outputs agree and come sooner; in all other cases it is torch. The trial is made once for
    each network and machine and remembered, so the same command takes the same engine however busy the machine is.

    Raises:
        ConfigError: `openvino` was asked for and cannot compute this trunk, or there is no such engine.
        ResourceError: `openvino` was asked for and is not installed.
    """
    if name not in get_args(Engine):
        raise ConfigError("engine", name, f"must be one of {', '.join(get_args(Engine))}")
    trunk, compiled = backbone.trunk, backbone.trunk.compiled
    trunk.compiled, trunk.engine_reason = None, "as asked"
    if name == "torch" or not any(True for _ in core_of(trunk.network).parameters()):
        return
    obstacle = _obstacle(backbone)
    if name == "auto" and n_images < FEWEST_IMAGES:
        obstacle = f"compiling saves no time for fewer than {FEWEST_IMAGES} images"
    trial = Trial(failure=obstacle) if obstacle else _shared_trial(backbone)
    trunk.engine_reason = trial.words
    if not trial.failure and (trial.speed > 1 or name == "openvino"):
        trunk.compiled = compiled or Compiled(trunk.network)
    elif name == "openvino":
        if trial.failure == MISSING:
            raise ResourceError(f"{MISSING}; --engine openvino needs it.")
        raise ConfigError("engine", name, f"{trial.failure}; use --engine auto")


def _obstacle(backbone: Backbone) -> str:
    """Return why OpenVINO cannot be tried, or an empty string."""
    device = next(backbone.trunk.parameters()).device.type
    if device != "cpu":
        return f"OpenVINO is used on CPUs only; this runs on {device}"
    if backbone.trunk.precision != "32-true":
        return f"OpenVINO is used in single precision only; this is {backbone.trunk.precision}"
    return "" if openvino_version() else MISSING


def openvino_version() -> str:
    """Return the version of OpenVINO, empty where it is not installed."""
    try:
        return version("openvino")
    except PackageNotFoundError:
        return ""


def _shared_trial(backbone: Backbone) -> Trial:
    """Return one trial for all processes of a run; those that only share out work each look it up."""
    if not processes.are_together():
        return _remembered_trial(backbone)
    trial: Trial = processes.from_first(_remembered_trial(backbone) if processes.is_first() else None)
    return trial


def _remembered_trial(backbone: Backbone) -> Trial:
    """Return the trial of this network on this machine, made now if there was none."""
    path = user_cache() / "engines" / f"{_key(backbone)}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            trial = _read_trial(path) or _try(backbone)
            write_json(path, asdict(trial))
            return trial
    except (OSError, ResourceError):  # nothing can be written there: it is tried again next time
        return _try(backbone)


def _read_trial(path: Path) -> Trial | None:
    try:
        return Trial(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _key(backbone: Backbone) -> str:
    """Return what names a trial: the network with the sizes it sees, the machine and both engines."""
    network = backbone.trunk.network
    sides = next((part.sides for part in network.modules() if isinstance(part, SeveralSizes)), ())
    machine = [platform.node(), platform.machine(), torch.get_num_threads()]
    facts = [
        fingerprint(core_of(network)), backbone.preprocessing.image_size, sides, machine, torch.__version__,
        openvino_version(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@torch.no_grad()
def _try(backbone: Backbone) -> Trial:
    """Return how OpenVINO compares with torch; whatever goes wrong in it, torch still works."""
    trunk, side = backbone.trunk, backbone.preprocessing.image_size
    noise = torch.randint(256, (N_TRIED, 3, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images = backbone.preprocessing.normalise(noise)
    try:
        compiled = Compiled(trunk.network)
        expected, found = trunk.network(images), compiled(images)
        difference = float((expected - found).abs().max() / expected.abs().max())
        if not difference <= LARGEST_DIFFERENCE:
            return Trial(failure=f"OpenVINO's outputs differ from torch's by {difference:.0e} of the largest")
        seconds = [
            (_seconds(lambda: trunk.network(images)), _seconds(lambda: compiled(images))) for _ in range(N_PASSES)
        ]
    except Exception as error:  # noqa: BLE001 (a converter meets networks of all kinds)
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return Trial(failure=f"OpenVINO cannot compute this network ({what})")
    torch_seconds, openvino_seconds = map(min, zip(*seconds, strict=True))
    return Trial(difference=difference, speed=torch_seconds / openvino_seconds)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
