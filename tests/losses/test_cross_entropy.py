from math import exp, log

import pytest
import torch

from nngcd.losses.cross_entropy import labelled_cross_entropy


def reference(logits_vbk, labels, temperature):
    terms = []
    for view in logits_vbk.tolist():
        for row, label in zip(view, labels.tolist(), strict=True):
            if label >= 0:
                terms.append(log(sum(exp(x / temperature) for x in row)) - row[label] / temperature)
    return sum(terms) / len(terms)


def test_value_by_hand():
    # Only image 0 is labelled; its views say 0.1 and 0 for the right class against 0 and 0.1.
    logits_vbk = torch.tensor([[[0.1, 0.0], [9.0, 9.0]], [[0.0, 0.1], [9.0, 9.0]]], dtype=torch.float64)
    right, wrong = -log(exp(1) / (exp(1) + 1)), -log(1 / (exp(1) + 1))
    loss = labelled_cross_entropy(logits_vbk, torch.tensor([0, -1]))
    assert float(loss) == pytest.approx((right + wrong) / 2, abs=1e-12)


@pytest.mark.parametrize("labels", [[0, 3, -1, 1, -1], [0, 0, 0, 0, 0], [-1, -1, -1, -1, 2]])
@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_agrees_with_plain_loops(random_tensor, n_views, labels):
    logits_vbk, labels = random_tensor(n_views, 5, 4), torch.tensor(labels)
    loss = labelled_cross_entropy(logits_vbk, labels, temperature=0.3)
    assert float(loss) == pytest.approx(reference(logits_vbk, labels, 0.3), abs=1e-10)


def test_order_of_images_and_views_does_not_matter(random_tensor):
    logits_vbk, labels = random_tensor(2, 4, 3), torch.tensor([0, -1, 2, 1])
    loss = labelled_cross_entropy(logits_vbk, labels)
    assert torch.allclose(labelled_cross_entropy(logits_vbk.flip(1), labels.flip(0)), loss, atol=1e-12, rtol=0)
    assert torch.allclose(labelled_cross_entropy(logits_vbk.flip(0), labels), loss, atol=1e-12, rtol=0)


@pytest.mark.parametrize("n_images", [0, 3])
def test_no_label_is_zero_with_a_graph(random_tensor, gradient, n_images):
    logits_vbk, labels = random_tensor(2, n_images, 4), torch.full((n_images,), -1)
    assert labelled_cross_entropy(logits_vbk, labels) == 0
    assert not gradient(lambda x: labelled_cross_entropy(x, labels), logits_vbk).any()


def test_unlabelled_images_get_no_gradient(random_tensor, gradient):
    labels = torch.tensor([-1, 1])
    gradient_vbk = gradient(lambda x: labelled_cross_entropy(x, labels), random_tensor(2, 2, 3))
    assert not gradient_vbk[:, 0].any()
    assert gradient_vbk[:, 1].any()
