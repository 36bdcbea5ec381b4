"""Only the number of categories: where its features come from."""

from __future__ import annotations

from types import SimpleNamespace

from nngcd import estimation
from nngcd.core.progress import Progress
from nngcd.settings import resolve


class Told(Progress):
    def __init__(self):
        self.texts = []

    def tell(self, text):
        self.texts.append(text)


def test_where_features_were_looked_for_is_said(blob_split, tmp_path, monkeypatch):
    plan = SimpleNamespace(folder_name=lambda: "views-of-one-size")
    monkeypatch.setattr(estimation, "prepare", lambda *_, **__: SimpleNamespace(plan=plan))
    for name in ("kept_views", "centre_view_features", "estimated_k"):
        monkeypatch.setattr(estimation, name, lambda *_, **__: None)
    for is_there in (False, True):
        told = Told()
        estimation.estimate_of_images(blob_split, resolve({"data": "x"}), method="auto", cache=tmp_path, progress=told)
        assert bool(told.texts) is not is_there
        if told.texts:
            assert str(tmp_path / "views-of-one-size") in told.texts[0]
            assert "nngcd estimate-k RUN" in told.texts[0]
        (tmp_path / "views-of-one-size").mkdir(exist_ok=True)
