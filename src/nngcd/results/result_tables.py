"""From scores to tables: every image's category, every category's facts, and the labels that were held back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.counting.estimate_k import KEstimate
from nngcd.data.split import Split
from nngcd.metrics.calibration import share_interval
from nngcd.metrics.label_errors import possible_label_errors
from nngcd.results.confidence import Confidence, expected_right
from nngcd.results.suspicions import suspicions
from nngcd.training.model import Model

N_ALTERNATIVES = 3
NOT_CALIBRATED = Confidence()
ROWS_PER_BLOCK = 8192
"""Rows whose probabilities exist at a time: all of them would be three copies of the scores, in double precision."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Result of fitting: the model, the category id of each cluster, and each image's feature and scores."""

    model: Model
    categories: list[str]
    features_nd: Tensor
    scores_nk: Tensor
    k_estimate: KEstimate | None
    """Estimate of the number of categories; None when it was given."""
    confidence: Confidence
    """Confidence in the scores, calibrated on the held-back labels where there are any."""
    processor_seconds: dict[str, float]
    """Processor time of making or reading kept views (`views`), which other runs share, and of all after it (`fit`)."""


def new_prefix(round_: int) -> str:
    """Return what ids of new categories begin with: `new-`, and `new2-` in the second round, from a review."""
    return "new-" if round_ == 1 else f"new{round_}-"


def name_clusters(
    cluster_n: NDArray[np.int64], split: Split, n_clusters: int, *, prefix: str = new_prefix(1)
) -> list[str]:
    """Return an id for each cluster: known categories keep their names, new ones are new-001, … by falling size.

    The ids are given once, here, and never change meaning afterwards; a run from a review gives others than the run
    that was reviewed.
    """
    sizes_k = np.bincount(cluster_n[~split.is_labelled], minlength=n_clusters)
    new = np.arange(split.n_old, n_clusters)
    ids = [*split.class_names, *("" for _ in new)]
    # A folder may well be called new-001: somebody sorted it after an earlier run.
    free = (name for rank in itertools.count(1) if (name := f"{prefix}{rank:03d}") not in split.class_names)
    for cluster in new[np.argsort(-sizes_k[new], kind="stable")]:
        ids[cluster] = next(free)
    return ids


def with_decisions(scores_nk: Tensor, cluster_n: Tensor) -> Tensor:
    """Return the scores with each image's decided cluster made the best, by as little as possible.

    Where both agree nothing changes. Where they do not, they become equally likely: the doubt stays visible.
    """
    best_n = scores_nk.max(-1).values
    decided_n = scores_nk.gather(1, cluster_n[:, None])[:, 0]
    is_best_n = scores_nk.argmax(-1) == cluster_n
    raised_n = torch.where(is_best_n, decided_n, torch.nextafter(best_n, best_n.new_tensor(torch.inf)))
    return scores_nk.scatter(1, cluster_n[:, None], raised_n[:, None])


def result_table(
    split: Split,
    scores_nk: Tensor,
    ids: list[str],
    *,
    confidence: Confidence = NOT_CALIBRATED,
    features_nd: Tensor | None = None,
) -> pd.DataFrame:
    """Return one row per image. A labelled image always keeps its given label; the others get their best cluster.

    That a labelled image looks like another category is a flag, `possible_label_error`, and nothing more.
    """
    predicted = prediction_table(
        scores_nk, ids, split.n_old, features_nd=features_nd, confidence=confidence, given=split.labels
    )
    is_doubted = np.zeros(len(split), dtype=np.bool_)
    if features_nd is not None:
        is_doubted = possible_label_errors(features_nd.numpy(), split.labels)
    names = np.array([*split.class_names, None], dtype=object)
    given = pd.Series(names[split.labels], dtype="object")
    category = predicted["category"]
    return pd.DataFrame(
        {
            "file_name": split.table["file_name"].to_numpy(),
            "image_id": split.table["image_id"].to_numpy(),
            "label_given": given,
            "category": category,
            "label": category,
            "status": predicted["status"],
            "confidence": predicted["confidence"],
            "novelty": predicted["novelty"],
            **{name: predicted[name] for name in predicted.columns if name.startswith("alt_")},
            "possible_label_error": is_doubted,
            "split": split.table["split"].to_numpy(),
            "group": split.table["group"].to_numpy(),
        }
    )


