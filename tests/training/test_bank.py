from __future__ import annotations

import errno
import os
import shutil
import signal
from dataclasses import replace

import forked
import numpy as np
import pytest
import torch
from PIL import Image

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import frozen
from nngcd.backbones.compiled import Compiled
from nngcd.core import processes
from nngcd.core.errors import DataError, NngcdWarning, ResourceError
from nngcd.core.progress import Progress
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset
from nngcd.training import bank_completing, bank_plan, bank_writing
from nngcd.training.bank import DiskBank
from nngcd.training.bank_completing import view_bank
from nngcd.training.bank_files import Places
from nngcd.training.bank_plan import VIEW_SEED, plan_bank
from nngcd.training.extraction import centre_features, run_tail, run_trunk
from nngcd.views.loading import ViewDataset

N_IMAGES = 20


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("resnet18", pretrained=False, image_size=32)


@pytest.fixture
def pictures(rng):
    images = rng.integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8)
    return from_arrays(images, [0, 1] * 5 + [-1] * 10)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(bank_plan, "SHARD_IMAGES", 8)


class Watching(Progress):
    def __init__(self, stop_after=None):
        self.n_images, self.said, self.stop_after = 0, [], stop_after

    def advance(self, n=1, note=""):
        self.n_images += n
        if self.stop_after is not None and self.n_images >= self.stop_after:
            raise KeyboardInterrupt

    def tell(self, text):
        self.said.append(text)


def make(backbone, split, cache, n_random=2, *, augmentation="crop", limit_gb=1.0, progress=None):
    progress = progress or Watching()
    plan = plan_bank(backbone, split, n_random=n_random, augmentation=augmentation, limit_gb=limit_gb)
    return view_bank(plan, cache=cache, n_workers=0, progress=progress), progress.n_images


def test_engines_have_a_folder_each(backbone, pictures, monkeypatch):
    plan = plan_bank(backbone, pictures, n_random=0, augmentation="crop", limit_gb=1)
    of_torch = plan.folder_name()
    monkeypatch.setattr(backbone.trunk, "compiled", Compiled(backbone.trunk.network))
    assert plan.folder_name() != of_torch


def everything(bank):
    image_nv, view_nv = torch.meshgrid(torch.arange(len(bank.file_nv)), torch.arange(bank.n_views), indexing="ij")
    return bank.take(image_nv.flatten(), view_nv.flatten()).unflatten(0, image_nv.shape)


@pytest.mark.parametrize("augmentation", ["crop", "distorted", "dino"])
def test_kept_views_are_online_views_of_the_same_seed_in_half_precision(
    backbone, pictures, tmp_path, small_shards, augmentation
):
    bank, _ = make(backbone, pictures, tmp_path, augmentation=augmentation)
    online = ViewDataset(
        pictures.images, backbone.preprocessing, seed=VIEW_SEED, n_random=2, may_flip=pictures.may_flip,
        purpose="cache", augmentation=augmentation,
    )  # fmt: skip
    hidden_nv = run_trunk(backbone, torch.stack([online[i] for i in range(N_IMAGES)]))
    assert everything(bank).dtype == torch.float16
    assert torch.allclose(everything(bank).float(), hidden_nv, rtol=2**-10, atol=1e-4)


