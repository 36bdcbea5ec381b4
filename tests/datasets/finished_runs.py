"""A finished run small enough to know by heart: what `nngcd fit` leaves behind, written without fitting anything.

Nine images: owls and crows are known, a and d labelled; new-001 holds four images in two clear halves, new-002 one, and
new-003 none.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from nngcd.core.files import write_json, write_table, write_tensors, write_yaml
from nngcd.core.run_folder import RunFolder
from nngcd.data.split import image_table

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
            "novelty": 0.5,
            "alt_1": ["crow" if name == "owl" else "owl" for name in category],
            "alt_1_p": [round((1 - p) / 2, 6) for p in confidence],
            "possible_label_error": False,
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
                            "effort": "quick", "weights": None, "k": 5, "reading": {"round": 1}})  # fmt: skip
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
    write_json(run.summary, summary())
    return run


def summary(**values: object) -> dict[str, Any]:
    """Return the final numbers of the run, or others."""
    texts = {"method": "kmeans", "preset": "default", "effort": "quick", "backbone": "efficientnet_lite0",
             "weights": None, "split_hash": "0", "largest_new": "new-001", "smallest_new": "new-002", "finished": "",
             "not_calibrated": "too few labels"}  # fmt: skip
    numbers = {"n_sizes": 1, "whitened_features": None, "seed": 0, "k": 5, "n_images": 9, "n_labelled": 2,
               "n_unlabelled": 7, "n_known_categories": 2, "n_unlabelled_known": 2, "n_unlabelled_new": 5,
               "n_unsure": 0, "n_new_categories": 2, "n_categories_used": 3, "largest_new_size": 4,
               "smallest_new_size": 1, "largest_share": 0.5714, "n_possible_label_errors": 0, "n_unreadable": 1,
               "n_unchecked_categories": 2, "seconds": 1.0}  # fmt: skip
    lists = {name: [] for name in ("known_splits", "new_splits", "merges", "hidden_groups", "mixed_categories",
                                   "alike_pairs")}  # fmt: skip
    others = {
        "k_estimate": None,
        "label_check": None,
        "held_back": None,
        "expected_right": {"known": None, "new": None},
        "peak_gb": {},
        "processor_seconds": {"views": 0.0, "fit": 1.0},
    }
    return {**texts, **numbers, **lists, **others, **values}


def scores(**values: object) -> dict[str, Any]:
    """Return scores such as a summary has where the truth is known."""
    accuracy = {"all": 0.5, "old": 0.5, "new": 0.5}
    called = dict.fromkeys(("share", "true_share", "precision", "recall"), 0.5)
    names = ("accuracy", "accuracy_v1", "balanced_accuracy", "by_name")
    return {**dict.fromkeys(names, accuracy), "called_known": called, "called_new": called, "nmi": 0.5, "ari": 0.5,
            "n_scored": 3, "protocol": "v2", **values}  # fmt: skip


def _image_id(data: Path, file_name: str, otherwise: str) -> str:
    if not (data / file_name).is_file():
        return otherwise
    content = hashlib.sha256((data / file_name).read_bytes()).hexdigest()
    return str(image_table([file_name], [content])["image_id"][0])


def lines(run: RunFolder) -> list[dict]:
    """Return the lines of a run's edit log."""
    return [json.loads(line) for line in run.edits.read_text(encoding="utf-8").splitlines()]
