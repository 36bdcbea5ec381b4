from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nngcd.report.card_html import cohesion_words
from nngcd.report.cards import (
    Card,
    cohesions,
    doubtful_rows,
    group,
    images_per_card,
    make_cards,
    nearest,
    similarity_to_centre,
    typical_rows,
)

# Categories: two images along x and one along y; two of different length along x; one alone; none.
FEATURES = np.array([[1, 0], [2, 0], [0, 1], [3, 0], [5, 0], [0, 7]], dtype=np.float32)
CATEGORY = np.array([0, 0, 0, 1, 1, 2])


def test_cohesion_is_the_mean_similarity_of_two_different_images():
    cohesion_k = cohesions(group(FEATURES, CATEGORY, 4))
    assert cohesion_k[:2] == pytest.approx([1 / 3, 1.0])  # pairs of the first: 1, 0 and 0
    assert np.isnan(cohesion_k[2:]).all()


def test_blocks_do_not_change_the_sums(monkeypatch):
    whole = group(FEATURES, CATEGORY, 4)
    monkeypatch.setattr("nngcd.report.cards.ROWS_PER_BLOCK", 2)
    parts = group(FEATURES, CATEGORY, 4)
    assert np.allclose(whole.sum_kd, parts.sum_kd)
    assert np.allclose(whole.square_k, parts.square_k)
    assert similarity_to_centre(FEATURES, CATEGORY, parts) == pytest.approx(
        [2 / 5**0.5, 2 / 5**0.5, 1 / 5**0.5, 1, 1, 1]
    )


def test_a_zero_feature_is_similar_to_nothing():
    groups = group(np.array([[0, 0], [1, 0]], dtype=np.float32), np.array([0, 0]), 1)
    assert cohesions(groups).tolist() == [0.0]


def test_nearest_leaves_out_itself_and_those_not_allowed():
    similarity_kk = np.array([[1.0, 0.2, 0.9, 0.5], [0.2, 1, 0, 0], [0.9, 0, 1, 0], [0.5, 0, 0, 1]])
    found = nearest(similarity_kk, 0, np.array([True, True, False, True]))
    assert [(one.category, one.similarity) for one in found] == [(3, 0.5), (1, 0.2)]


def test_typical_images_lie_near_the_centre_and_are_sure():
    similarity_n, is_unsure_n = np.array([0.9, 0.5, 0.8, 0.99]), np.array([False, False, False, True])
    assert typical_rows(np.arange(4), similarity_n, is_unsure_n, 3).tolist() == [0, 2, 1]


def test_doubtful_images_are_label_errors_and_then_the_least_confident():
    confidence_n, is_error_n = np.array([0.9, 0.2, 0.4, 0.8]), np.array([True, False, False, False])
    assert doubtful_rows(np.arange(4), confidence_n, is_error_n, 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("n_cards", "max_images", "expected"),
    [(20, 2000, (6, 6)), (200, 2000, (5, 5)), (1000, 2000, (1, 1)), (1000, 1000, (1, 0)), (5, 0, (0, 0))],
)
def test_cards_share_the_thumbnails(n_cards, max_images, expected):
    assert images_per_card(n_cards, max_images) == expected


def test_new_categories_come_first_then_by_size(findings):
    cards = make_cards(findings, max_images=2000)
    assert [card.category for card in cards] == [2, 3, 0, 1]
    assert [card.size for card in cards] == [8, 6, 12, 10]
    assert [card.n_labelled for card in cards] == [0, 0, 6, 5]
    assert [one.category for one in cards[0].nearest_known] in ([0, 1], [1, 0])
    assert [one.category for one in cards[0].nearest_new] == [3]


def test_typical_and_doubtful_do_not_overlap_and_labels_are_not_doubtful(findings):
    for card in make_cards(findings, max_images=2000):
        assert not set(card.typical) & set(card.doubtful)
        assert not findings.is_labelled_n[list(card.doubtful)].any()
        confidence = findings.results["confidence"].to_numpy()[list(card.doubtful)]
        assert (np.diff(confidence) >= 0).all()


def test_unsure_images_and_possible_label_errors_are_counted_where_a_run_has_them(findings):
    results = findings.results.copy()
    results.loc[results.index[12], "status"] = "unsure"
    results["possible_label_error"] = np.arange(len(results)) == 14  # a labelled image
    card = make_cards(replace(findings, results=results), max_images=2000)[3]
    assert (card.category, card.n_unsure, card.n_label_errors) == (1, 1, 1)
    if 14 not in card.typical:
        assert card.doubtful[0] == 14


def test_cohesion_in_words_compares_with_known_categories():
    def card(category, cohesion):
        return Card(category=category, size=2, n_labelled=0, n_unsure=0, n_label_errors=0, median_confidence=None,
                    cohesion=cohesion, nearest_known=(), nearest_new=(), typical=(), doubtful=())  # fmt: skip

    cards = [card(0, 0.4), card(1, 0.6), card(2, 0.8), card(3, 0.7), card(4, 0.5), card(5, 0.3), card(6, None)]
    kinds = ["known"] * 3 + ["new"] * 4
    words = [word.split(" known")[0] for word in cohesion_words(cards, kinds)]
    loose, tight = "looser than most", "as tight as most"
    assert words == [loose, tight, tight, tight, loose, "looser than every", ""]
    assert set(cohesion_words(cards, ["new"] * 7)) == {""}
