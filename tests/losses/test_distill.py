from math import exp, log

import pytest
import torch

from nngcd.losses.distill import cross_view_distillation, mean_entropy_gap, remembered_entropy_gap

TEMPERATURES = {"student_temperature": 0.1, "teacher_temperature": 0.07}


def softmax(row, temperature):
    e = [exp(x / temperature) for x in row]
    return [x / sum(e) for x in e]


def distillation_reference(student, teacher, student_temperature, teacher_temperature):
    terms = []
    for v, taught in enumerate(teacher.tolist()):
        for w, learning in enumerate(student.tolist()):
            if v != w:
                for target_row, row in zip(taught, learning, strict=True):
                    target, p = softmax(target_row, teacher_temperature), softmax(row, student_temperature)
                    terms.append(-sum(t * log(q) for t, q in zip(target, p, strict=True)))
    return sum(terms) / len(terms)


def test_distillation_by_hand():
    # Temperatures 1: view 0 predicts (3/4, 1/4), view 1 predicts (1/2, 1/2).
    logits_vbk = torch.tensor([[[log(3), 0.0]], [[0.0, 0.0]]], dtype=torch.float64)
    loss = cross_view_distillation(logits_vbk, logits_vbk, student_temperature=1.0, teacher_temperature=1.0)
    from_0_to_1 = -(3 / 4 * log(1 / 2) + 1 / 4 * log(1 / 2))
    from_1_to_0 = -(1 / 2 * log(3 / 4) + 1 / 2 * log(1 / 4))
    assert float(loss) == pytest.approx((from_0_to_1 + from_1_to_0) / 2, abs=1e-12)


@pytest.mark.parametrize("n_views", [2, 3, 4])
def test_distillation_agrees_with_plain_loops(random_tensor, n_views):
    student, teacher = random_tensor(n_views, 5, 3).clamp(-1, 1), random_tensor(n_views, 5, 3, seed=1).clamp(-1, 1)
    loss = cross_view_distillation(student, teacher, **TEMPERATURES)
    assert float(loss) == pytest.approx(distillation_reference(student, teacher, **TEMPERATURES), abs=1e-10)


def test_no_gradient_reaches_the_teacher(random_tensor, gradient):
    logits_vbk = random_tensor(2, 4, 3).requires_grad_()
    teacher_vbk = random_tensor(2, 4, 3, seed=1).requires_grad_()
    cross_view_distillation(logits_vbk, teacher_vbk, **TEMPERATURES).backward()
    assert teacher_vbk.grad is None
    # The same tensor may play both parts: it then learns as student only.
    both = gradient(lambda x: cross_view_distillation(x, x, **TEMPERATURES), logits_vbk.detach())
    alone = gradient(lambda x: cross_view_distillation(x, logits_vbk, **TEMPERATURES), logits_vbk.detach())
    assert torch.equal(both, alone)


def test_order_of_images_views_and_clusters_does_not_matter(random_tensor):
    logits_vbk = random_tensor(3, 4, 5)
    loss, gap = (
        cross_view_distillation(logits_vbk, logits_vbk, **TEMPERATURES),
        mean_entropy_gap(logits_vbk, temperature=1),
    )
    for axis in range(3):
        same_vbk = logits_vbk.flip(axis)
        assert torch.allclose(cross_view_distillation(same_vbk, same_vbk, **TEMPERATURES), loss, atol=1e-12, rtol=0)
        assert torch.allclose(mean_entropy_gap(same_vbk, temperature=1), gap, atol=1e-12, rtol=0)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="at least 2 views per image"):
        cross_view_distillation(torch.zeros(1, 4, 3), torch.zeros(1, 4, 3), **TEMPERATURES)
    with pytest.raises(ValueError, match=r"got shapes \(2, 4, 3\) and \(2, 4, 5\)"):
        cross_view_distillation(torch.zeros(2, 4, 3), torch.zeros(2, 4, 5), **TEMPERATURES)


def test_entropy_gap_by_hand():
    # Predictions (3/4, 1/4) and (1/4, 1/4 * 3) average to (1/2, 1/2); the first one alone leaves a gap.
    one = [log(3), 0.0]
    balanced = torch.tensor([[one], [one[::-1]]], dtype=torch.float64)
    assert float(mean_entropy_gap(balanced, temperature=1.0)) == pytest.approx(0, abs=1e-12)
    lopsided = torch.tensor([[one], [one]], dtype=torch.float64)
    entropy = -(3 / 4 * log(3 / 4) + 1 / 4 * log(1 / 4))
    assert float(mean_entropy_gap(lopsided, temperature=1.0)) == pytest.approx(log(2) - entropy, abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 1, 2), (2, 5, 4), (3, 2, 7)])
