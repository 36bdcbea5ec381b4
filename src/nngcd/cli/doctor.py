"""`nngcd doctor`: what this machine has, for bug reports."""

from __future__ import annotations

import shutil
from pathlib import Path

from nngcd.cli import options
from nngcd.cli.display import say, say_json
from nngcd.core.errors import UserError


def doctor(json: options.Json = False) -> None:
    """Print versions, devices and disk, and whether the default backbone works.

    Example:  nngcd doctor --json > bug-report.json
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.core.components import component_names
    from nngcd.core.environment import machine, versions

    facts = {
        "versions": versions(),
        "machine": machine(),
        "disk_free_gb": round(shutil.disk_usage(Path.cwd()).free / 1e9, 1),
        "methods": list(component_names("nngcd.methods", "Method")),
        "datasets": list(component_names("nngcd.datasets", "load")),
        "backbones": list(component_names("nngcd.backbones", "load")),
        "default_backbone": _try_default_backbone(),
    }
    if json:
        say_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            say(f"{name}:")
            for part, text in value.items():
                say(f"  {part:<18} {text}")
        else:
            say(f"{name}: {', '.join(value) if isinstance(value, list) else value}")


def _try_default_backbone() -> str:
    from nngcd.backbones import load_backbone

    try:
        backbone = load_backbone("efficientnet_lite0")
    except UserError as error:
        return f"does not load: {error}"
    return f"ok ({backbone.name}, {backbone.n_features} features)"