def test_there_may_be_more_files_than_can_be_open_at_once(backbone, pictures, tmp_path):
    resource = pytest.importorskip("resource")
    bank, _ = make(backbone, pictures, tmp_path)
    file_nv = torch.cat([bank.file_nv + len(bank.files) * i for i in range(400)])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        many = DiskBank(bank.files * 400, file_nv, bank.row_nv.repeat(400, 1))
        image_b = torch.arange(0, 400 * N_IMAGES, N_IMAGES)
        hidden_b = many.take(image_b, torch.arange(400) % 3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert torch.equal(hidden_b[:3], everything(bank)[0])


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_divide_the_list_that_the_first_one_made(
    backbone, pictures, tmp_path, small_shards, monkeypatch, rank
):
    # As if another run had written images 8 to 15, and a view of the last four.
    told = Places(["other.npy"], np.zeros((N_IMAGES, 2), dtype=int), np.zeros((N_IMAGES, 2), dtype=int))
    told.file_nv[:8], told.file_nv[16:, 1] = -1, -1
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(processes, "rank", lambda: rank)
    monkeypatch.setattr(processes, "wait", lambda: None)
    monkeypatch.setattr(processes, "from_first", lambda value: told)
    monkeypatch.setattr(processes, "in_all", lambda holds: holds)
    monkeypatch.setattr(bank_completing, "DiskBank", lambda files, file_nv, row_nv: "a bank")
    _, n_computed = make(backbone, pictures, tmp_path, n_random=1)
    assert n_computed == [4, 8][rank]
    assert len(list(tmp_path.rglob("*.npy"))) == [1, 2][rank]


def test_a_disk_that_fills_up_is_a_clear_error(backbone, pictures, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(ResourceError, match="No space left"):
        make(backbone, pictures, tmp_path)
    # A list of views that are not there is no harm.
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {".keys"}


def test_a_cache_that_is_deleted_during_a_run_changes_nothing(backbone, pictures, tmp_path, small_shards):
    expected = everything(make(backbone, pictures, tmp_path / "other")[0])
    bank, _ = make(backbone, pictures, tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    assert torch.equal(everything(bank), expected)


def test_a_cache_that_is_deleted_before_it_is_mapped_is_said_to_be(backbone, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "wait", lambda: shutil.rmtree(tmp_path / "cache"))
    with pytest.raises(ResourceError, match=r"R05: .*\.npy was deleted while the cache was in use.*nngcd fit --resume"):
        make(backbone, pictures, tmp_path / "cache")


def test_parts_that_another_run_puts_together_before_they_are_mapped_are_looked_for_again(
    backbone, pictures, tmp_path, monkeypatch, small_shards
):
    expected = everything(make(backbone, pictures, tmp_path / "other")[0])
    make(backbone, pictures, tmp_path / "cache")
    map_files, n_gone = bank_completing.DiskBank, 0

    def deleting(files, file_nv, row_nv):
        nonlocal n_gone
        if n_gone < 3:  # between finding and mapping
            files[0].unlink()
            n_gone += 1
        return map_files(files, file_nv, row_nv)

    monkeypatch.setattr(bank_completing, "DiskBank", deleting)
    bank, _ = make(backbone, pictures, tmp_path / "cache")
    assert (n_gone, torch.equal(everything(bank), expected)) == (3, True)


def test_a_cache_that_is_deleted_while_it_is_written_is_said_to_be(backbone, pictures, tmp_path):
    class Deleting(Watching):
        def advance(self, n=1, note=""):
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)

    with pytest.raises(ResourceError, match=r"R01: .*\.npy: No such file.*folder is gone.*nngcd fit --resume"):
        make(backbone, pictures, tmp_path / "cache", progress=Deleting())


@pytest.mark.parametrize("n_workers", [0, 1])
def test_an_image_that_is_gone_is_named(backbone, tmp_path, rng, n_workers):
    folder = tmp_path / "images"
    (folder / "a").mkdir(parents=True)
    for i in range(4):
        pixels = rng.integers(0, 255, size=(40, 40, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / ("a" if i < 2 else ".") / f"{i}.png")
    split, _ = open_dataset(str(folder))
    plan = plan_bank(backbone, split, n_random=1, augmentation="crop", limit_gb=1)
    (folder / "3.png").unlink()
    with pytest.raises(DataError, match=r"^D04: cannot open image '.*3\.png': No such file.*continue with --resume\.$"):
        view_bank(plan, cache=tmp_path / "cache", n_workers=n_workers, progress=Progress())


def test_a_batch_is_taken_in_its_order_also_across_files(backbone, pictures, tmp_path, small_shards):
    bank, _ = make(backbone, pictures, tmp_path)
    hidden_nv = everything(bank)
    image_b, view_b = torch.tensor([19, 0, 7, 8, 7, 19]), torch.tensor([2, 0, 1, 1, 1, 0])
    assert torch.equal(bank.take(image_b, view_b), hidden_nv[image_b, view_b])


def test_the_second_run_reads_what_the_first_one_kept(backbone, pictures, tmp_path):
    first, n_computed = make(backbone, pictures, tmp_path)
    again, n_computed_again = make(backbone, pictures, tmp_path)
    assert (n_computed, n_computed_again) == (N_IMAGES, 0)
    assert torch.equal(everything(first), everything(again))
    assert torch.equal(everything(first), everything(make(backbone, pictures, None)[0]))


@pytest.mark.slow
def test_more_views_add_to_those_that_are_there(backbone, pictures, tmp_path):
    few, _ = make(backbone, pictures, tmp_path, n_random=1)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    more, _ = make(backbone, pictures, tmp_path, n_random=3)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert torch.equal(everything(few), everything(more)[:, :2])
    assert torch.equal(everything(more), everything(make(backbone, pictures, None, n_random=3)[0]))
    assert make(backbone, pictures, tmp_path, n_random=2)[1] == 0


def test_an_interrupted_bank_goes_on_where_it_stopped(backbone, pictures, tmp_path, small_shards, monkeypatch):
    monkeypatch.setattr(bank_writing, "IMAGES_PER_READ", 2)
    with pytest.raises(KeyboardInterrupt, match=f"the features of 10 of {N_IMAGES} images are kept in"):
        make(backbone, pictures, tmp_path, progress=Watching(stop_after=10))
    assert not list(tmp_path.rglob("*.tmp"))
    bank, n_computed = make(backbone, pictures, tmp_path)
    assert n_computed == N_IMAGES - 10
    assert torch.equal(everything(bank), everything(make(backbone, pictures, None)[0]))


def test_parts_go_when_their_file_is_whole(backbone, pictures, tmp_path, small_shards, monkeypatch):
    monkeypatch.setattr(bank_writing, "IMAGES_PER_READ", 2)
    monkeypatch.setattr(bank_writing, "SECONDS_PER_PART", 0.0)
    make(backbone, pictures, tmp_path)
    assert len(list(tmp_path.rglob("*.npy"))) == 9  # three views in files of 8, 8 and 4 images
    assert len(list(tmp_path.rglob("*.keys"))) == 6


def test_a_file_of_one_slow_read_is_written_once(backbone, pictures, tmp_path, monkeypatch):
    """All of it is read at once, so a part would have the name of the whole file and take it along when it goes."""
    monkeypatch.setattr(bank_writing, "SECONDS_PER_PART", 0.0)
    monkeypatch.setattr(bank_writing, "IMAGES_PER_READ", N_IMAGES)
    assert make(backbone, pictures, tmp_path)[1] == N_IMAGES
    assert make(backbone, pictures, tmp_path)[1] == 0


def test_parts_that_another_run_puts_together_meanwhile_are_found_again(backbone, pictures, tmp_path, monkeypatch):
    expected = everything(make(backbone, pictures, tmp_path)[0])
    find, calls = bank_completing.find_views, []

    def find_what_is_gone_then(*arguments):
        places = find(*arguments)
        if not calls:
            places.files[0] = "gone.npy"
        calls.append(places)
        return places

    monkeypatch.setattr(bank_completing, "find_views", find_what_is_gone_then)
    bank, n_computed = make(backbone, pictures, tmp_path)
    assert n_computed == 0 and len(calls) == 2
    assert torch.equal(everything(bank), expected)


SCRIPT = """import os, signal, sys, numpy as np
from pathlib import Path
from nngcd.backbones import load_backbone
from nngcd.core.progress import Progress
from nngcd.datasets.arrays import from_arrays
from nngcd.training import bank_plan, bank_writing, bank_completing
bank_writing.IMAGES_PER_READ, bank_writing.SECONDS_PER_PART = 2, 0.0
kill_after = int(sys.argv[2])
class Killing(Progress):
    n_done = 0
    def advance(self, n=1, note=""):
        self.n_done += n
        if self.n_done == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
backbone = load_backbone("resnet18", pretrained=False, image_size=32)
pictures = from_arrays(np.random.default_rng(0).integers(0, 255, size=(20, 40, 40, 3)).astype(np.uint8))
plan = bank_plan.plan_bank(backbone, pictures, n_random=2, augmentation="crop", limit_gb=1)
progress = Killing()
bank_completing.view_bank(plan, cache=Path(sys.argv[1]), n_workers=0, progress=progress)
print(progress.n_done)
"""
"""Writes a part of the bank after each pair of images, and kills itself after so many."""


@pytest.fixture
def write_bank(tmp_path):
    return lambda kill_after: forked.script(SCRIPT, tmp_path / "cache", kill_after)


@pytest.mark.slow
def test_a_killed_process_loses_the_last_part_only(write_bank):
    assert bank_writing.SECONDS_PER_PART <= 10
    assert write_bank(10).wait() == -signal.SIGKILL
    again = write_bank(0)
    assert (int(again.communicate()[0]), again.returncode) == (10, 0)


@pytest.mark.slow
def test_two_runs_share_a_cache_at_once(write_bank, backbone, tmp_path):
    runs = [write_bank(0) for _ in range(2)]
    for run in runs:
        run.communicate()
    assert [run.returncode for run in runs] == [0, 0]
    assert not list(tmp_path.rglob("*.tmp"))
    images = np.random.default_rng(0).integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8)
    bank, n_computed = make(backbone, from_arrays(images), tmp_path / "cache", n_random=2)
    assert n_computed == 0
    assert torch.equal(everything(bank), everything(make(backbone, from_arrays(images), None, n_random=2)[0]))


def test_views_that_are_kept_already_are_found_by_the_same_keys(backbone):
    """Crops and distorted views have the keys they always had."""
    split = from_arrays(np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3))

    def keys(augmentation):
        return plan_bank(backbone, split, n_random=1, augmentation=augmentation, limit_gb=1).keys().of_view(1).tolist()

    assert keys("crop") == [b"4b7a9ddf351a0f9d5ffb08bf25872ed1", b"6e73fd1223c2962302115ada134ed45e"]
    assert keys("distorted") == [b"f101a89af3ca665fbf39287f473253de", b"53aa9e1f1673508dba78d39ced1d9102"]


@pytest.mark.slow
def test_other_images_views_or_weights_are_not_mixed_up(backbone, pictures, tmp_path, rng):
    make(backbone, pictures, tmp_path)
    others = from_arrays(rng.integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8))
    assert make(backbone, others, tmp_path)[1] == N_IMAGES
    for augmentation in ("distorted", "affine", "randaugment", "dino"):
        assert make(backbone, pictures, tmp_path, augmentation=augmentation)[1] == N_IMAGES
    assert make(backbone, replace(pictures, may_flip=not pictures.may_flip), tmp_path)[1] == N_IMAGES
    other_weights = load_backbone("resnet18", pretrained=False, image_size=32)
    other_weights.network.conv1.weight.data.add_(0.1)
    assert make(other_weights, pictures, tmp_path)[1] == N_IMAGES
    assert make(frozen(backbone), pictures, tmp_path)[1] == N_IMAGES
    other_size = load_backbone("resnet18", pretrained=False, image_size=24)
    assert make(other_size, pictures, tmp_path)[1] == N_IMAGES


