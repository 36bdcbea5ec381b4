"""Shards: which units of a source this process works on, of as many processes as the user likes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nngcd.core import processes
from nngcd.core.errors import ConfigError
from nngcd.data.sources import Unit

_LAUNCHERS = (("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"), ("SLURM_PROCID", "SLURM_NTASKS"))
"""Variables with the number of this process and the number of all, in addition to those of torchrun."""


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of the work, numbered from 0."""

    index: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def of(cls, text: str | None) -> Share:
        """Return the shard of `2/8`, of `auto` (as torchrun or SLURM says), or, of nothing, what torchrun says.

        Raises:
            ConfigError: it is no shard, or nobody says which.
        """
        if text in (None, "auto") and processes.is_launched():
            return cls(processes.rank(), processes.count())
        if text is None:
            return cls()
        if text == "auto":
            return _of_slurm()
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found or int(found[1]) >= int(found[2]):
            raise ConfigError("--shard", text, "must be I/N with I from 0 to N-1, for example 0/4, or auto")
        return cls(int(found[1]), int(found[2]))

    def order(self, units: Sequence[Unit]) -> list[int]:
        """Return the places of this shard's units, in an order that mixes large and small ones."""
        every = sorted(range(len(units)), key=lambda place: hashlib.sha256(units[place].name.encode()).digest())
        return every[self.index :: self.count]


def _of_slurm() -> Share:
    for number, total in _LAUNCHERS:
        if number in os.environ and total in os.environ:
            # An array may begin at any number.
            first = int(os.environ.get("SLURM_ARRAY_TASK_MIN", "0")) if "ARRAY" in number else 0
            step = int(os.environ.get("SLURM_ARRAY_TASK_STEP", "1")) if "ARRAY" in number else 1
            return Share((int(os.environ[number]) - first) // step, int(os.environ[total]))
    reason = "needs torchrun, `srun` or a SLURM array, which say which process this is; otherwise give I/N"
    raise ConfigError("--shard", "auto", reason)
