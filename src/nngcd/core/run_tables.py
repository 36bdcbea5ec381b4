"""What the columns of a run's tables hold; columns not listed here are let through."""

from __future__ import annotations

from nngcd.core.reading import Kind

RESULTS: dict[str, Kind] = {
    "file_name": "text",
    "image_id": "text",
    "label_given": "text or none",
    "category": "text",
    "status": "text",
    "confidence": "share",
}
ALTERNATIVES = tuple(f"alt_{rank}" for rank in range(1, 10))
"""Columns that each have a probability beside them, `alt_1_p` and so on."""
IN_SOME_RESULTS: dict[str, Kind] = {
    "label": "text or none",
    "novelty": "number or none",
    **dict.fromkeys(ALTERNATIVES, "text or none"),
    **{f"{name}_p": "number or none" for name in ALTERNATIVES},
    "possible_label_error": "flag",
}
MANIFEST: dict[str, Kind] = {"file_name": "text", "image_id": "text", "label_given": "text or none"}
SPLIT: dict[str, Kind] = {"image_id": "text", "file_name": "text", "label_given": "text"}
PROBLEMS: dict[str, Kind] = {"file_name": "text"}
