"""Findings about files: unusable, left out, or with unusual images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from nngcd.checking.seen import Seen, those
from nngcd.core.words import count, quoted
from nngcd.data.file_tree import LEAVES
from nngcd.data.findings import Finding
from nngcd.data.image_files import is_too_many
from nngcd.data.split import Problem
from nngcd.datasets.folder import endings

TINY_SIDE, EXTREME_RATIO = 16, 20
_FORMATS = {
    ".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF", ".bmp": "BMP", ".webp": "WEBP",
    ".gif": "GIF", ".ppm": "PPM", ".pgm": "PPM", ".pbm": "PPM", ".heic": "HEIF", ".heif": "HEIF", ".avif": "AVIF",
}  # fmt: skip
_MODE_WORDS = {"L": "greyscale", "1": "black and white", "P": "palette", "RGBA": "with transparency",
               "LA": "with transparency", "PA": "with transparency"}  # fmt: skip


def about_files(seen: Seen) -> Iterator[Finding]:
    """Yield the findings about files and the images in them."""
    for maker in (_unreadable, _missing, _left_out, _shapes, _modes, _extensions):
        yield from maker(seen)


def _unreadable(seen: Seen) -> Iterator[Finding]:
    named = zip(seen.listed.file_names, seen.checks, strict=True)
    bad = [Problem(name, check.code, check.reason) for name, check in named if check.reason is not None]
    n_files = len(seen.listed.file_names)
    for code, what in (("D03", "cannot be read"), ("D20", "are too large"), ("D15", "have vanished")):
        files = tuple(problem for problem in bad if problem.code == code)
        if not files:
            continue
        reasons = Counter(problem.reason for problem in files)
        why = ", ".join(f"{reason} ({number:,})" for reason, number in reasons.most_common(5))
        stops = is_too_many(len(bad), n_files, seen.reading.allow_bad)
        yield Finding(
            code=code,
            severity="stop" if stops else "warning",
            what=f"{count(len(files), 'file')} {what if len(files) > 1 else _singular(what)}: {why}",
            effect=f"more than {seen.reading.allow_bad:.0%} stops a fit" if stops else "left out",
            flags="--max-pixels 2e9 (if you trust the source)" if code == "D20" else "",
            files=files,
            share=len(bad) / n_files,
        )


def _singular(verb: str) -> str:
    return verb.replace("are ", "is ").replace("have ", "has ")


def _missing(seen: Seen) -> Iterator[Finding]:
    listed = seen.listed
    if missing := tuple(problem for problem in listed.missing if problem.code == "D15"):
        first, n_missing = missing[0], len(listed.missing)
        stops = is_too_many(n_missing, listed.n_rows, seen.reading.allow_bad)
        yield Finding(
            code="D15",
            severity="stop" if stops else "warning",
            what=f"{len(missing):,} of {count(listed.n_rows, 'row')} point to missing files, first "
            f"'{first.file_name}', {first.reason}",
            effect=f"paths are relative to '{listed.folder}'",
            flags="--root FOLDER" if seen.reading.image_root is None else "",
            files=missing,
            share=n_missing / listed.n_rows,
        )


def _left_out(seen: Seen) -> Iterator[Finding]:
    listed = seen.listed
    links = tuple(problem for problem in (*listed.problems, *listed.missing) if problem.code == "D19")
    if links:
        n_leaving = sum(problem.reason.startswith(LEAVES) for problem in links)
        yield Finding(
            code="D19", severity="warning", effect="left out", files=links,
            what=f"{count(len(links), 'link')} not followed, first '{links[0].file_name}' ({links[0].reason})",
            flags="--follow-links" if n_leaving else "",
        )  # fmt: skip
    by_code = {code: tuple(p for p in listed.problems if p.code == code) for code in ("D27", "D29")}
    if files := by_code["D27"]:
        yield Finding(
            code="D27", severity="warning", what=f"{count(len(files), 'file name')} cannot be written as UTF-8",
            effect="left out; rename them", files=files,
        )  # fmt: skip
    if files := by_code["D29"]:
        names = [problem.file_name for problem in files]
        yield Finding(
            code="D29", severity="note", effect="ignored", files=files,
            what=f"{count(len(files), 'empty category folder')}: {quoted(names)}",
        )  # fmt: skip
    if files := tuple(problem for problem in listed.problems if problem.code == "D28"):
        yield Finding(
            code="D28", severity="warning", effect="left out", files=files,
            what=f"{count(len(files), 'name')} {'is' if len(files) == 1 else 'are'} not a file, first "
            f"'{files[0].file_name}' ({files[0].reason})",
        )  # fmt: skip
    if ignored := seen.listed.ignored:
        files = tuple(Problem(name, "D28", "not an image, judging by its name") for name in ignored)
        yield Finding(
            code="D28", severity="note", what=f"{count(len(ignored), 'other file')}: {endings(ignored)}",
            effect="not images, judging by their names; ignored", files=files,
        )  # fmt: skip


def _shapes(seen: Seen) -> Iterator[Finding]:
    tiny = those(seen, lambda facts: min(facts.width, facts.height) < TINY_SIDE, "D21")
    extreme = those(seen, lambda facts: max(facts.width, facts.height) > EXTREME_RATIO * min(facts.width, facts.height)
                     and min(facts.width, facts.height) >= TINY_SIDE, "D21")  # fmt: skip
    blank = those(seen, lambda facts: facts.is_blank, "D24", "of one colour")
    for files, what, effect in (
        (tiny, f"smaller than {TINY_SIDE} pixels", "used, but their results are unreliable"),
        (extreme, f"more than {EXTREME_RATIO} times as long as wide", "used, but only the middle part is seen"),
        (blank, "of one colour only", "used, but they show nothing"),
    ):
        if files:
            yield Finding(
                code=files[0].code, severity="warning", files=files, effect=effect,
                what=f"{count(len(files), 'image')} {what}, first '{files[0].file_name}'",
            )  # fmt: skip


def _modes(seen: Seen) -> Iterator[Finding]:
    deep = those(seen, lambda facts: facts.mode.startswith(("I", "F")), "D24")
    is_fixed = seen.reading.grey16 != "per-image"
    scale = f"scaled by {seen.reading.grey16}" if is_fixed else "each scaled from its darkest to its lightest value"
    other = those(seen, lambda facts: facts.mode != "RGB" and not facts.mode.startswith(("I", "F")), "D23")
    by_mode: Counter[str] = Counter()
    for problem in other:
        by_mode[_MODE_WORDS.get(mode := problem.reason.split()[-1], mode)] += 1
    modes = ", ".join(f"{number:,} {mode}" for mode, number in by_mode.most_common())
    for files, what, effect, flags in (
        (deep, "with 16 bits or more", scale, "" if is_fixed else "--grey16 fixed:0-4095"),
        (other, f"not plain RGB ({modes})", "converted; transparent parts become white", ""),
        (those(seen, lambda facts: facts.is_rotated, "D22", "rotated by its EXIF tag"),
         "with an EXIF rotation", "turned upright", ""),
        (those(seen, lambda facts: facts.has_frames, "D25", "several frames"),
         "with several frames or pages", "the first is used", ""),
    ):  # fmt: skip
        if files:
            yield Finding(
                code=files[0].code, severity="note", what=f"{count(len(files), 'image')} {what}",
                effect=effect, flags=flags, files=files,
            )  # fmt: skip


def _extensions(seen: Seen) -> Iterator[Finding]:
    wrong = tuple(
        Problem(file_name, "D26", f"is {facts.format}")
        for file_name, _, _, facts in seen.readable
        if _FORMATS.get(PurePosixPath(file_name).suffix.lower()) != facts.format.replace("MPO", "JPEG")
    )
    if wrong:
        yield Finding(
            code="D26", severity="note", effect="read by content", files=wrong,
            what=f"{count(len(wrong), 'image')} with a wrong or missing extension, first '{wrong[0].file_name}' "
            f"{wrong[0].reason}",
        )  # fmt: skip
