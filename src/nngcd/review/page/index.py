"""Where every image is, as arrays that follow the edits: what lists, neighbours and suggestions are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from nngcd.review.page.unit_features import Floats, Ids, UnitFeatures
from nngcd.review.state import State

NOWHERE = -1


class Index:
    """The rows of each category, and the centre of their features.

    Categories keep the numbers of an earlier index, which windows that are open know.
    """

    def __init__(self, features: UnitFeatures, state: State, numbers: Mapping[str, int] | None = None) -> None:
        self.ids = list(state.images)
        self.row_of = {image: row for row, image in enumerate(self.ids)}
        self.features = features
        self.numbers: dict[str, int] = dict(numbers or {})
        for id_ in state.categories:
            self._number(id_)
        placed = state.images.values()
        self.category_n = np.array([self._number(one.category) for one in placed], dtype=np.int64)
        self.is_decided_n = np.array([one.is_decided for one in placed], dtype=bool)
        """(n,) whether a person has moved or rejected this image."""
        self.sum_kd: Floats = np.zeros((len(self.numbers), features.n_features), dtype=np.float32)
        self._rows: dict[int, Ids] = {}
        self._to_centre: dict[int, Floats] = {}
        order = np.argsort(self.category_n, kind="stable")
        found, starts = np.unique(self.category_n[order], return_index=True)
        for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            self._set_rows(number, rows)

    def follow(self, images: Iterable[str], state: State) -> None:
        """Bring the rows and centres up to date after an edit that changed these images."""
        changed: set[int] = set()
        for image in images:
            row, placed = self.row_of[image], state.images[image]
            changed.add(int(self.category_n[row]))
            self.category_n[row] = self._number(placed.category)
            self.is_decided_n[row] = placed.is_decided
            changed.add(int(self.category_n[row]))
        self._make_room()
        for number in changed - {NOWHERE}:
            self._set_rows(number, np.flatnonzero(self.category_n == number))

    def rows(self, category: str) -> Ids:
        """Return the rows of a category's images, in the order of the run."""
        return self._rows.get(self.numbers.get(category, NOWHERE - 1), np.zeros(0, dtype=np.int64))

    def size(self, category: str) -> int:
        """Return how many images a category has."""
        return len(self.rows(category))

    def centre(self, category: str) -> Floats:
        """Return the centre of a category's features at unit length; zeros where it has no images."""
        number = self.numbers.get(category)
        if number is None or number >= len(self.sum_kd):
            return np.zeros(self.features.n_features, dtype=np.float32)
        centre: Floats = _unit_rows(self.sum_kd[number][None])[0]
        return centre

    def centres(self, categories: list[str]) -> Floats:
        """Return (k, d) the centres of some categories."""
        self._make_room()
        return _unit_rows(self.sum_kd[[self.numbers[id_] for id_ in categories]])

    def to_centre(self, category: str) -> tuple[Ids, Floats]:
        """Return a category's rows and the cosine similarity of each to the centre."""
        rows = self.rows(category)
        number = self.numbers.get(category, NOWHERE)
        if number not in self._to_centre:
            self._to_centre[number] = self.features.similarity(rows, self.centre(category))
        return rows, self._to_centre[number]

    def to_own_centre(self) -> Floats:
        """Return (n,) the similarity of each image to the centre of its category; 0 where it is in none."""
        similarity_n = np.zeros(len(self.ids), dtype=np.float32)
        for category in self.numbers:
            rows, similarity_m = self.to_centre(category)
            similarity_n[rows] = similarity_m
        return similarity_n

    def means(self, categories: list[str]) -> Floats:
        """Return (k, d) the mean feature of some categories, which is shorter the more their images differ."""
        self._make_room()
        size_k = np.array([max(1, self.size(id_)) for id_ in categories], dtype=np.float32)
        means_kd: Floats = self.sum_kd[[self.numbers[id_] for id_ in categories]] / size_k[:, None]
        return means_kd

    def _number(self, category: str | None) -> int:
        return NOWHERE if category is None else self.numbers.setdefault(category, len(self.numbers))

    def _make_room(self) -> None:
        if (n_more := len(self.numbers) - len(self.sum_kd)) > 0:
            self.sum_kd = np.vstack([self.sum_kd, np.zeros((n_more, self.sum_kd.shape[1]), dtype=np.float32)])

    def _set_rows(self, number: int, rows: Ids) -> None:
        self._rows[number] = rows
        self._to_centre.pop(number, None)
        if number != NOWHERE:
            self.sum_kd[number] = self.features.sum_of(rows)


def _unit_rows(vectors_kd: Floats) -> Floats:
    length_k = np.linalg.norm(vectors_kd, axis=1, keepdims=True)
    unit_kd: Floats = np.divide(vectors_kd, length_k, out=np.zeros_like(vectors_kd), where=length_k > 0)
    return unit_kd
