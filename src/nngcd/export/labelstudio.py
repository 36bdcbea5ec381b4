"""`--to labelstudio`: tasks with predictions for Label Studio, and the labelling interface that fits them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from nngcd.core.files import write_json, write_text
from nngcd.export.source import ExportSource, WrittenExport

TASKS, INTERFACE = "labelstudio.json", "labelstudio.xml"
TARGETS = (TASKS, INTERFACE)
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LOCAL_FILES = "/data/local-files/?d="
"""Label Studio's address of files under LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""


def check(source: ExportSource, out: Path) -> None:
    """Nothing more is needed than the table."""


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write a task per image: its category is a prediction with the confidence as score, for a person to confirm."""
    table = source.sorted
    version = f"nngcd {source.run.path.resolve().name}"
    columns = ["file_name", "image_id", "label", "status", "confidence", "reviewed"]
    tasks = [_task(version, *row) for row in table[columns].itertuples(index=False)]
    write_json(out / TASKS, tasks)
    choices = "\n".join(f"    <Choice value={quoteattr(_choice(name))}/>" for name in source.categories["name"])
    write_text(
        out / INTERFACE,
        f'<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="category" toName="image" choice="single" showInLine="true">\n{choices}\n'
        f"  </Choices>\n</View>\n",
    )
    # Images of arrays are called digit-0000 or row-000000.
    has_files = table["file_name"].str.contains(".", regex=False).any()
    notes = () if has_files else ("Label Studio needs image files, but these are arrays: fit a folder instead",)
    return [
        WrittenExport(out / TASKS, f"{len(tasks)} tasks with predictions", notes),
        WrittenExport(out / INTERFACE, f"labelling interface with {len(source.categories)} choices"),
    ]


def _choice(name: str) -> str:
    r"""Return the name of a category as tasks and interface both write it: XML has no control characters (`\x1b`)."""
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def _task(  # noqa: PLR0913 (the columns of a row)
    version: str, file_name: str, image_id: str, label: str, status: str, confidence: float, is_reviewed: bool
) -> dict[str, Any]:
    choice = {"from_name": "category", "to_name": "image", "type": "choices", "value": {"choices": [_choice(label)]}}
    prediction: dict[str, Any] = {"model_version": version, "result": [choice]}
    if confidence == confidence:  # NaN: a person moved the image, the model has no say
        prediction["score"] = round(float(confidence), 6)
    facts = {"file_name": file_name, "image_id": image_id, "status": status, "reviewed": bool(is_reviewed)}
    return {"data": {"image": LOCAL_FILES + quote(file_name), **facts}, "predictions": [prediction]}
