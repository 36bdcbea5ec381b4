"""The page's keys and the documented ones are the same."""

import re
from pathlib import Path

import nngcd

ROOT = Path(nngcd.__file__).parents[2]


def test_every_letter_of_the_queue_is_documented():
    assets = ROOT / "src/nngcd/review/page/assets"
    page = "".join((assets / name).read_text(encoding="utf-8") for name in ("queue.js", "sheet.js"))
    letters = set(re.findall(r"\b([a-z]): \(\) =>", page)) | set(re.findall(r'key === "([a-z])"', page)) | {"u"}
    documented = (ROOT / "docs/guides/review.md").read_text(encoding="utf-8")
    keys = documented.partition("| key | what it does |")[2].partition("| option |")[0]
    assert letters == {key.lower() for key in re.findall(r"`([A-Z])`", keys)}
