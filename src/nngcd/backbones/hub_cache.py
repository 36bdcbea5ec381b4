"""The cache of the Hugging Face hub, and whether the hub answers; light enough to ask before timm is imported."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from huggingface_hub import constants, try_to_load_from_cache

TIMEOUT_SECONDS = 3.0


def is_cached(name: str) -> bool:
    """Whether the weights of a timm model are on this machine. Nothing is asked of the network."""
    return _cached_file(name) is not None


def cached_names() -> list[str]:
    """Return the names of all timm models whose folders are in the cache."""
    prefix = "models--timm--"
    folders = Path(constants.HF_HUB_CACHE).glob(f"{prefix}*")
    return sorted(folder.name.removeprefix(prefix) for folder in folders)


def revision_of(name: str) -> str | None:
    """Return the revision of a timm model's weights in the cache; None for weights from elsewhere."""
    file = _cached_file(name)
    return file.parent.name if file else None


def hub_answers() -> bool:
    """Whether the hub, or something in its place, answers within seconds."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=TIMEOUT_SECONDS).close()
    except HTTPError:
        return True
    except OSError as error:
        # A certificate that only Python's own check rejects: someone answers, and the hub may use other certificates.
        return isinstance(getattr(error, "reason", None), ssl.SSLError)
    return True


def _cached_file(name: str) -> Path | None:
    found = try_to_load_from_cache(f"timm/{name}", "model.safetensors", cache_dir=constants.HF_HUB_CACHE)
    return Path(found) if isinstance(found, str) else None
