"""`--to coco`: coco.json, one category per image and no boxes, as in COCO Camera Traps."""

from __future__ import annotations

from pathlib import Path

from nngcd.core.files import write_json
from nngcd.export.source import ExportSource, WrittenExport

FILE = "coco.json"
TARGETS = (FILE,)


def check(source: ExportSource, out: Path) -> None:
    """Look for the images, whose sizes are written."""
    _ = source.pictured


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write images, categories (known ones first) and annotations; an unsure image has no annotation."""
    table, originals = source.pictured, source.originals
    number = {id_: i for i, id_ in enumerate(source.categories["id"], start=1)}
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    source.progress.start("image sizes", len(table))
    rows = zip(
        table["file_name"], table["category"], table["status"], table["confidence"], table["reviewed"], strict=True
    )
    for i, (name, category, status, confidence, is_reviewed) in enumerate(rows, start=1):
        width, height = originals.size(name)
        images.append({"id": i, "file_name": name, "width": width, "height": height})
        source.progress.advance()
        if status == "unsure":
            continue
        annotation: dict[str, object] = {"id": len(annotations) + 1, "image_id": i, "category_id": number[category]}
        # JSON has no NaN: an image that a person moved has no model confidence.
        score: dict[str, object] = {} if confidence != confidence else {"score": round(float(confidence), 6)}
        annotations.append(annotation | score | {"reviewed": bool(is_reviewed)})
    source.progress.finish()
    categories = [
        {"id": number[id_], "name": name, "supercategory": kind}
        for id_, name, kind in source.categories[["id", "name", "kind"]].itertuples(index=False)
    ]
    info = {"description": f"Categories found by nngcd in run {source.run.path.resolve().name}"}
    content = {"info": info, "images": images, "categories": categories, "annotations": annotations}
    write_json(out / FILE, content)
    words = f"{len(images)} images, {len(categories)} categories, {len(annotations)} annotations"
    return [WrittenExport(out / FILE, words, source.missing_words(FILE))]