def test_entropy_gap_is_the_divergence_of_the_mean_prediction_from_uniform(random_tensor, shape):
    logits_vbk = random_tensor(*shape)
    rows = [softmax(row, 0.1) for view in logits_vbk.tolist() for row in view]
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    divergence = sum(p * log(p * len(mean)) for p in mean)
    assert float(mean_entropy_gap(logits_vbk, temperature=0.1)) == pytest.approx(divergence, abs=1e-10)


def test_entropy_gap_gradient_agrees_with_entr_away_from_zero(random_tensor, gradient):
    def by_entr(x):
        return -torch.special.entr((x / 0.1).softmax(-1).mean((0, 1))).sum()

    logits_vbk = random_tensor(2, 3, 4)
    ours = gradient(lambda x: mean_entropy_gap(x, temperature=0.1), logits_vbk)
    assert torch.allclose(ours, gradient(by_entr, logits_vbk), atol=1e-10, rtol=0)


def test_entropy_gap_has_a_finite_gradient_at_zero_probability(gradient):
    logits_vbk = torch.tensor([[[0.0, -500.0, 0.0]]]).expand(2, 3, 3).clone()
    assert (logits_vbk / 0.1).softmax(-1)[0, 0, 1] == 0
    assert float(mean_entropy_gap(logits_vbk, temperature=0.1)) == pytest.approx(log(3) - log(2))
    assert gradient(lambda x: mean_entropy_gap(x, temperature=0.1), logits_vbk).isfinite().all()


def test_one_image_and_none(random_tensor):
    logits_vbk = random_tensor(2, 1, 3)
    assert cross_view_distillation(logits_vbk, logits_vbk, **TEMPERATURES).isfinite()
    empty_vbk = torch.zeros(2, 0, 3)
    assert cross_view_distillation(empty_vbk, empty_vbk, **TEMPERATURES) == 0
    assert mean_entropy_gap(empty_vbk, temperature=0.1) == 0


def test_remembered_entropy_gap_by_hand():
    # The batch predicts (3/4, 1/4), remembered is (1/2, 1/2): with a memory of 1/2 the mean is (5/8, 3/8).
    logits_vbk = torch.tensor([[[log(3), 0.0]]], dtype=torch.float64)
    half_k = torch.full((2,), 0.5, dtype=torch.float64)
    gap, mean_k = remembered_entropy_gap(logits_vbk, half_k, memory=0.5, temperature=1.0)
    assert mean_k.tolist() == pytest.approx([5 / 8, 3 / 8], abs=1e-12)
    assert float(gap) == pytest.approx(log(2) + 5 / 8 * log(5 / 8) + 3 / 8 * log(3 / 8), abs=1e-12)


def test_the_gradient_of_the_remembered_gap_is_that_of_the_new_batch_in_full(random_tensor, gradient):
    logits_vbk = random_tensor(2, 4, 3)
    remembered_k = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    batch_k = (logits_vbk / 0.1).softmax(-1).mean((0, 1))
    slope_k = (0.9 * remembered_k + 0.1 * batch_k).log() + 1
    found = gradient(lambda x: remembered_entropy_gap(x, remembered_k, memory=0.9, temperature=0.1)[0], logits_vbk)
    expected = gradient(lambda x: ((x / 0.1).softmax(-1).mean((0, 1)) * slope_k).sum(), logits_vbk)
    assert torch.allclose(found, expected, atol=1e-12)


def test_without_memory_the_remembered_gap_is_the_gap_of_the_batch(random_tensor, gradient):
    logits_vbk = random_tensor(2, 4, 3)
    uniform_k = torch.full((3,), 1 / 3, dtype=torch.float64)

    def remembered(x):
        return remembered_entropy_gap(x, uniform_k, memory=0.0, temperature=0.1)[0]

    def plain(x):
        return mean_entropy_gap(x, temperature=0.1)

    assert float(remembered(logits_vbk)) == pytest.approx(float(plain(logits_vbk)), abs=1e-12)
    assert torch.allclose(gradient(remembered, logits_vbk), gradient(plain, logits_vbk), atol=1e-10)


def test_a_cluster_that_nothing_ever_fell_into_makes_no_nan(gradient):
    logits_vbk = torch.tensor([[[1.0, -1.0]]])
    gap, mean_k = remembered_entropy_gap(logits_vbk, torch.tensor([1.0, 0.0]), memory=0.9, temperature=1e-3)
    assert mean_k.tolist() == [1.0, 0.0]
    assert float(gap) == pytest.approx(log(2))
    slope = gradient(lambda x: remembered_entropy_gap(x, mean_k, memory=0.9, temperature=1e-3)[0], logits_vbk)
    assert torch.isfinite(slope).all()


def test_an_empty_batch_is_not_remembered():
    uniform_k = torch.full((3,), 1 / 3)
    gap, mean_k = remembered_entropy_gap(torch.zeros(2, 0, 3), uniform_k, memory=0.9, temperature=0.1)
    assert float(gap) == 0
    assert torch.equal(mean_k, uniform_k)