def test_views_in_half_precision_are_kept_apart(backbone, pictures, tmp_path):
    full = everything(make(backbone, pictures, tmp_path)[0]).float()
    backbone.trunk.precision = "bf16-mixed"
    try:
        bank, n_computed = make(backbone, pictures, tmp_path)
    finally:
        backbone.trunk.precision = "32-true"
    assert n_computed == N_IMAGES
    assert not torch.equal(everything(bank).float(), full)
    assert torch.allclose(everything(bank).float(), full, rtol=0.05, atol=0.1 * float(full.abs().max()))


def test_what_killed_processes_left_is_removed_after_a_day(backbone, pictures, tmp_path):
    make(backbone, pictures, tmp_path)
    (folder,) = tmp_path.iterdir()
    old, new = folder / ".a.npy.89abcdef-1-0123abcd.tmp", folder / ".b.npy.89abcdef-2-0123abcd.tmp"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    make(backbone, pictures, tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_changed_image_costs_no_other_ones_views(backbone, rng, tmp_path, small_shards):
    images = rng.integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8)
    make(backbone, from_arrays(images.copy()), tmp_path)
    images[12] = 0
    changed = from_arrays(images)
    bank, n_computed = make(backbone, changed, tmp_path)
    assert n_computed == 1
    assert torch.equal(everything(bank), everything(make(backbone, changed, None)[0]))


