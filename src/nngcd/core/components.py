"""Component lookup: the file name is the name, so adding a file is all it takes to add a component."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from nngcd.core.errors import UserError, did_you_mean


@cache
def component_names(package: str, attribute: str) -> tuple[str, ...]:
    """Return the names of all components of a package: its modules that themselves define `attribute`.

    Args:
        package: for example `nngcd.methods`.
        attribute: what makes a module a component, for example `Method`; modules without it are parts, not components.
    """
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return tuple(sorted(m.name for m in modules if _defines(importlib.import_module(f"{package}.{m.name}"), attribute)))


def find_component(package: str, name: str, attribute: str) -> ModuleType:
    """Return the module `package.name`.

    Raises:
        UserError: no such component; the message lists those there are.
    """
    names = component_names(package, attribute)
    if name not in names:
        kind = package.rpartition(".")[2].removesuffix("s")
        raise UserError(f"unknown {kind} '{name}'.{did_you_mean(name, names)} Choose from: {', '.join(names)}.")
    return importlib.import_module(f"{package}.{name}")


def _defines(module: ModuleType, attribute: str) -> bool:
    return getattr(getattr(module, attribute, None), "__module__", None) == module.__name__
