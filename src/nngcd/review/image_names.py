"""Find images by file name."""

from __future__ import annotations

from pathlib import PurePosixPath

import pandas as pd

from nngcd.core.errors import UserError, did_you_mean
from nngcd.core.words import quoted


class ImageNames:
    """The images of a run by their file name as in the results, or by the last part of that."""

    def __init__(self, results: pd.DataFrame) -> None:
        exact: dict[str, list[tuple[str, str]]] = {}
        bare: dict[str, list[tuple[str, str]]] = {}
        for image, file_name in zip(results["image_id"], results["file_name"], strict=True):
            exact.setdefault(str(file_name), []).append((str(image), str(file_name)))
            bare.setdefault(PurePosixPath(file_name).name, []).append((str(image), str(file_name)))
        # Of exactly this name, or all that end in it.
        self._found = bare | exact

    def id_of(self, name: str) -> str:
        """Return the id of an image."""
        found = self._found.get(name, [])
        if len(found) == 1:
            return found[0][0]
        if not found:
            raise UserError(f"no image '{name}' in this run.{did_you_mean(name, self._found)}")
        # File names that are all the same do not tell the images apart; their ids do.
        which = [id_ if file_name == name else file_name for id_, file_name in found]
        raise UserError(f"'{name}' matches {len(found):,} images: {quoted(which)}. Give one of these.")