def prediction_table(  # noqa: PLR0913 (scores, names, and how to speak of them)
    scores_nk: Tensor,
    ids: list[str],
    n_old: int,
    *,
    features_nd: Tensor | None = None,
    confidence: Confidence = NOT_CALIBRATED,
    given: NDArray[np.int64] | None = None,
    n_alternatives: int = N_ALTERNATIVES,
    block_size: int = ROWS_PER_BLOCK,
) -> pd.DataFrame:
    """Return category, status, confidence, novelty and the next best categories for each row of scores.

    Args:
        scores_nk: the model's scores.
        ids: the category of each cluster.
        n_old: how many of them are known.
        features_nd: the learned features of the images; not needed where the confidence has no surroundings.
        confidence: how sure the model may be of its scores.
        given: (n,) cluster of images whose category is settled, -1 for the others.
        n_alternatives: how many further categories to name.
        block_size: rows worked on at a time; changes memory and speed, not the result.
    """
    n = len(scores_nk)
    given_n = torch.full((n,), -1) if given is None else torch.from_numpy(given)
    features_nd = torch.zeros(n, 0) if features_nd is None else features_nd
    n_best = min(1 + n_alternatives, len(ids))
    parts = zip(*(torch.split(t, block_size) for t in (scores_nk, features_nd, given_n)), strict=True)
    blocks = []
    for scores_bk, features_bd, given_b in parts:
        cluster_bj, probability_bj = _best_clusters(confidence.probabilities(scores_bk).cpu(), given_b, n_best)
        judged = confidence.judge(scores_bk, features_bd, n_old=n_old)
        blocks.append((cluster_bj, _with_confidence(probability_bj, judged.right_b, given_b), judged.novel_b))
    cluster_nj, probability_nj, novelty_n = (torch.cat(column).numpy() for column in zip(*blocks, strict=True))
    names = np.array(ids, dtype=object)
    status_n = np.where(cluster_nj[:, 0] < n_old, "known", "new")
    is_settled_n = given_n.numpy() >= 0
    table = {
        "category": names[cluster_nj[:, 0]],
        "status": np.where(~is_settled_n & (probability_nj[:, 0] < confidence.unsure_below), "unsure", status_n),
        "confidence": probability_nj[:, 0].round(6),
        "novelty": novelty_n.round(6),
    }
    for rank in range(1, n_best):
        table[f"alt_{rank}"] = names[cluster_nj[:, rank]]
        table[f"alt_{rank}_p"] = probability_nj[:, rank].round(6)
    return pd.DataFrame(table)


def _best_clusters(probability_bk: Tensor, given_b: Tensor, n_best: int) -> tuple[Tensor, Tensor]:
    """Return cluster_bj and probability_bj: the given cluster, if there is one, then the others by falling score."""
    order_bk = probability_bk.clone()
    row_g = (given_b >= 0).nonzero().flatten()
    order_bk[row_g, given_b[row_g]] = 2.0
    # Stable: of equal scores the first counts, as in arg max; topk may take any.
    cluster_bj = order_bk.sort(descending=True, stable=True).indices[:, :n_best]
    return cluster_bj, probability_bk.gather(1, cluster_bj)


def _with_confidence(probability_bj: Tensor, right_b: Tensor, given_b: Tensor) -> Tensor:
    """Return the probabilities with the confidence first; alternatives give way where it leaves them less room.

    Where it is lower than the model's own probability, what is missing to 1 belongs to none of the categories named.
    A given label keeps the model's probability of it: nothing was to be decided.
    """
    first_b, is_open_b = probability_bj[:, 0], given_b < 0
    room_b = torch.where(is_open_b, (1 - right_b) / (1 - first_b).clamp(min=1e-12), 1.0).clamp(max=1)
    with_room_bj = probability_bj * room_b[:, None]
    with_room_bj[:, 0] = torch.where(is_open_b, right_b, first_b)
    return with_room_bj


