"""Speed of a training step, from the view bank and online, against a loop that passes every view through twice.

The reference does what the published loop does: student and teacher each run the whole network on every view, the last
block is trained. All sides have the same heads, loss and optimiser; images are decoded beforehand for all of them.

python benchmarks/training.py --assert
python benchmarks/training.py --short
"""

from __future__ import annotations

import copy
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from measuring import Target, begin, end, fastest, parser_with_targets
from nngcd.backbones import load_backbone
from nngcd.backbones.class_token import class_token_output
from nngcd.core.progress import Progress
from nngcd.datasets.arrays import from_arrays
from nngcd.methods.contract import Batch, Moment, Overview
from nngcd.training import loop
from nngcd.training.bank import DiskBank
from nngcd.training.bank_completing import view_bank
from nngcd.training.bank_plan import plan_bank
from nngcd.training.extraction import run_trunk
from nngcd.training.learner import Learner
from nngcd.training.model import Blueprint, Model
from nngcd.training.sources import BankViews, BatchSource, HiddenBatch

SIZE, N_OLD, N_VIEWS, SHARD = 224, 100, 11, 128
RUN_IMAGES, RUN_EPOCHS = 5_994, 200  # CUB, as in the paper
MOMENT = Moment(0, 1, 0, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What is measured."""

    backbone: str = "vit_small_patch16_224"
    n_clusters: int = 200
    batch: int = 128
    reference_images: int = 32
    """Images of a batch that the reference and the trunk are timed on; their time is scaled up to the whole batch."""
    bank_images: int = 512
    n_steps: int = 4
    n_rounds: int = 3


SHORT = Sizes(backbone="vit_tiny_patch16_224", reference_images=8, bank_images=256, n_steps=2, n_rounds=2)


def main() -> None:
    """Measure everything and print one line per target."""
    arguments = parser_with_targets(__doc__).parse_args()
    sizes = SHORT if arguments.short else Sizes()
    begin(arguments, sizes.n_rounds)
    views_bv = torch.randint(0, 255, (sizes.reference_images, 2, 3, SIZE, SIZE), dtype=torch.uint8)
    scale = sizes.batch / sizes.reference_images
    with tempfile.TemporaryDirectory() as folder:
        small, large = (Setup(sizes, Path(folder) / str(n), n) for n in (sizes.bank_images, 2 * sizes.bank_images))
        reference = TwoPasses(sizes)
        hidden_btd = torch.randn(2 * sizes.reference_images, *small.hidden_shape)
        two_passes, trunk, writing, from_bank, warm, warm_larger, part, whole_block, short_block = fastest(
            lambda: reference.step(views_bv),
            lambda: run_trunk(small.model.backbone, views_bv),
            lambda: extract(small.model, sizes.reference_images),
            large.train,
            partial(small.train, is_cold=False),
            partial(large.train, is_cold=False),
            small.profile,
            lambda: small.block(hidden_btd)[:, :1].sum().backward(),
            lambda: class_token_output(small.block, hidden_btd).sum().backward(),
            n_rounds=sizes.n_rounds,
            is_wall=True,  # reading from the disk is part of it
        )
    two_passes, trunk = two_passes * scale, trunk * scale
    from_bank, head = from_bank / sizes.n_steps, part / sizes.n_steps
    online, extraction = trunk + from_bank, writing / (3 * sizes.reference_images)
    n_steps = RUN_EPOCHS * (RUN_IMAGES // sizes.batch)
    whole = n_steps * two_passes / (RUN_IMAGES * N_VIEWS * extraction + n_steps * from_bank)
    print(f"\nOne step of NN-GCD: {sizes.backbone}, {SIZE} px, {sizes.batch} images x 2 views, K = {sizes.n_clusters}")
    print(f"  two passes, as published {two_passes:.1f} s, online {online:.1f} s, from the bank {from_bank:.2f} s")
    print(f"  (two passes and the online step's trunk scaled from {sizes.reference_images} images)")
    print(f"  of a step from the bank: heads, loss and optimiser {head:.2f} s, the rest is reading and the last block")
    print(f"  the last block alone, {len(hidden_btd)} views: timm's {1000 * whole_block:.0f} ms, "
          f"the class token only {1000 * short_block:.0f} ms")  # fmt: skip
    print(
        f"  writing the bank {1 / extraction:.0f} views/s; a whole run of {RUN_IMAGES:,} images, {RUN_EPOCHS} epochs:"
    )
    hours = [n / 3600 for n in (n_steps * two_passes, RUN_IMAGES * N_VIEWS * extraction, n_steps * from_bank)]
    print(
        "  published {:.0f} h; a bank of 10 views and the centre one {:.1f} h, training from it {:.1f} h".format(*hours)
    )
    memory = {side: peak_memory(side, arguments.short) for side in ("two-passes", "from-bank")}
    print("  peak resident memory: " + ", ".join(f"{side} {gigabytes:.1f} GB" for side, gigabytes in memory.items()))
    end(arguments, [
        Target("step: published time / ours from the bank", two_passes / from_bank, 20, is_minimum=True),
        Target("step: published time / ours online", two_passes / online, 1.8, is_minimum=True),
        Target("whole run, extraction included: published time / ours", whole, 15, is_minimum=True),
        Target("twice the images, all in memory: time of a step / before", warm_larger / warm, 1.3),
        Target("peak memory of a step: ours from the bank / published", memory["from-bank"] / memory["two-passes"], 1),
    ])  # fmt: skip


def make_model(sizes: Sizes) -> Model:
    """Return NN-GCD on a transformer with random weights."""
    backbone = load_backbone(sizes.backbone, pretrained=False, image_size=SIZE)
    blueprint = Blueprint(
        backbone=sizes.backbone, effort="normal", tail_blocks=1, image_size=SIZE, method="nngcd", loss={},
        n_features=None, n_clusters=sizes.n_clusters, n_old=N_OLD,
    )  # fmt: skip
    return Model.assemble(blueprint, backbone, seed=0)


def make_labels(n: int) -> np.ndarray:
    """Return labels of which a quarter are given, as in CUB."""
    return np.where(np.arange(n) % 4 == 0, np.arange(n) // 4 % N_OLD, -1)


def extract(model: Model, n_images: int) -> None:
    """Write the centre view and two random ones of some images into a bank."""
    images = np.zeros((n_images, 256, 256, 3), dtype=np.uint8)
    plan = plan_bank(model.backbone, from_arrays(images), n_random=2, augmentation="crop", limit_gb=10)
    view_bank(plan, cache=None, n_workers=0, progress=Progress())


class TwoPasses:
    """The published loop: every view through the whole student and the whole teacher."""

    def __init__(self, sizes: Sizes) -> None:
        model = make_model(sizes)
        self.preprocessing, self.method = model.backbone.preprocessing, model.method
        self.student = copy.deepcopy(model.backbone.network).requires_grad_(False).eval()
        self.student.blocks[-1].requires_grad_(True)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        trained = [p for module in (self.student, self.method) for p in module.parameters() if p.requires_grad]
        self.optimiser = torch.optim.SGD(trained, 0.01, momentum=0.9)

    def step(self, views_bv: Tensor) -> None:
        """Train on one batch."""
        images = self.preprocessing.normalise(views_bv.transpose(0, 1).flatten(0, 1))
        features_vbd = self.student(images).unflatten(0, (2, -1))
        with torch.no_grad():
            teacher_vbd = self.teacher(images).unflatten(0, (2, -1))
        labels_b = torch.from_numpy(make_labels(len(views_bv)))
        terms = self.method.loss(Batch(features_vbd, labels_b, MOMENT, torch.arange(len(views_bv)), teacher_vbd))
        self.optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        self.optimiser.step()
        self.method.after_step(MOMENT)


class Setup:
    """Our training from a bank on disk."""

    def __init__(self, sizes: Sizes, folder: Path, n_images: int) -> None:
        self.sizes, self.model = sizes, make_model(sizes)
        self.block = self.model.backbone.tail.network.blocks[-1]
        self.hidden_shape = run_trunk(self.model.backbone, torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8)).shape[1:]
        self.files = write_bank(folder, n_images, self.hidden_shape)
        self.n_images = n_images

    def train(self, *, is_cold: bool = True) -> None:
        """Train some steps; if cold, the files are read from the disk, not from memory."""
        for path in self.files if is_cold else ():
            forget(path)
        # A new bank each time: what is mapped is not forgotten.
        image_n1, view_v = torch.arange(self.n_images)[:, None], torch.arange(N_VIEWS)
        file_nv, row_nv = image_n1 // SHARD * N_VIEWS + view_v, (image_n1 % SHARD).expand(-1, N_VIEWS)
        bank, labels = DiskBank(self.files, file_nv, row_nv), make_labels(self.n_images)
        source = BankViews(bank, labels, "two-random", batch_size=self.sizes.batch, seed=0)
        self._train(Learner(self.model.backbone.tail, self.model.method), source)

    def profile(self) -> None:
        """Train as many steps of heads and loss alone, on features that are there already."""
        labels_b = torch.from_numpy(make_labels(self.sizes.batch))
        features_vbd = torch.randn(2, self.sizes.batch, self.model.backbone.n_features)
        views = HiddenBatch(features_vbd, labels_b, torch.arange(self.sizes.batch), self.sizes.batch)
        self._train(Learner(torch.nn.Identity(), self.model.method), Repeated(views))

    def _train(self, learner: Learner, source: BatchSource) -> None:
        fabric, config = Fabric(accelerator="cpu", devices=1), loop.TrainingSettings(epochs=1, learning_rate=0.01)
        some = First(source, self.sizes.n_steps)
        loop.train(learner, some, config, overview=_unseen, fabric=fabric, run=None, progress=Progress())


@dataclass(frozen=True, slots=True)
class Repeated:
    """A source that gives one batch for ever."""

    views: HiddenBatch
    n_batches: int = 1_000

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batch."""
        for _ in range(self.n_batches):
            yield self.views


@dataclass(frozen=True, slots=True)
class First:
    """The first batches of a source, over and over if it has too few."""

    source: BatchSource
    n_batches: int

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches."""
        n_given = 0
        while n_given < self.n_batches:
            for views in self.source.batches(n_given):
                yield views
                n_given += 1
                if n_given == self.n_batches:
                    return


def write_bank(folder: Path, n_images: int, hidden_shape: tuple[int, ...]) -> list[Path]:
    """Write made-up hidden states of the centre view and ten random ones, and return the files, shard by shard."""
    folder.mkdir(parents=True)
    some = np.random.default_rng(0).standard_normal((SHARD, *hidden_shape), dtype=np.float32).astype(np.float16)
    files = [folder / f"{shard}-{view}.npy" for shard in range(n_images // SHARD) for view in range(N_VIEWS)]
    for path in files:
        np.save(path, some)
    return files


def forget(path: Path) -> None:
    """Have the system drop what it holds of a file in memory."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_memory(side: str, is_short: bool) -> float:
    """Return the peak resident memory of one whole step in a fresh process, in GB."""
    command = [sys.executable, __file__, "one-step", side, *(["--short"] if is_short else [])]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def one_step(side: str, sizes: Sizes) -> None:
    """Take one step and print the peak resident memory in GB."""
    if side == "two-passes":
        TwoPasses(sizes).step(torch.zeros(sizes.batch, 2, 3, SIZE, SIZE, dtype=torch.uint8))
    else:
        with tempfile.TemporaryDirectory() as folder:
            Setup(sizes, Path(folder) / "bank", sizes.bank_images).train()
    unit = 1 if sys.platform == "darwin" else 1024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9)


def _unseen(epoch: int) -> Overview:
    raise AssertionError("nothing is looked at between epochs")


if __name__ == "__main__":
    if sys.argv[1:2] == ["one-step"]:
        one_step(sys.argv[2], SHORT if "--short" in sys.argv else Sizes())
    else:
        main()