@pytest.mark.parametrize(
    ("chosen", "n_new"),
    [
        ([3, 5, 6, 17], 0),  # some of the images, as in a study on hidden classes
        ([*range(10), "other", *range(10, 20)], 1),  # a picture more, which moves those behind it
        (list(range(19, -1, -1)), 0),
        ([4, 4, 4], 0),
    ],
)
def test_images_in_other_places_keep_their_centre_views(backbone, rng, tmp_path, small_shards, chosen, n_new):
    images = rng.integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8)
    make(backbone, from_arrays(images), tmp_path)
    other = rng.integers(0, 255, size=(40, 40, 3)).astype(np.uint8)
    split = from_arrays(np.stack([other if i == "other" else images[i] for i in chosen]))
    bank, n_computed = make(backbone, split, tmp_path, n_random=0)
    assert n_computed == n_new
    assert torch.equal(everything(bank), everything(make(backbone, split, None, n_random=0)[0]))


def test_random_views_of_images_in_other_places_are_drawn_anew(backbone, rng, tmp_path, small_shards):
    images = rng.integers(0, 255, size=(N_IMAGES, 40, 40, 3)).astype(np.uint8)
    make(backbone, from_arrays(images), tmp_path)
    swapped = from_arrays(images[[1, 0, *range(2, N_IMAGES)]])
    bank, n_computed = make(backbone, swapped, tmp_path)
    assert n_computed == 2
    assert torch.equal(everything(bank), everything(make(backbone, swapped, None)[0]))


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"a\nb\nc"])
def test_views_whose_list_is_damaged_are_computed_again(backbone, pictures, tmp_path, small_shards, content):
    first = everything(make(backbone, pictures, tmp_path)[0]).clone()
    for path in tmp_path.rglob("*.keys"):
        path.write_bytes(content)
    again, n_computed = make(backbone, pictures, tmp_path)
    assert n_computed == N_IMAGES
    assert torch.equal(first, everything(again))
    assert make(backbone, pictures, tmp_path)[1] == 0


