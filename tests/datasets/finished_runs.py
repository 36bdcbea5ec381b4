"""A finished run small enough to know by heart: what `nngcd fit` leaves behind, written without fitting anything.

Nine images: owls and crows are known, a and d labelled; new-001 holds four images in two clear halves, new-002 one, and
new-003 none.
"""

import hashlib
import json
from pathlib import Path

import pandas as pd
import torch

from nngcd.core.files import write_json, write_table, write_tensors, write_yaml
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.split import image_table

IMAGES = (
    ("owl/a.png", "owl", "owl", 0.95),
    ("_unlabelled/b.png", None, "owl", 0.9),
    ("_unlabelled/c.png", None, "owl", 0.6),
    ("crow/d.png", "crow", "crow", 0.99),
    ("_unlabelled/e.png", None, "new-001", 0.8),
    ("_unlabelled/f.png", None, "new-001", 0.7),
    ("_unlabelled/g.png", None, "new-001", 0.75),
    ("_unlabelled/h.png", None, "new-001", 0.5),
    ("_unlabelled/i.png", None, "new-002", 0.4),
)
CATEGORIES = ["crow", "owl", "new-001", "new-002", "new-003"]
FEATURES = [[1, 0, 0], [1, 0.1, 0], [1, 0, 0.2], [0, 1, 0], [0, 0, 1], [0, 0.05, 1], [0, 0.9, 1], [0, 1, 1], [1, 1, 0]]


def results_table() -> pd.DataFrame:
    """Return the result table of the run."""
    file_names, given, category, confidence = zip(*IMAGES, strict=True)
    return pd.DataFrame(
        {
            "file_name": file_names,
            "image_id": [f"id-{name[-5]}" for name in file_names],
            "label_given": pd.Series(given, dtype="object"),
            "category": category,
            "label": category,
            "status": ["known" if name in ("owl", "crow") else "new" for name in category],
            "confidence": confidence,
            "alt_1": ["crow" if name == "owl" else "owl" for name in category],
            "alt_1_p": [round((1 - p) / 2, 6) for p in confidence],
            "split": None,
            "group": None,
        }
    )


def finished_run(path: Path, *, data: Path | str = "nowhere", results: pd.DataFrame | None = None) -> RunFolder:
    """Write the folder of a finished run; its model is not there. Images that lie under `data` get their own ids."""
    run = RunFolder.create(path)
    results = results_table() if results is None else results
    if Path(data).is_dir():
        rows = zip(results["file_name"], results["image_id"], strict=True)
        results = results.assign(image_id=[_image_id(Path(data), *row) for row in rows])
    write_yaml(run.config, {"data": str(data), "dataset": None, "method": "kmeans", "preset": "default",
                            "effort": "quick", "k": 5, "reading": {}})  # fmt: skip
    write_table(run.results, results)
    write_table(run.manifest, results[["image_id", "file_name", "label_given"]])
    write_tensors(run.features, {"features_nd": torch.tensor(FEATURES).half()[: len(results)]})
    write_json(run.model / "categories.json", {"categories": CATEGORIES, "n_known": 2})
    problems = {
        "file_name": ["_unlabelled/torn.png", "empty"],
        "code": ["D03", "D29"],
        "reason": ["truncated", "empty"],
    }
    write_table(run.problems, pd.DataFrame(problems))
    write_json(run.summary, {"k": 5})
    return run


def _image_id(data: Path, file_name: str, otherwise: str) -> str:
    if not (data / file_name).is_file():
        return otherwise
    content = hashlib.sha256((data / file_name).read_bytes()).hexdigest()
    return str(image_table([file_name], [content])["image_id"][0])


def lines(run: RunFolder) -> list[dict]:
    """Return the lines of a run's edit log."""
    return [json.loads(line) for line in run.edits.read_text(encoding="utf-8").splitlines()]