def results_of(split: Split, fitted: Fitted) -> pd.DataFrame:
    """Return one row per image of what was fitted; `split` has all labels that were given."""
    return result_table(
        split, fitted.scores_nk, fitted.categories, confidence=fitted.confidence, features_nd=fitted.features_nd
    )


def category_table(results: pd.DataFrame, split: Split, ids: list[str], facts: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per category that holds images, known ones first; `facts` are those of `describe`."""
    sizes = results["category"].value_counts()
    labelled = results["label_given"].value_counts()
    confidence = results[results["label_given"].isna()].groupby("category")["confidence"].median()
    hidden = {group["category"]: group["n_group"] for group in facts["hidden_groups"]}
    mixed = {one["category"] for one in facts["mixed_categories"]}
    alike: dict[str, str] = {}
    for pair in facts["alike_pairs"]:  # the closest first
        alike.setdefault(pair["first"], pair["second"])
        alike.setdefault(pair["second"], pair["first"])
    used = [*split.class_names, *sorted(name for name in ids[split.n_old :] if sizes.get(name, 0))]
    return pd.DataFrame(
        {
            "id": used,
            "name": used,
            "kind": ["known" if i < split.n_old else "new" for i in range(len(used))],
            "size": [int(sizes.get(name, 0)) for name in used],
            "labelled": [int(labelled.get(name, 0)) for name in used],
            "median_confidence": [round(float(confidence.get(name, math.nan)), 4) for name in used],
            "may_hide": [hidden.get(name, 0) for name in used],
            "may_mix": [name in mixed for name in used],
            "may_equal": [alike.get(name, "") for name in used],
        }
    )


def describe(split: Split, results: pd.DataFrame, features_nd: Tensor) -> dict[str, Any]:
    """Return the facts that summaries and reports are written from."""
    sorted_ = results[~split.is_labelled]
    is_new = ~sorted_["category"].isin(split.class_names)
    # By id first: among categories of one size the sort keeps that order, so new-001 is the largest.
    new_sizes = sorted_.loc[is_new, "category"].value_counts().sort_index()
    new_sizes = new_sizes.sort_values(ascending=False, kind="stable")
    looks_known = sorted_["status"] == "known"
    return {
        "n_images": len(results),
        "n_labelled": split.n_labelled,
        "n_unlabelled": split.n_unlabelled,
        "n_known_categories": split.n_old,
        "n_unlabelled_known": int(looks_known.sum()),
        "n_unlabelled_new": int((sorted_["status"] == "new").sum()),
        "n_unsure": int((sorted_["status"] == "unsure").sum()),
        "n_new_categories": len(new_sizes),
        "n_categories_used": int(sorted_["category"].nunique()),
        "largest_new": new_sizes.index[0] if len(new_sizes) else None,
        "largest_new_size": int(new_sizes.iloc[0]) if len(new_sizes) else 0,
        "smallest_new": new_sizes.index[-1] if len(new_sizes) else None,
        "smallest_new_size": int(new_sizes.iloc[-1]) if len(new_sizes) else 0,
        "largest_share": round(float(sorted_["category"].value_counts(normalize=True).iloc[0]), 4)
        if len(sorted_)
        else 0.0,
        "median_confidence": round(float(sorted_["confidence"].median()), 4) if len(sorted_) else None,
        "expected_right": {
            "known": expected_right(sorted_.loc[looks_known, "confidence"].to_numpy(), split.n_old),
            "new": expected_right(sorted_.loc[sorted_["status"] == "new", "confidence"].to_numpy(), split.n_old),
        },
        **suspicions(results, split.class_names, features_nd),
        "n_possible_label_errors": int(results["possible_label_error"].sum()),
        "n_unreadable": split.n_not_used,
    }


def held_back_facts(confidence: Confidence) -> dict[str, Any] | None:
    """Return how right the model is on labels it did not know; None without any."""
    n, n_right = confidence.n_held_back, confidence.n_right
    if not n:
        return None
    low, high = share_interval(n_right, n)
    shares = {"accuracy": n_right / n, "low": low, "high": high}
    return {"n": n, "n_right": n_right, **{name: round(100 * share, 2) for name, share in shares.items()}}
