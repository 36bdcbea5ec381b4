from math import exp, log

import pytest
import torch

from nngcd.losses.code import category_cross_entropy, code_condition, code_length, mask_condition


def test_a_condition_on_codes_by_hand():
    # Two digits of two images: 1 - z^2 is 0, 3/4, 0, 1 with mean 7/16; the digits' means are 0 and 1/4.
    code = torch.tensor([[[1.0, 0.5], [-1.0, 0.0]]], dtype=torch.float64)
    assert float(code_condition(code)) == pytest.approx(7 / 16 + (0 + 1 / 16) / 2, abs=1e-12)


def test_decided_digits_that_are_as_often_up_as_down_meet_the_condition():
    code = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]], [[1.0, 1.0], [-1.0, -1.0]]])
    assert code_condition(code) == 0
    assert code_condition(code.abs()) == 1


def test_a_condition_on_masks_by_hand():
    # Of the four masks, squares of m (1 - m): 1/16, 0, 0 and 9/256.
    mask = torch.tensor([[[0.5, 0.0], [1.0, 0.25]]], dtype=torch.float64)
    assert float(mask_condition(mask)) == pytest.approx((1 / 16 + 9 / 256) / 4, abs=1e-12)


def test_the_length_by_hand_weighs_late_digits_most():
    # Digits weigh 1/7, 2/7 and 4/7: (1/7 + 2/7) for the first image and 4/7 / 2 for the second.
    mask = torch.tensor([[[1.0, 1.0, 0.0], [0.0, 0.0, 0.5]]], dtype=torch.float64)
    assert float(code_length(mask)) == pytest.approx((3 / 7 + 2 / 7) / 2, abs=1e-12)


def test_the_length_is_a_share_however_long_the_code():
    assert float(code_length(torch.ones(2, 3, 400))) == pytest.approx(1)
    assert code_length(torch.zeros(2, 3, 400)) == 0


def test_the_length_of_a_batch_over_the_authors_sum_is_its_number_of_views(random_tensor):
    mask_vbl = random_tensor(2, 5, 6).sigmoid()
    place_l = 2.0 ** -torch.arange(6, dtype=torch.float64)
    authors = torch.linalg.vector_norm((mask_vbl / place_l).flatten(), ord=1) / (1 / place_l).sum()
    assert float(code_length(mask_vbl)) == pytest.approx(float(authors) / 10, abs=1e-12)


def test_categories_by_hand():
    # One labelled image, of class 1, in one view; two classes, each a yes-or-no question.
    logits = torch.tensor([[[2.0, -1.0], [5.0, 5.0]]], dtype=torch.float64)
    expected = (log(1 + exp(2)) + log(1 + exp(1))) / 2
    assert float(category_cross_entropy(logits, torch.tensor([1, -1]))) == pytest.approx(expected, abs=1e-12)


def test_categories_agree_with_plain_loops(random_tensor):
    logits, labels = random_tensor(2, 4, 3), torch.tensor([2, -1, 0, 2])
    terms = [
        log(1 + exp(-float(logits[v, b, k]) if k == labels[b] else float(logits[v, b, k])))
        for v in range(2)
        for b in (0, 2, 3)
        for k in range(3)
    ]
    assert float(category_cross_entropy(logits, labels)) == pytest.approx(sum(terms) / len(terms), abs=1e-12)


def test_without_labels_there_is_nothing_to_tell(random_tensor, gradient):
    labels = torch.full((4,), -1)
    assert category_cross_entropy(random_tensor(2, 4, 3), labels) == 0
    assert not gradient(lambda x: category_cross_entropy(x, labels), random_tensor(2, 4, 3)).any()
