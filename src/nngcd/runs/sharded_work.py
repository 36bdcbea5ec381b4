"""One command's share of the work: its parts, and the merged data set where nothing else is to be waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import PurePosixPath

from nngcd.core import processes
from nngcd.core.errors import ConfigError
from nngcd.core.places import Place
from nngcd.core.progress import Progress
from nngcd.data.sources import Source
from nngcd.runs.merging import Merged, merge, missing_parts
from nngcd.runs.parts import Plan, Work, Written, write_parts
from nngcd.runs.shards import Share

SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts that a process wrote, how many are still missing, and the data set if none is."""

    written: Written
    n_missing: int
    merged: Merged | None


def is_folder(out: str, shard: str | None) -> bool:
    """Return whether results go into a folder of parts: where the name has no ending, or work is shared out.

    Raises:
        ConfigError: work is shared out, but the name is that of one file.
    """
    suffix = PurePosixPath(out.partition("?")[0]).suffix
    if suffix and Share.of(shard).count > 1:
        reason = "is one file, but several processes write parts; name a folder, for example parts/"
        raise ConfigError("--out", out, reason)
    return not suffix


def share_out(source: Source, work: Work, out: str, shard: str | None, *, progress: Progress) -> Shared:
    """Write the parts of this process's shard; merge them where nobody else is to be waited for, as under torchrun."""
    place, own = Place.of(out), Share.of(shard)
    written = write_parts(source, place, work, own, progress=progress)
    plan = Plan.read(place)
    assert plan is not None
    n_missing = len(missing_parts(place, plan))
    # Processes of one torchrun have all shards between them, so the first one waits for the others and merges.
    is_one_of_all = processes.is_launched() and own == Share(processes.rank(), processes.count())
    while is_one_of_all and processes.is_first() and n_missing:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        n_missing = len(missing_parts(place, plan))
    is_last = own.count == 1 or (is_one_of_all and processes.is_first())
    return Shared(written, n_missing, merge(place, progress=progress) if is_last and not n_missing else None)
