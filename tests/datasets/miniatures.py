"""Miniature copies of the seven benchmarks in their official layouts: all classes, a few generated images of each.

Each function is called as the dataset it writes, and returns the folder to open; those with a suffix write another form
of the same dataset. An image shows the colour of its class and some noise, so that a method has something to find.
"""

import pickle
import struct
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image
from scipy.io import savemat

from nngcd.datasets.published_splits import published_split

TEST_SEED = 100_000
"""Test images show other noise than training images."""
CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()
CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
""".split()
AIRCRAFT_VARIANTS = [name.replace("_", " ") for name in """
707-320 727-200 737-200 737-300 737-400 737-500 737-600 737-700 737-800 737-900 747-100 747-200 747-300 747-400
757-200 757-300 767-200 767-300 767-400 777-200 777-300 A300B4 A310 A318 A319 A320 A321 A330-200 A330-300 A340-200
A340-300 A340-500 A340-600 A380 ATR-42 ATR-72 An-12 BAE_146-200 BAE_146-300 BAE-125 Beechcraft_1900 Boeing_717 C-130
C-47 CRJ-200 CRJ-700 CRJ-900 Cessna_172 Cessna_208 Cessna_525 Cessna_560 Challenger_600 DC-10 DC-3 DC-6 DC-8 DC-9-30
DH-82 DHC-1 DHC-6 DHC-8-100 DHC-8-300 DR-400 Dornier_328 E-170 E-190 E-195 EMB-120 ERJ_135 ERJ_145
Embraer_Legacy_600 Eurofighter_Typhoon F-16A/B F/A-18 Falcon_2000 Falcon_900 Fokker_100 Fokker_50 Fokker_70
Global_Express Gulfstream_IV Gulfstream_V Hawk_T1 Il-76 L-1011 MD-11 MD-80 MD-87 MD-90 Metroliner Model_B200 PA-28
SR-20 Saab_2000 Saab_340 Spitfire Tornado Tu-134 Tu-154 Yak-42
""".split()]  # fmt: skip


def cifar10(root: Path, *, n_per_class: int = 5) -> Path:
    classes = _shuffled(10, n_per_class)
    folder = root / "cifar-10-batches-py"
    for number, part in enumerate(np.array_split(classes, 5), start=1):
        batch = {"batch_label": f"training batch {number} of 5", "labels": part.tolist(), "data": _rows(part)}
        write_python2_pickle(folder / f"data_batch_{number}", batch)
    test = _test_classes(10)
    write_python2_pickle(folder / "test_batch", {"labels": test.tolist(), "data": _rows(test, first_seed=TEST_SEED)})
    write_python2_pickle(folder / "batches.meta", {"num_vis": 3072, "label_names": CIFAR10_NAMES})
    return root


def cifar100(root: Path, *, n_per_class: int = 2) -> Path:
    classes = _shuffled(100, n_per_class)
    for name, part, seed in (("train", classes, 0), ("test", _test_classes(100), TEST_SEED)):
        labels = {"fine_labels": part.tolist(), "coarse_labels": (part // 5).tolist()}
        write_python2_pickle(root / "cifar-100-python" / name, {"data": _rows(part, first_seed=seed), **labels})
    write_python2_pickle(root / "cifar-100-python" / "meta", {"fine_label_names": CIFAR100_NAMES})
    return root


def cifar10_png(root: Path, *, n_per_class: int = 4) -> Path:
    _class_tree(root, [f"test/{name}" for name in CIFAR10_NAMES], 1, suffix=".png", size=32, first_seed=TEST_SEED)
    return _class_tree(root, [f"train/{name}" for name in CIFAR10_NAMES], n_per_class, suffix=".png", size=32)


def cifar100_png(root: Path, *, n_per_class: int = 2) -> Path:
    return _class_tree(root, [f"train/{name}" for name in CIFAR100_NAMES], n_per_class, suffix=".png", size=32)


def imagenet100(root: Path, *, n_per_class: int = 3) -> Path:
    """The 100 classes, and one that is not among them."""
    names = [*published_split("imagenet100").class_ids, "n01440764"]
    _class_tree(root, [f"val/{name}" for name in names], 1, suffix=".JPEG", first_seed=TEST_SEED)
    return _class_tree(root, [f"train/{name}" for name in names], n_per_class, suffix=".JPEG")


def herbarium19(root: Path, *, n_per_class: int = 2) -> Path:
    _class_tree(root, [f"small-train/{number}" for number in range(683)], n_per_class)
    return _class_tree(root, [f"small-validation/{number}" for number in range(683)], 1, first_seed=TEST_SEED)


def cub(root: Path, *, n_per_class: int = 4) -> Path:
    """The last image of each class is a test image."""
    folder = root / "CUB_200_2011"
    lines: dict[str, list[str]] = {"images": [], "image_class_labels": [], "train_test_split": []}
    for number in range(1, 201):
        for place in range(n_per_class):
            image_id, name = len(lines["images"]) + 1, f"{number:03d}.Bird/Bird_{place:04d}_{number}.jpg"
            _save(folder / "images" / name, number, seed=image_id)
            lines["images"].append(f"{image_id} {name}")
            lines["image_class_labels"].append(f"{image_id} {number}")
            lines["train_test_split"].append(f"{image_id} {int(place < n_per_class - 1)}")
    lines["classes"] = [f"{number} {number:03d}.Bird" for number in range(1, 201)]
    for name, content in lines.items():
        _write_lines(folder / f"{name}.txt", content)
    return root


def fgvc_aircraft(root: Path, *, n_per_class: int = 3) -> Path:
    folder = root / "fgvc-aircraft-2013b" / "data"
    _write_lines(folder / "variants.txt", AIRCRAFT_VARIANTS)
    numbers = np.random.default_rng(0).permutation(100 * (n_per_class + 1))
    for part, first, size in (("trainval", 0, n_per_class), ("test", 100 * n_per_class, 1)):
        lines = []
        for index in range(100 * size):
            image_id, variant = f"{numbers[first + index]:07d}", index // size
            _save(folder / "images" / f"{image_id}.jpg", variant, seed=int(image_id))
            lines.append(f"{image_id} {AIRCRAFT_VARIANTS[variant]}")
        _write_lines(folder / f"images_variant_{part}.txt", lines)
    return root


def stanford_cars(root: Path, *, n_per_class: int = 3) -> Path:
    parts = (("train", _shuffled(196, n_per_class), "", 0), ("test", _test_classes(196), "_withlabels", TEST_SEED))
    for part, classes, suffix, first_seed in parts:
        for index, number in enumerate(classes.tolist()):
            _save(root / f"cars_{part}" / f"{index + 1:05d}.jpg", number + 1, seed=first_seed + index)
        write_car_annotations(root / "devkit" / f"cars_{part}_annos{suffix}.mat", classes)
    class_names = np.array([f"Car {number} 2012" for number in range(1, 197)], dtype=object)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": class_names})
    return root


def write_car_annotations(path: Path, classes: np.ndarray) -> None:
    """Write the devkit's table of images 00001.jpg and so on; `classes` count from 0, the devkit from 1."""
    fields = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"]
    annotations = np.zeros(len(classes), dtype=[(field, object) for field in fields])
    for index, number in enumerate(classes.tolist()):
        annotations[index] = (1, 1, 16, 16, number + 1, f"{index + 1:05d}.jpg")
    path.parent.mkdir(exist_ok=True)
    savemat(path, {"annotations": annotations})


