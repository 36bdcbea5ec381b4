from functools import partial
from math import exp, log

import pytest
import torch

from nngcd.losses.pairs import cosines, relative_closeness, unit
from nngcd.losses.supcon import supcon


def reference(z_vbd, labels, temperature):
    """Plain loops over all labelled views; anchors without a positive are left out."""
    views = [
        (unit(z_vbd)[v, b], int(labels[b])) for v in range(len(z_vbd)) for b in range(len(labels)) if labels[b] >= 0
    ]
    terms = []
    for a, (anchor, label) in enumerate(views):
        e = [0.0 if j == a else exp(float(anchor @ other) / temperature) for j, (other, _) in enumerate(views)]
        positives = [j for j, (_, other) in enumerate(views) if other == label and j != a]
        if positives:
            terms.append(sum(-log(e[j] / sum(e)) for j in positives) / len(positives))
    return sum(terms) / len(terms)


def test_value_by_hand():
    # Labelled images (1, 0) and (0, 1) of two classes, the same in both views: one positive at 1, two negatives at 0.
    # The unlabelled third image plays no part.
    image = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.3, 0.4]], dtype=torch.float64)
    loss = supcon(image.expand(2, 3, 2), torch.tensor([0, 1, -1]), temperature=0.5)
    assert float(loss) == pytest.approx(-log(exp(2) / (exp(2) + 2 * exp(0))), abs=1e-12)


def test_two_images_of_one_class_by_hand():
    # Three positives per anchor and nothing else: cosines 1, 0 and 0 make the three softmax terms.
    loss = supcon(torch.eye(2, dtype=torch.float64).expand(2, 2, 2), torch.tensor([4, 4]), temperature=1.0)
    total = exp(1) + 2
    assert float(loss) == pytest.approx((-log(exp(1) / total) - 2 * log(1 / total)) / 3, abs=1e-12)


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_agrees_with_plain_loops(random_tensor, n_views, temperature):
    z_vbd, labels = random_tensor(n_views, 7, 4), torch.tensor([0, 2, -1, 0, 1, 2, -1])
    assert float(supcon(z_vbd, labels, temperature=temperature)) == pytest.approx(
        reference(z_vbd, labels, temperature), abs=1e-10
    )


def test_order_of_images_and_views_and_names_of_classes_do_not_matter(random_tensor):
    z_vbd, labels = random_tensor(2, 6, 4), torch.tensor([0, 1, 0, -1, 2, 2])
    loss = supcon(z_vbd, labels)
    renamed = torch.tensor([5, 9, 5, -1, 0, 0])
    for same in (supcon(z_vbd.flip(1), labels.flip(0)), supcon(z_vbd.flip(0), labels), supcon(z_vbd, renamed)):
        assert torch.allclose(same, loss, atol=1e-12, rtol=0)


def test_unlabelled_images_get_no_gradient(random_tensor, gradient):
    labels = torch.tensor([0, -1, 0])
    gradient_vbd = gradient(lambda z: supcon(z, labels), random_tensor(2, 3, 4))
    assert not gradient_vbd[:, 1].any()
    assert gradient_vbd[:, [0, 2]].any()


@pytest.mark.parametrize(
    ("n_views", "labels"), [(2, [-1, -1, -1]), (2, []), (2, [-1, 3, -1]), (1, [1, -1, -1]), (1, [0, 1, 2])]
)
def test_without_pairs_it_is_zero_with_a_graph(random_tensor, gradient, n_views, labels):
    labels = torch.tensor(labels, dtype=torch.long)
    z_vbd = random_tensor(n_views, len(labels), 4)
    assert float(supcon(z_vbd, labels)) == pytest.approx(0, abs=1e-12)
    assert torch.allclose(gradient(lambda z: supcon(z, labels), z_vbd), torch.zeros_like(z_vbd), atol=1e-12)


def test_no_label_is_exactly_zero(random_tensor):
    assert supcon(random_tensor(2, 3, 4), torch.full((3,), -1)) == 0


def test_zero_vectors_stay_finite(gradient):
    assert gradient(lambda z: supcon(z, torch.tensor([0, 0, 1])), torch.zeros(2, 3, 4)).isfinite().all()


def test_distances_of_labelled_views_by_hand():
    # Points 0, 1 and 3 on a line, 0 and 1 of one class, one view each; the far unlabelled point plays no part.
    z_vbd = torch.tensor([[[0.0], [1.0], [3.0], [100.0]]], dtype=torch.float64)
    loss = supcon(z_vbd, torch.tensor([0, 0, 1, -1]), temperature=0.5, similarity=relative_closeness)
    from_0 = log(1 + exp((-3 / 4 + 1 / 4) / 0.5))
    from_1 = log(1 + exp((-2 / 3 + 1 / 3) / 0.5))
    assert float(loss) == pytest.approx((from_0 + from_1) / 2, abs=1e-12)


def test_keys_of_a_teacher_take_the_place_of_the_projections_themselves(random_tensor, gradient):
    z_vbd, keys_vbd, labels = random_tensor(2, 4, 3), random_tensor(2, 4, 3, seed=1), torch.tensor([0, -1, 1, 0])
    z, k = ([x[v, b] / x[v, b].norm() for v in range(2) for b in (0, 2, 3)] for x in (z_vbd, keys_vbd))
    label = [0, 1, 0] * 2
    losses = []
    for a in range(6):
        others = [i for i in range(6) if i != a]
        log_sum = torch.stack([z[a] @ k[i] / 0.07 for i in others]).logsumexp(0)
        positives = [log_sum - z[a] @ k[i] / 0.07 for i in others if label[i] == label[a]]
        losses.append(sum(positives) / len(positives))

    def against(keys_vbd, **more):
        return supcon(z_vbd, labels, similarity=partial(cosines, keys_vbd=keys_vbd[:, labels >= 0]), **more)

    assert against(keys_vbd, temperature=0.07).item() == pytest.approx((sum(losses) / 6).item(), abs=1e-10)
    assert torch.equal(against(z_vbd), supcon(z_vbd, labels))
    assert not gradient(lambda keys: against(keys) + 0 * keys.sum(), keys_vbd).any()
