"""Bad input, case by case (docs/reference/bad-input.md): exit code, message, and not a byte of the data changed.

Every case is generated here and given to `nngcd check`; what stops a check must stop `nngcd fit` with the same code.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.opening import open_dataset


def pixels(seed: int, size: tuple[int, int] = (24, 20)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def put(path: Path, image: Image.Image | bytes, **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(image, bytes):
        path.write_bytes(image)
    else:
        image.save(path, **options)


def folder(root: Path, *, n_labelled: int = 5, n_unlabelled: int = 8, names: tuple[str, ...] = ("owl", "crow")) -> None:
    """Categories of a few images, and some to be sorted; no two alike."""
    for place, name in enumerate(names):
        for i in range(n_labelled):
            put(root / name / f"{i}.png", pixels(100 * place + i))
    for i in range(n_unlabelled):
        put(root / "_unlabelled" / f"{i}.png", pixels(10_000 + i))


def table(root: Path, text: str, *, n: int = 12, encoding: str = "utf-8", name: str = "labels.csv") -> None:
    """A table beside the images img/0.png, img/1.png, ..."""
    for i in range(n):
        put(root / "img" / f"{i}.png", pixels(i))
    (root / name).write_bytes(text.encode(encoding))


def rows(n: int = 12, header: str = "file_name,label", mark: str = ",") -> str:
    """A good table: five owls, five crows, the rest unlabelled."""
    labels = ["owl"] * 5 + ["crow"] * 5 + [""] * (n - 10)
    return header + "\n" + "".join(f"img/{i}.png{mark}{label}\n" for i, label in enumerate(labels))


def encoded(image: Image.Image, format: str = "JPEG", **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG of 40,000 x 40,000 pixels in some hundred bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 40_000, 40_000, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@dataclass(frozen=True)
class Case:
    """What is given, and what the user must see."""

    name: str
    make: Callable[[Path], None]
    texts: tuple[str, ...]
    code: int = 0
    flags: tuple[str, ...] = ()
    data: str = ""
    stops_fit: bool = False
    expect: dict[str, object] = field(default_factory=dict)
    """Numbers of summary.json."""

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(name, *texts, code=0, flags=(), data="", expect=None):
    """Add the decorated function, which makes the data, as a case; what exits with a code must stop a fit, too."""

    def add(make: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES.append(Case(name, make, texts, code, tuple(flags), data, code != 0, expect or {}))
        return make

    return add


@case("D01 no such folder", "not found; expected a folder", "Did you mean", code=2, data="dta")
def _(root):
    folder(root)


@case("D02 empty folder", "D02: no images", "found 0 files", code=3)
def _(root):
    root.mkdir()


@case("D02 only RAW files", "found 3 files: 2 .cr2, 1 .txt", "RAW is not supported; convert", code=3)
def _(root):
    for name in ("1.cr2", "2.cr2", "notes.txt"):
        put(root / "owl" / name, b"II*\0")


@case("D03 broken files", "D03  3 files cannot be read", "truncated (1)", "0 bytes (1)", "not an image (HTML page) (1)",
      "Ready", expect={"n_images": 40, "n_labelled": 10})  # fmt: skip
def _(root):
    folder(root, n_unlabelled=30)
    put(root / "_unlabelled" / "t.jpg", encoded(pixels(1))[:300])
    put(root / "_unlabelled" / "empty.jpg", b"")
    put(root / "_unlabelled" / "page.jpg", b"<html>404</html>")


@case("D03 nothing that can be read", "D03  2 files cannot be read", "Not ready", "add readable images, then:", code=3)
def _(root):
    for name in ("a", "b"):
        put(root / "crow" / f"{name}.png", b"")


@case("D03 too many broken files", "D03  3 files cannot be read", "Not ready", "--allow-bad 0.15", code=3)
def _(root):
    folder(root)
    for name in ("a", "b", "c"):
        put(root / "crow" / f"{name}.png", b"")


@case("D03 too many broken files, allowed", "Ready", flags=["--allow-bad", "0.2"], expect={"n_images": 18})
def _(root):
    folder(root)
    for name in ("a", "b", "c"):
        put(root / "crow" / f"{name}.png", b"")


@case("D05 no labels", "D05  no labels", "only grouped", "Ready", expect={"n_labelled": 0, "n_unlabelled": 8})
def _(root):
    folder(root, names=())


@case("D06 everything is labelled", "D06", "nothing to sort", code=3)
def _(root):
    folder(root, n_unlabelled=0)


@case("D07 names that look alike", "D07  2 category names look alike: 'Copepoda ' (5) and 'copepoda' (5)",
      "--same 'Copepoda =copepoda'", expect={"categories": {"Copepoda ": 5, "copepoda": 5}})  # fmt: skip
def _(root):
    folder(root, names=("Copepoda ", "copepoda"))


@case("D07 a letter is wrong", "D07  2 category names look alike: 'Chaetognata' (5) and 'Chaetognatha' (5)")
def _(root):
    folder(root, names=("Chaetognatha", "Chaetognata"))


@case("D07 said to be the same", "Ready", flags=["--same", "Copepoda=copepoda "],
      expect={"categories": {"Copepoda": 10}})  # fmt: skip
def _(root):
    folder(root, names=("Copepoda", "copepoda "))


@case("D08 an unclear name", "D08  5 images labelled 'unknown'", "--unlabelled unknown", "--category unknown", code=3)
def _(root):
    folder(root, names=("owl", "unknown"))


@case("D08 what is no category as a folder", "D08  5 images labelled 'Unlabelled'", "--unlabelled Unlabelled", code=3,
      data="data/labels.csv")  # fmt: skip
def _(root):
    table(root, rows().replace("crow", "Unlabelled"))


@case("D08 settled as no label", "Ready", flags=["--unlabelled", "unknown"], expect={"categories": {"owl": 5}})
def _(root):
    folder(root, names=("owl", "unknown"))


@case("D08 settled as a category", "Ready", flags=["--category", "unknown"],
      expect={"categories": {"owl": 5, "unknown": 5}})  # fmt: skip
def _(root):
    folder(root, names=("owl", "unknown"))


@case("D09 one known category", "D09  only one known category, 'owl'", "Ready")
def _(root):
    folder(root, names=("owl",))


@case("D10 few labels", "D10  2 categories with fewer than 5 images: 'crow', 'owl'", "Ready")
def _(root):
    folder(root, n_labelled=1)


@case("D11 one file name in two folders", "Ready", expect={"n_images": 18, "n_duplicate_groups": 0})
def _(root):
    folder(root)


@case("D12 exact duplicates", "D12  2 exact duplicates in 1 group", "--drop-duplicates", "Ready",
      expect={"n_duplicate_groups": 1, "n_conflicting_groups": 0, "n_images": 20})  # fmt: skip
def _(root):
    folder(root)
    for name in ("a", "b"):
        put(root / "owl" / f"{name}.png", (root / "owl" / "0.png").read_bytes())


@case("D13 one content, two labels", "D13  2 images with an exact copy under another label", "used as unlabelled",
      "Ready", expect={"n_labelled": 9, "n_conflicting_groups": 1})  # fmt: skip
def _(root):
    folder(root)
    put(root / "owl" / "twin.png", (root / "crow" / "0.png").read_bytes())


@case(
    "D14 rows that contradict each other",
    "D14: lines 2 and 14",
    "'img/0.png' (owl / crow)",
    code=3,
    data="data/labels.csv",
)
def _(root):
    table(root, rows() + "img/0.png,crow\n")


@case("D15 a missing file", "D15  1 of 13 rows point to missing files, first 'img/gone.png', missing (line 14)",
      "--root", "Ready", data="data/labels.csv", expect={"n_images": 12})  # fmt: skip
def _(root):
    table(root, rows() + "img/gone.png,\n")


@case("D15 most files missing", "D15  12 of 12 rows", "Not ready", code=3, data="data/labels.csv")
def _(root):
    table(root, rows().replace("img/", "pictures/"))


@case("D15 labels whose file names lack the folder", "D15  1 of 1 row point", "did you mean 'owl/only.png'?",
      "Not ready", "correct the file names in the table", code=3, flags=["--labels", "data/labels.csv"])  # fmt: skip
def _(root):
    folder(root)
    put(root / "owl" / "only.png", pixels(1))
    (root / "labels.csv").write_text("file_name,label\nonly.png,A\n")


@case("D15 a third of few labels is missing", "D15  1 of 3 rows", "2 files have this name, first 'crow/0.png'",
      "Not ready", "--allow-bad 0.34", code=3, flags=["--labels", "data/labels.csv"])  # fmt: skip
def _(root):
    folder(root, n_unlabelled=0)
    (root / "labels.csv").write_text("file_name,label\n0.png,A\nowl/0.png,A\ncrow/0.png,B\n")


@case("D15 few labels, allowed", "D15  1 of 3 rows", "Ready",
      flags=["--labels", "data/labels.csv", "--allow-bad", "0.34"],
      expect={"n_labelled": 2, "n_images": 10})  # fmt: skip
def _(root):
    folder(root, n_unlabelled=0)
    (root / "labels.csv").write_text("file_name,label\n0.png,A\nowl/0.png,A\ncrow/0.png,B\n")


@case("D16 folder names beside a table", "D16  9 images in folders are not in the table, first 'crow/0.png'",
      "folder names are not labels", "Ready", flags=["--labels", "data/labels.csv"],
      expect={"categories": {"A": 1}})  # fmt: skip
def _(root):
    folder(root)
    (root / "labels.csv").write_text("file_name,label\nowl/0.png,A\n")


@case("D16 images that are not in the table", "D16  2 images in the folder but not in the table",
      "--rest unlabelled", data="data/labels.csv", expect={"n_images": 12})  # fmt: skip
def _(root):
    table(root, rows(), n=14)


@case("D16 the rest is unlabelled", "Ready", data="data/labels.csv", flags=["--rest", "unlabelled"],
      expect={"n_images": 14, "n_unlabelled": 4})  # fmt: skip
def _(root):
    table(root, rows(), n=14)


@case(
    "D16 labels of a folder", "Ready", flags=["--labels", "data/labels.csv"], expect={"n_images": 14, "n_unlabelled": 4}
)
def _(root):
    table(root, rows(), n=14)


@case(
    "D17 semicolons and a byte order mark", "Ready", data="data/labels.csv", expect={"n_images": 12, "n_labelled": 10}
)
def _(root):
    table(root, rows(header="file_name;label", mark=";"), encoding="utf-8-sig")


@case("D17 other column names", "D17: no column 'file_name' and 'label'", "(found: Bild, Klasse)",
      "--columns file_name=Bild,label=Klasse", code=3, data="data/labels.csv")  # fmt: skip
def _(root):
    table(root, rows(header="Bild;Klasse", mark=";"))


@case("D17 columns named", "Ready", data="data/labels.csv", flags=["--columns", "file_name=Bild,label=Klasse"],
      expect={"n_labelled": 10})  # fmt: skip
def _(root):
    table(root, rows(header="Bild;Klasse", mark=";"))


@case(
    "D17 a column that stands twice", "D17: column 'label' appears 2 times", "Keep one", code=3, data="data/labels.csv"
)
def _(root):
    table(root, rows(header="file_name,label,label").replace("png,", "png,x,"))


@case("D17 a spreadsheet", "D17", "Save it as CSV", code=3, data="data/labels.xlsx")
def _(root):
    table(root, "PK", name="labels.xlsx")


@case("D17 another encoding", "D17", "not UTF-8", code=3, data="data/labels.csv")
def _(root):
    table(root, rows() + "img/Häher.png,\n", encoding="latin-1")


@case("D17 no Parquet", "D17", "cannot be read as Parquet", code=3, data="data/labels.parquet")
def _(root):
    table(root, "PAR1 but not really", name="labels.parquet")


def _outside(path: str) -> None:
    @case(f"D18 {path}", "D18: line 14", code=3, data="data/labels.csv")
    def _(root):
        table(root, rows() + f"{path},\n")


for _path in ("../../etc/passwd", "/etc/passwd", "C:\\x.png", "file:///etc/passwd", "https://example.org/x.png"):
    _outside(_path)


@case("D19 links", "D19  3 links not followed", "--follow-links", "Ready", expect={"n_images": 18})
def _(root):
    folder(root)
    put(root.parent / "elsewhere" / "a.png", pixels(77))
    (root / "hawk").symlink_to(root.parent / "elsewhere")
    (root / "owl" / "loop").symlink_to(root)
    (root / "owl" / "broken.png").symlink_to(root / "nothing.png")


@case("D19 links that are trusted", "Ready", flags=["--follow-links"], expect={"n_images": 19})
def _(root):
    folder(root)
    put(root.parent / "elsewhere" / "a.png", pixels(77))
    (root / "hawk").symlink_to(root.parent / "elsewhere")


@case("D20 a decompression bomb", "D20  1 file is too large: over the pixel limit (1,600,000,000 pixels) (1)",
      "--max-pixels", "Ready", expect={"n_images": 18})  # fmt: skip
def _(root):
    folder(root)
    put(root / "_unlabelled" / "bomb.png", bomb())


@case("D21 tiny and extreme", "D21  1 image smaller than 16 pixels", "D21  1 image more than 20 times as long as wide",
      expect={"n_images": 20})  # fmt: skip
def _(root):
    folder(root)
    put(root / "_unlabelled" / "tiny.png", pixels(1, (8, 8)))
    put(root / "_unlabelled" / "long.png", pixels(2, (500, 20)))


@case("D22 EXIF rotation", "D22  1 image with an EXIF rotation", expect={"n_images": 19})
def _(root):
    folder(root)
    exif = Image.Exif()
    exif[0x0112] = 6
    put(root / "_unlabelled" / "turned.jpg", pixels(1), exif=exif)


@case("D23 modes", "D23  4 images not plain RGB", "1 greyscale", "1 palette", "1 with transparency", "1 CMYK",
      expect={"n_images": 22})  # fmt: skip
def _(root):
    folder(root)
    for mode, name in (("L", "l.png"), ("P", "p.png"), ("RGBA", "a.png"), ("CMYK", "c.jpg")):
        put(root / "_unlabelled" / name, pixels(1).convert(mode))


@case("D24 16 bits", "D24  1 image with 16 bits or more", "each scaled from its darkest", "D24  1 image of one colour",
      expect={"n_images": 20})  # fmt: skip
def _(root):
    folder(root)
    deep = np.random.default_rng(0).integers(0, 60_000, (20, 20)).astype(np.uint16)
    put(root / "_unlabelled" / "deep.png", Image.fromarray(deep))
    put(root / "_unlabelled" / "blank.png", Image.new("RGB", (20, 20), "grey"))


@case("D25 several frames", "D25  1 image with several frames", "the first is used", expect={"n_images": 19})
def _(root):
    folder(root)
    put(root / "_unlabelled" / "moving.gif", pixels(1), save_all=True, append_images=[pixels(2), pixels(3)])


@case("D26 extensions", "D26  2 images with a wrong or missing extension", "read by content", expect={"n_images": 21})
def _(root):
    folder(root)
    put(root / "_unlabelled" / "png.jpg", encoded(pixels(1), "PNG"))
    put(root / "_unlabelled" / "bare", encoded(pixels(2), "PNG"))
    put(root / "_unlabelled" / "UPPER.PNG", encoded(pixels(3), "PNG"))


@case("D27 names of all kinds", "Ready", expect={"n_images": 18, "categories": {"bécasse 🐦": 5, "שלום": 5}})
def _(root):
    folder(root, names=("bécasse 🐦", "שלום"))


@case("D27 a long path and two spellings of an accent", "Ready", expect={"categories": {"bécasse": 2}})
def _(root):
    folder(root, names=())
    put(root / unicodedata.normalize("NFD", "bécasse") / ("x" * 200) / ("y" * 200) / "0.png", pixels(1))
    put(root / unicodedata.normalize("NFC", "bécasse") / "1.png", pixels(2))


@case("D28 files of the system", "Ready", expect={"n_images": 18, "n_files": 18})
def _(root):
    folder(root)
    for name in (".DS_Store", "Thumbs.db", "owl/._0.png", "@eaDir/0.png"):
        put(root / name, b"x")


@case("D28 a hidden folder", "D28  3 images in hidden folders are left out: '..hid', 'owl/.more'", "rename", "Ready",
      expect={"n_images": 18, "n_files": 18})  # fmt: skip
def _(root):
    folder(root)
    for name in ("..hid/a.png", "..hid/deep/b.png", "owl/.more/c.jpg"):
        put(root / name, pixels(1))
    for name in ("..hid/._a.png", "..hid/notes.txt", ".git/x", "@eaDir/0.png", ".AppleDouble/0.png"):
        put(root / name, b"x")


@case("D28 only a hidden folder", "D02: no images", "D28: 1 image in hidden folders is left out: '.all'", code=3)
def _(root):
    put(root / ".all" / "a.png", pixels(1))


@case("D28 other files", "D28  1 other file: 1 .txt", "Ready", expect={"n_images": 18, "n_files": 19})
def _(root):
    folder(root)
    put(root / "owl" / "notes.txt", b"seen at dusk")


@case(
    "D29 an empty category",
    "D29  1 empty category folder: 'eagle'",
    "Ready",
    expect={"categories": {"crow": 5, "owl": 5}},
)
def _(root):
    folder(root)
    (root / "eagle").mkdir()


@case("D30 deeper folders", "D30  1 labelled image deeper than one level", "--label-level 2",
      expect={"categories": {"crow": 5, "owl": 6}})  # fmt: skip
def _(root):
    folder(root)
    put(root / "owl" / "2021" / "x.png", pixels(1))


@case("D30 the second level", "Ready", flags=["--label-level", "2"], expect={"categories": {"crow": 5, "owl": 5}})
def _(root):
    folder(root / "europe")
    put(root / "loose.png", pixels(1))


@case("D31 dangerous names", "Ready", expect={"categories": {"<script>alert(1)<": 5, "CON": 5}})
def _(root):
    folder(root, names=("CON", "<script>alert(1)<"))


def bytes_of(root: Path) -> dict[str, str]:
    """Every file and link under a folder, with what is in it."""
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*") if path.is_symlink() or path.is_file()
    }  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def given(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request.param.make(tmp_path / "data")
    before = bytes_of(tmp_path / "data")
    yield request.param
    assert bytes_of(tmp_path / "data") == before


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")
def test_every_bad_input_is_told_in_plain_words_and_nothing_is_lost(given, nngcd):
    data = given.data or "data"
    code, out, err = nngcd("check", data, "--no-times", "--quiet", "--out", "report", *given.flags)
    assert code == given.code, out + err
    for text in given.texts:
        assert words(text) in words(out + err)
    assert "Traceback" not in out + err
    if given.expect:
        summary = json.loads(Path("report/summary.json").read_text(encoding="utf-8"))
        assert {name: summary[name] for name in given.expect} == given.expect
    if given.stops_fit:
        fit_code, _, fit_err = nngcd("fit", data, "--out", "run", *given.flags)
        assert fit_code == given.code
        assert given.name[:3] in fit_err
        assert not Path("run").exists()


@pytest.mark.filterwarnings("ignore::nngcd.core.errors.NngcdWarning")
@pytest.mark.parametrize(
    "name", ["D03 broken files", "D12 exact duplicates", "D13 one content, two labels", "D19 links"]
)
def test_what_check_counts_is_what_a_fit_gets(name, tmp_path, nngcd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    next(one for one in CASES if one.name == name).make(tmp_path / "data")
    summary = json.loads(nngcd("check", "data", "--no-times", "--json")[1])
    split, _ = open_dataset("data", reading=ReadingSettings())
    assert (len(split), split.n_labelled) == (summary["n_images"], summary["n_labelled"])
    assert (
        dict(zip(split.class_names, np.bincount(split.labels[split.is_labelled]).tolist(), strict=True))
        == summary["categories"]
    )
    listed = pd.read_csv("data.check/problems.csv")
    unused = {(problem.file_name, problem.code) for problem in split.problems}
    assert unused <= set(zip(listed["file_name"], listed["code"], strict=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("always::nngcd.core.errors.NngcdWarning")
def test_d13_a_fit_uses_neither_of_two_labels(tmp_path, nngcd):
    folder(tmp_path / "data")
    put(tmp_path / "data" / "owl" / "twin.png", (tmp_path / "data" / "crow" / "0.png").read_bytes())
    code, _, err = nngcd(
        "fit", tmp_path / "data", "--method", "kmeans", "--k", 3, "--out", tmp_path / "run", "--image-size", 64
    )
    assert code == 0, err
    assert "D13: 2 images with an exact copy under another label" in words(err)
    given = pd.read_parquet(tmp_path / "run" / "data" / "manifest.parquet").set_index("file_name")["label_given"]
    assert given[["owl/twin.png", "crow/0.png"]].isna().all()
    assert given.notna().sum() == 9
    problems = pd.read_csv(tmp_path / "run" / "problems.csv")
    assert set(problems.loc[problems["code"] == "D13", "file_name"]) == {"owl/twin.png", "crow/0.png"}


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() == 0, reason="needs a folder that may not be read")
def test_d01_a_folder_without_permission(tmp_path, nngcd):
    folder(tmp_path / "data")
    (tmp_path / "data" / "owl").chmod(0)
    try:
        code, _, err = nngcd("check", tmp_path / "data", "--no-times")
    finally:
        (tmp_path / "data" / "owl").chmod(0o755)
    assert code == 2
    assert "D01" in err and "permission" in err.lower()


def test_d04_a_file_that_vanishes_is_tried_again_and_then_named(tmp_path, monkeypatch):
    from nngcd.core.errors import DataError
    from nngcd.data import image_files

    folder(tmp_path)
    monkeypatch.setattr(image_files, "SECONDS_BEFORE_RETRIES", (0.0, 0.0))
    split, _ = open_dataset(str(tmp_path))
    read, tries = Path.read_bytes, []

    def hiccup(path: Path) -> bytes:
        tries.append(path)
        if len(tries) < 3:
            raise OSError(5, "Input/output error")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", hiccup)
    assert split.images.open(0).mode == "RGB"
    assert len(tries) == 3
    monkeypatch.setattr(Path, "read_bytes", read)
    (tmp_path / split.images.file_names[0]).unlink()
    with pytest.raises(DataError, match=r"D04: cannot open image .*--resume"):
        split.images.open(0)


def test_no_pickle_is_ever_loaded(tmp_path, nngcd):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "trapped"),))

    np.savez(tmp_path / "x.npz", X=np.array([Trap(), Trap()], dtype=object))
    code, _, err = nngcd("check", tmp_path / "x.npz", "--no-times")
    assert code == 3
    assert "D17" in err and "Python objects" in words(err)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not allow such names")
def test_a_folder_whose_name_is_not_utf8_is_left_out_and_listed(nngcd, tmp_path):
    folder(tmp_path / "data")
    odd = os.fsencode(tmp_path / "data") + b"/K\xfcken"
    os.mkdir(odd)  # noqa: PTH102 (pathlib has no bytes paths)
    put(tmp_path / "one.png", pixels(1))
    os.rename(tmp_path / "one.png", odd + b"/one.png")  # noqa: PTH104
    code, out, err = nngcd("check", tmp_path / "data", "--out", tmp_path / "report")
    assert code == 0, err
    assert "D27" in out and "D29" not in out
    assert "K?ken" in (tmp_path / "report" / "problems.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("labels", "code"), [([-1] * 9, "D05"), ([0] * 5 + [-1] * 4, "D09")])
def test_arrays_with_few_labels_get_the_same_notes_as_files(nngcd, tmp_path, labels, code):
    np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).normal(size=(9, 4)), y=np.array(labels))
    _, out, _ = nngcd("check", tmp_path / "mine.npz")
    assert code in out


@pytest.mark.parametrize("command", ["check", "fit", "estimate-k"])
def test_d06_every_command_says_how_to_try_the_method_on_labels_alone(nngcd, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", X=np.random.default_rng(0).normal(size=(9, 4)), y=np.arange(9) % 3)
    code, out, err = nngcd(command, "mine.npz")
    assert code == 3
    assert "D06: all 9 images are labelled; nothing to sort." in words(out + err)
    assert "--set reading.hide_classes=0.5" in words(out + err)


@pytest.mark.filterwarnings("always::nngcd.core.errors.NngcdWarning")
def test_an_array_that_is_misnamed_is_pointed_out(nngcd, tmp_path):
    np.savez(tmp_path / "x2.npz", X=np.random.default_rng(0).normal(size=(9, 4)), z=np.arange(9) % 3)
    code, _, err = nngcd("check", tmp_path / "x2.npz")
    assert code == 0
    assert "D05: array 'y' not found" in words(err) and "found: z" in words(err)


def test_what_is_proposed_for_a_wrong_path_is_of_the_kind_that_is_wanted(nngcd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "data", names=())
    (tmp_path / "lables").mkdir()
    code, _, err = nngcd("fit", "data", "--labels", "labels.csv")
    assert (code, "not found; expected a table" in words(err), "Did you mean" in err) == (2, True, False)
    (tmp_path / "label.csv").touch()
    assert "Did you mean" in (err := nngcd("fit", "data", "--labels", "labels.csv")[2]) and "label.csv'?" in err
    (tmp_path / "notes.txt").touch()
    assert "Did you mean" not in nngcd("fit", "notes")[2]


def test_nothing_is_written_among_the_images(nngcd, tmp_path):
    """What lies there, a figure for example, would be an image of the next run."""
    data = tmp_path / "data"
    folder(data)
    before, run = sorted(data.rglob("*")), tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(
        f"data: {data}\ndataset: null\nmethod: kmeans\npreset: default\neffort: quick\nweights: null\nreading: {{}}\n"
    )
    for command in (["fit", data, "--out", data / "run"], ["estimate-k", data, "--out", data / "k"],
                    ["check", data, "--out", data / "report"], ["embed", data, "--out", data / "features.npy"],
                    ["predict", run, data, "--out", data / "p.csv"],
                    ["predict", run, tmp_path / "new", "--out", data / "p.csv"]):  # fmt: skip
        code, _, err = nngcd(*command)
        assert (code, "inside the data folder" in words(err)) == (2, True)
    assert sorted(data.rglob("*")) == before