def stanford_cars_csv(root: Path, *, n_per_class: int = 3) -> Path:
    """The images of `stanford_cars` by class, rows from the last to the first, and test images of the same names."""
    for part, classes, first_seed in (
        ("train", _shuffled(196, n_per_class), 0),
        ("test", _test_classes(196), TEST_SEED),
    ):
        rows = []
        for index, number in enumerate((classes + 1).tolist()):
            name = f"{index + 1:05d}.jpg"
            _save(root / "car_data" / part / f"Car {number} 2012" / name, number, seed=first_seed + index)
            rows.append(f"{name},1,1,16,16,{number}")
        _write_lines(root / f"anno_{part}.csv", rows[::-1])
    _write_lines(root / "names.csv", [f"Car {number} 2012" for number in range(1, 197)])
    return root


def write_python2_pickle(path: Path, content: dict) -> None:
    """Write a dictionary as Python 2 and an old numpy did, as the CIFAR archives have it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        _Python2Pickler(file, protocol=2).dump(content)
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))


class _Python2Pickler(pickle._Pickler):
    """Python 2 had one kind of string, of bytes, which Python 3 still reads but no longer writes."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, text: str | bytes) -> None:
        data = text.encode("latin1") if isinstance(text, str) else text
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_string


def _shuffled(n_classes: int, n_per_class: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), n_per_class))


def _test_classes(n_classes: int) -> np.ndarray:
    """One test image of each class, in another order than that of the classes."""
    return np.random.default_rng(1).permutation(n_classes)


def _rows(classes: np.ndarray, *, first_seed: int = 0) -> np.ndarray:
    images = [_pixels(int(number), seed=first_seed + index, size=32) for index, number in enumerate(classes)]
    return np.stack(images).transpose(0, 3, 1, 2).reshape(len(classes), 3072)


def _class_tree(
    root: Path, folders: list[str], n_per_class: int, *, suffix: str = ".jpg", size: int = 16, first_seed: int = 0
) -> Path:
    for number, folder in enumerate(folders):
        for place in range(n_per_class):
            path = root / folder / f"{Path(folder).name}_{place}{suffix}"
            _save(path, number, seed=first_seed + number * n_per_class + place, size=size)
    return root


def _save(path: Path, number: int, *, seed: int, size: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(_pixels(number, seed=seed, size=size)).save(path)


def _pixels(number: int, *, seed: int, size: int) -> np.ndarray:
    colour = np.random.default_rng(number).integers(30, 226, 3)
    noise = np.random.default_rng([seed, 1]).integers(-25, 26, (size, size, 3))
    return (colour + noise).astype(np.uint8)


def _write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
