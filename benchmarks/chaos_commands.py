"""The commands that `chaos.py` breaks off and feeds with damaged files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

NETWORK = "--backbone test_resnet --weights {base}/weights.safetensors --image-size 32 --workers 0"
SHORT = "--method simgcd --set loss.n_hidden=16 --set loss.n_projection=8 --set training.batch_size=16"
FIT = f"--out run --cache cache --effort normal --views-per-image 1 --k 4 {SHORT} --set training.epochs=3 {NETWORK}"
RUN_RESULTS = ("results.parquet", "results.csv", "categories.csv", "features.safetensors", "model/model.safetensors")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command, what it needs, what it gives, and what a person types after it was broken off."""

    name: str
    arguments: str
    results: tuple[str, ...]
    """Patterns of the files that must come out the same to the byte."""
    needs: tuple[str, ...] = ()
    """Templates that are copied into the folder first, `NAME` or `NAME=AS`."""
    again: str = ""
    """Further arguments of the second try."""
    run: str = ""
    """The run folder it writes; a second try resumes it."""
    harmed: str = ""
    """What is damaged for it: `run` or `cache`."""

    def retry(self, folder: Path) -> str:
        """Return the arguments of the second try."""
        if not self.run:
            return f"{self.arguments} {self.again}"
        if (folder / self.run / "config.yaml").is_file():
            return f"fit --resume {self.run} --cache cache"
        shutil.rmtree(folder / self.run, ignore_errors=True)
        return self.arguments


_AS_RUN = tuple(f"run/{name}" for name in RUN_RESULTS)
COMMANDS = (
    Command(name="fit", arguments=f"fit {{base}}/images {FIT}", results=_AS_RUN, run="run"),
    Command(
        name="fit features", arguments=f"fit {{base}}/features.npz --out run --k 3..6 {SHORT} --set training.epochs=3",
        results=(*_AS_RUN[:3], "run/k.json"), run="run",
    ),
    Command(
        name="fit --from-review", arguments=f"fit --from-review run --out next --cache cache {NETWORK}",
        results=tuple(f"next/{name}" for name in RUN_RESULTS), needs=("run", "cache"), run="next", harmed="run",
    ),
    Command(
        name="predict", arguments="predict run {base}/new --out new.csv --workers 0", results=("new.csv",),
        needs=("run",), again="--overwrite", harmed="run",
    ),
    Command(
        name="predict parquet", arguments="predict run {base}/new --out new.parquet --workers 0",
        results=("new.parquet",), needs=("run",), again="--overwrite", harmed="run",
    ),
    Command(
        name="embed", arguments=f"embed {{base}}/images --out f.npy {NETWORK}", results=("f.npy", "f.csv"),
    ),
    Command(
        name="embed parquet", arguments=f"embed {{base}}/images --out f.parquet {NETWORK}", results=("f.parquet",),
        again="--overwrite",
    ),
    Command(
        name="export", arguments="export run --to csv,parquet,folders,coco,labelstudio,hf --link copy --out sorted",
        results=("sorted/**/*",), needs=("run",), harmed="run",
    ),
    Command(
        name="bench", results=("bench/*/results.parquet",),
        arguments=f"bench digits --method simgcd,kmeans --seeds 0 --out bench --cache cache --effort quick --set "
        f"reading.n_images=40 --set training.epochs=2 --set training.batch_size=16 {NETWORK}",
    ),
)  # fmt: skip
READERS = (
    *(command for command in COMMANDS if command.harmed),
    Command(
        name="resume", arguments="fit --resume run --cache cache", results=_AS_RUN, needs=("half=run", "cache"),
        run="run", harmed="run",
    ),
    Command(
        name="fit from cache", arguments=f"fit {{base}}/images {FIT}", results=_AS_RUN, needs=("cache",), run="run",
        harmed="cache",
    ),
)  # fmt: skip
"""Commands that read what other commands wrote."""
