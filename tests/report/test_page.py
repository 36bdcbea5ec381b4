from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.core.errors import DataError
from nngcd.counting.estimate_k import KEstimate
from nngcd.data.split import Split
from nngcd.report import cards as cards_module
from nngcd.report.charts import k_chart, loss_lines
from nngcd.report.findings import is_sorted
from nngcd.report.matrix import coloured, make_matrix
from nngcd.report.page import _asset, write_report
from nngcd.results.images import Pictures
from nngcd.results.result_tables import describe

EVIL = "<script>window.hacked = true</script>"
ESTIMATE = KEstimate(4, 3, 6, tuple((k, 1 / (1 + abs(k - 4))) for k in range(2, 9)), "pairs", "fair", "<b>", True)


class Page(HTMLParser):
    """The tags of a page with their attributes, and the texts of its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.raw, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open = tag if tag in ("script", "style") else None

    def handle_data(self, data):
        if self._open:
            self.raw.append((self._open, data))
            self._open = None

    def with_class(self, name):
        return [attributes for _, attributes in self.tags if name in (attributes.get("class") or "").split()]


def written(findings, tmp_path, **options):
    facts = write_report(findings, tmp_path / "report.html", **options)
    text = facts.path.read_text(encoding="utf-8")
    return facts, text, Page(text)


def embedded(page):
    return json.loads(next(data for tag, data in page.raw if tag == "script"))


def test_the_page_is_whole_and_names_are_data(findings, tmp_path):
    facts, text, page = written(findings, tmp_path)
    assert facts.n_categories == 4
    assert facts.n_thumbnails == 36
    assert facts.n_bytes == len(text.encode())
    assert EVIL not in text
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2  # the data and our own
    assert [card["data-name"] for card in page.with_class("card")][:3] == ["new-001", "new-002", EVIL]
    assert embedded(page)["file"][0] == f"{EVIL}/0.png"


def test_nothing_can_be_fetched_or_run_but_the_page_itself(findings, tmp_path):
    _, _, page = written(findings, tmp_path)
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        own = [data for kind, data in page.raw if kind == tag][-1]
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    links = [a.get("src") or a.get("href") for _, a in page.tags if a.get("src") or a.get("href")]
    assert links
    assert all(link.startswith(("data:image/", "#")) for link in links)
    assert not any("style" in attributes or "onclick" in attributes for _, attributes in page.tags)
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link[1:] for link in links if link.startswith("#")} <= targets


def test_every_picture_has_a_text_and_every_field_a_label(findings, tmp_path):
    _, text, page = written(findings, tmp_path)
    assert all("alt" in attributes for tag, attributes in page.tags if tag == "img")
    assert all("aria-label" in a or "aria-hidden" in a for tag, a in page.tags if tag == "svg")
    fields = [tag for tag, _ in page.tags if tag in ("input", "select")]
    assert len(re.findall(r"<label>[^<]+<(?:input|select)", text)) == len(fields)


def test_the_limit_of_thumbnails_is_kept_and_said(findings, tmp_path):
    facts, text, page = written(findings, tmp_path, max_images=10)
    assert facts.n_thumbnails == 10
    assert text.count("data:image/jpeg") == 10
    assert "10 of 36 images have a thumbnail on this page; 26 were left out" in text
    assert len(page.with_class("thumb")) == 8  # one typical and one doubtful image on each of four cards
    assert len(embedded(page)["x"]) == 36
    assert written(findings, tmp_path, max_images=0)[0].n_thumbnails == 0


def test_many_categories_get_a_limited_number_of_cards(findings, tmp_path, monkeypatch):
    monkeypatch.setattr(cards_module, "MOST_CARDS", 3)
    facts, text, page = written(findings, tmp_path)
    assert facts.n_categories == len(page.with_class("card")) == 3
    assert "The 1 smallest of 4 categories have no card" in text


def test_a_run_on_features_says_why_there_are_no_pictures(findings, tmp_path):
    facts, text, page = written(replace(findings, pictures=Pictures(None, "Made from <features>.")), tmp_path)
    assert facts.why_no_pictures == "Made from <features>."
    assert "No thumbnails. Made from &lt;features&gt;." in text
    assert "data:image/jpeg" not in text
    assert page.with_class("names")


def test_unsure_images_novelty_and_label_errors_are_shown(findings, tmp_path):
    results = findings.results.copy()
    results["novelty"] = np.linspace(0, 1, len(results))
    results.loc[results.index[-1], "status"] = "unsure"
    results["possible_label_error"] = np.arange(len(results)) == 0
    _, text, page = written(replace(findings, results=results), tmp_path)
    assert "1 are unsure" in text
    assert '<option value="unsure">' in text
    assert '<option value="errors">' in text
    assert embedded(page)["novelty"][-1] == 1.0
    plain = written(findings, tmp_path)[1]
    assert "unsure images" not in plain


def test_the_number_of_categories_is_told_with_its_interval(findings, tmp_path):
    assert "4 categories, known and new together. The number was given" in written(findings, tmp_path)[1]
    text = written(replace(findings, k_estimate=ESTIMATE), tmp_path)[1]
    assert 'About <strong class="number">4</strong> categories' in text
    assert "likely 3 to 6" in text
    assert "&lt;b&gt;" in text
    assert "Try a wider one" in text


def test_the_curve_shades_the_interval():
    chart = k_chart(ESTIMATE)
    # The axis has 500 pixels from 48 for 2 to 8: 3 lies at 131.3, 6 at 381.3, 4 at 214.7.
    assert '<rect class="band" x="129.3" y="14" width="254.0"' in chart
    assert '<path class="mark" d="M214.7 14V256"/>' in chart


def test_terms_of_the_loss_begin_with_their_sum_and_skip_what_is_no_number():
    epochs = [{"epoch": 0, "b": 1.0, "loss": 2.0, "seconds": 1}, {"epoch": 1, "b": float("nan"), "loss": 1.5}]
    assert [(line.name, line.points) for line in loss_lines(epochs)] == [
        ("loss", ((1.0, 2.0), (2.0, 1.5))),
        ("b", ((1.0, 1.0),)),
    ]


def test_scores_come_with_their_protocol(findings, tmp_path):
    part = {"all": 50.0, "old": 60.0, "new": None}
    scores = {"protocol": "transductive: <x>", "n_scored": 25, "accuracy": part, "accuracy_v1": part,
              "balanced_accuracy": part, "nmi": 70.0, "ari": 30.0}  # fmt: skip
    text = written(replace(findings, summary={**findings.summary, "scores": scores}), tmp_path)[1]
    assert "50.0 % of all images, 60.0 % of those of known categories are right" in text
    assert "Protocol: transductive: &lt;x&gt;" in text
    assert "By name" not in text
    called = {"share": 45.0, "true_share": 33.5, "precision": 70.0, "recall": 90.0}
    named = scores | {"by_name": part, "called_known": called}
    (tmp_path / "report.html").unlink()
    text = written(replace(findings, summary={**findings.summary, "scores": named}), tmp_path)[1]
    assert "By name, 50.0 % are right" in text
    assert "45.0 % are called known; 33.5 % truly are." in text
    assert "without the edits of the review" not in text and "as you corrected them" not in text
    (tmp_path / "report.html").unlink()
    edited = replace(findings, results=findings.results.assign(review_action="move"))
    text = written(replace(edited, summary={**findings.summary, "scores": named}), tmp_path)[1]
    assert "without the edits of the review" in text
    assert "Categories and names are as you corrected them in the review." in text


def test_held_back_labels_give_an_honest_number(findings, tmp_path):
    held_back = {"n": 40, "n_right": 37, "accuracy": 92.5, "low": 80.1, "high": 97.4}
    text = written(replace(findings, summary={**findings.summary, "held_back": held_back}), tmp_path)[1]
    assert "of known categories: 92.5 % (37 of 40 held-back labels; 95 % interval 80.1 to 97.4)" in text


def test_a_method_without_training_has_no_curves(findings, tmp_path):
    text = written(replace(findings, epochs=[]), tmp_path)[1]
    assert "groups images without training" in text


def test_the_matrix_puts_known_categories_first(findings):
    matrix = make_matrix(findings)
    assert matrix.known_share == pytest.approx(22 / 36)
    assert matrix.uri.startswith("data:image/png;base64,")
    assert matrix.statistics.old_within > 0.9


def test_the_lowest_value_is_light_and_the_highest_dark():
    pixels = coloured(np.array([[0.0, 0.5], [0.5, 1.0]]))
    assert pixels[0, 0].tolist() == [247, 248, 250]
    assert pixels[0, 1].tolist() == [126, 163, 196]
    assert pixels[1, 1].tolist() == [18, 43, 79]


def test_results_that_do_not_fit_the_features_are_refused(findings):
    with pytest.raises(DataError, match="36 sorted images and 35 features"):
        replace(findings, features_nd=findings.features_nd[:-1])


def test_images_in_no_category_are_left_out():
    status = ["known", "unreadable", "new", "excluded", "unsure", "new"]
    table = pd.DataFrame({"status": status, "category": ["a", "a", "new-001", "a", "a", None]})
    assert is_sorted(table).tolist() == [True, False, True, False, True, False]


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_background(mode):
    blocks = re.findall(r":root \{(.*?)\n *\}", _asset("style.css"), flags=re.DOTALL)
    colour = dict(re.findall(r"--([\w]+): (#\w{6})", blocks[mode]))
    for ink in ("ink", "quiet", "known", "new", "unsure"):
        for paper in ("paper", "sheet", "soft"):
            light, dark = sorted((luminance(colour[ink]), luminance(colour[paper])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{ink} on {paper}"


def test_the_menu_wraps_in_a_narrow_window():
    """The browser test measures it; this one needs no browser."""
    menu = _asset("style.css").partition("\nnav {")[2].partition("}")[0]
    assert "flex-wrap: wrap" in menu
    assert "overflow" not in menu


def test_page_and_terminal_count_categories_alike(findings, tmp_path):
    results = findings.results.assign(possible_label_error=False)
    results.loc[results["category"] == "new-002", "status"] = "unsure"
    known = [name for name in findings.categories["id"] if not name.startswith("new-")]
    labels = results["label_given"].map({name: i for i, name in enumerate(known)}).fillna(-1).astype("int64")
    split = Split(
        name="x", images=findings.pictures.images, features_nvd=None, labels=labels.to_numpy(),
        class_names=tuple(known), table=results.assign(split=None, group=None),
    )  # fmt: skip
    said = describe(split, results, torch.from_numpy(findings.features_nd))
    assert said["n_new_categories"] == 2
    _, text, _ = written(replace(findings, results=results), tmp_path)
    assert f"{said['n_unlabelled_new']} fall into {said['n_new_categories']} new categories, unsure images" in text
    assert "categories, 2 known + 2 new" in text