def test_a_damaged_file_is_computed_again(backbone, pictures, tmp_path):
    first = everything(make(backbone, pictures, tmp_path)[0]).clone()
    kept = sorted(tmp_path.rglob("*.npy"))
    kept[1].write_bytes(kept[1].read_bytes()[:200])
    kept[2].write_bytes(b"")
    again, n_computed = make(backbone, pictures, tmp_path)
    assert n_computed == N_IMAGES
    assert torch.equal(first, everything(again))


@pytest.mark.parametrize("damage", ["zeroed", "one bit", "older"])
def test_a_file_of_the_right_shape_with_other_numbers_is_computed_again(backbone, pictures, tmp_path, damage):
    first = everything(make(backbone, pictures, tmp_path)[0]).clone()
    path = sorted(tmp_path.rglob("*.npy"))[0]
    whole = path.read_bytes()
    content = bytearray(whole)
    if damage == "zeroed":  # a quarter of it, as a power failure leaves it
        content[len(content) // 2 : len(content) * 3 // 4] = bytes(len(content) * 3 // 4 - len(content) // 2)
    elif damage == "one bit":
        content[len(content) // 2] ^= 0x40
    else:  # as versions without a digest wrote it
        content = content[:-32]
    path.write_bytes(content)
    again, n_computed = make(backbone, pictures, tmp_path)
    assert n_computed == N_IMAGES
    assert torch.equal(first, everything(again))
    assert path.read_bytes() == whole


def test_an_image_that_changes_after_it_was_hashed_does_not_enter_the_cache(backbone, image_folder, tmp_path):
    split, _ = open_dataset(str(image_folder))
    path = image_folder / split.table["file_name"][3]
    first = path.read_bytes()
    path.write_bytes((image_folder / split.table["file_name"][7]).read_bytes())
    with pytest.raises(DataError, match=r"D04: '.*' changed while the run was reading it\. Run the same command again"):
        make(backbone, split, tmp_path / "cache")
    path.write_bytes(first)
    bank, _ = make(backbone, split, tmp_path / "cache")
    assert torch.equal(everything(bank), everything(make(backbone, split, None)[0]))


def test_a_bank_that_is_too_large_is_refused_before_anything_is_computed(backbone, pictures, tmp_path, monkeypatch):
    with pytest.raises(ResourceError, match=r"20 images x 3 views, 0\.1 MB\) takes more than the 0\.0001 GB.*--bank"):
        make(backbone, pictures, tmp_path, limit_gb=1e-4)
    monkeypatch.setattr(bank_completing.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(ResourceError, match=r"free\. Use fewer views .*--views-per-image online"):
        make(backbone, pictures, tmp_path)
    assert not list(tmp_path.rglob("*.npy"))


def test_a_large_bank_is_announced(backbone, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(bank_completing, "SHARD_BYTES", 10_000)
    progress = Watching()
    make(backbone, pictures, tmp_path, progress=progress)
    assert progress.said == [f"view bank: 20 images x 3 views, 0.1 MB, in {next(tmp_path.iterdir())}"]


def test_hidden_states_too_large_for_half_precision_are_refused(backbone, pictures, tmp_path):
    loud = replace(backbone, split=lambda network: (torch.nn.Sequential(Louder()), torch.nn.Identity()))
    with pytest.raises(DataError, match=r"half precision.*--views-per-image online"):
        make(loud, pictures, tmp_path)


class Louder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(1e6))

    def forward(self, images):
        return self.gain * images.flatten(1)[:, :4]


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(backbone, pictures, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.warns(NngcdWarning, match="not kept for later runs"):
        bank, _ = make(backbone, pictures, tmp_path / "cache")
    assert torch.equal(everything(bank), everything(make(backbone, pictures, None)[0]))


def test_features_of_the_quick_effort_have_the_length_of_their_scale(backbone, pictures):
    hidden_nv = everything(make(frozen(backbone), pictures, None)[0])
    assert torch.allclose(hidden_nv.float().norm(dim=-1), torch.tensor(20.0).sqrt(), atol=0.01)


def test_centre_features_are_those_of_the_kept_centre_view(backbone, pictures):
    bank, _ = make(backbone, pictures, None)
    streamed = torch.cat(list(centre_features(backbone, pictures.images, n_workers=0, progress=Progress())))
    image_n = torch.arange(N_IMAGES)
    assert torch.allclose(streamed, run_tail(backbone, bank.take(image_n, torch.zeros_like(image_n))), atol=2e-2)
    some = centre_features(backbone, pictures.images, rows=slice(5, 9), n_workers=0, progress=Progress())
    assert torch.allclose(torch.cat(list(some)), streamed[5:9], atol=1e-5)
