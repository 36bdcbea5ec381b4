from math import exp, log

import pytest
import torch

from nngcd.losses.info_nce import info_nce
from nngcd.losses.nmf_nce import log_weights, nmf_nce
from nngcd.losses.pairs import cosines, unit

SETTINGS = {"temperature": 0.5, "mean": 0.1, "deviation": 1.0}
PRINTED = {"include_positive": False, "mean_negatives": True}


def gaussian(cosine, mean, deviation):
    return exp(-((cosine - mean) ** 2) / (2 * deviation**2))


def reference(z_vbd, *, temperature, mean, deviation, include_positive=True, mean_negatives=False):
    """Plain loops over the authors' form."""
    unit_vbd = unit(z_vbd)
    n_views, n_images, _ = z_vbd.shape
    terms = []
    for v in range(n_views):
        for b in range(n_images):
            cosine = [float(unit_vbd[v, b] @ unit_vbd[u, c]) for u in range(n_views) for c in range(n_images) if c != b]
            weight = [gaussian(s, mean, deviation) for s in cosine]
            normal = [w / (sum(weight) / len(weight)) for w in weight]
            negative = sum(w * exp(s / temperature) for w, s in zip(normal, cosine, strict=True))
            negative = negative / len(cosine) if mean_negatives else negative
            for w in range(n_views):
                if w != v:
                    positive = exp(float(unit_vbd[v, b] @ unit_vbd[w, b]) / temperature)
                    terms.append(-log(positive / (negative + (positive if include_positive else 0))))
    return sum(terms) / len(terms)


def official(z_vbd, *, temperature, mean, deviation):
    """The authors' matrix form (ADNCE): exponentials first, weights on the logarithm taken back."""
    z_ad, n_images = unit(z_vbd).flatten(0, 1), z_vbd.shape[1]
    e_aa = torch.exp(z_ad @ z_ad.T / temperature)
    image_a = torch.arange(n_images).repeat(2)
    negative_an = e_aa[image_a[:, None] != image_a].view(2 * n_images, -1)
    positive_a = torch.exp((unit(z_vbd)[0] * unit(z_vbd)[1]).sum(-1) / temperature).repeat(2)
    weight_an = torch.exp(-0.5 * ((negative_an.log() * temperature - mean) / deviation) ** 2)
    weight_an = weight_an / weight_an.mean(1, keepdim=True)
    sum_a = (negative_an * weight_an.detach()).sum(1)
    return -torch.log(positive_a / (positive_a + sum_a)).mean()


def test_value_by_hand():
    # Each anchor has a positive at cosine 1 and, in both views, one negative at 0 and one at 0.6.
    image = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.0, 0.8]], dtype=torch.float64)
    z_vbd = image.expand(2, 3, 3)
    # Anchors 0 and 2 see cosines 0.6 and 0; anchor 1 sees 0 and 0, whose weights are 1.
    far, near = gaussian(0.0, 0.1, 1.0), gaussian(0.6, 0.1, 1.0)
    mean = (2 * far + 2 * near) / 4
    negative = 2 * (far / mean * exp(0.0) + near / mean * exp(0.6 / 0.5))
    first, second = -log(exp(2) / (exp(2) + negative)), -log(exp(2) / (exp(2) + 4 * exp(0)))
    assert float(nmf_nce(z_vbd)) == pytest.approx((2 * first + second) / 3, abs=1e-12)
    printed = (2 * (log(negative / 4) - 2) + (log(1.0) - 2)) / 3
    assert float(nmf_nce(z_vbd, **PRINTED)) == pytest.approx(printed, abs=1e-12)


@pytest.mark.parametrize("shape", [(2, 2, 3), (2, 6, 4), (3, 4, 5)])
@pytest.mark.parametrize("form", [{}, PRINTED, {"include_positive": False}, {"mean_negatives": True}])
@pytest.mark.parametrize("settings", [SETTINGS, {"temperature": 0.2, "mean": 0.8, "deviation": 0.3}])
def test_agrees_with_plain_loops(random_tensor, shape, form, settings):
    z_vbd = random_tensor(*shape)
    assert float(nmf_nce(z_vbd, **settings, **form)) == pytest.approx(reference(z_vbd, **settings, **form), abs=1e-10)


def test_agrees_with_the_authors_form_in_value_and_gradient(random_tensor, gradient):
    z_vbd = random_tensor(2, 8, 5)
    ours, theirs = (lambda z: nmf_nce(z, **SETTINGS)), (lambda z: official(z, **SETTINGS))
    assert float(ours(z_vbd)) == pytest.approx(float(theirs(z_vbd)), abs=1e-12)
    assert torch.allclose(gradient(ours, z_vbd), gradient(theirs, z_vbd), atol=1e-12, rtol=0)


@pytest.mark.parametrize("deviation", [float("inf"), 1e200])
@pytest.mark.parametrize("n_views", [2, 3])
def test_infinitely_wide_weights_give_info_nce(random_tensor, n_views, deviation):
    z_vbd = random_tensor(n_views, 6, 4)
    expected = float(info_nce(z_vbd, temperature=0.5))
    assert float(nmf_nce(z_vbd, temperature=0.5, deviation=deviation)) == pytest.approx(expected, abs=1e-12)


def test_weights_have_mean_1_over_the_negatives_and_peak_at_the_mean(random_tensor):
    cosine_vbwc = cosines(random_tensor(2, 5, 4))
    weight_vbwc = log_weights(cosine_vbwc, mean=0.1, deviation=0.2).exp()
    assert torch.allclose(weight_vbwc.sum((2, 3)) / 8, torch.ones(2, 5, dtype=torch.float64), atol=1e-12, rtol=0)
    assert not weight_vbwc.diagonal(dim1=1, dim2=3).any()
    distance_vbwc = (cosine_vbwc - 0.1).abs() + torch.eye(5, dtype=torch.float64)[None, :, None, :] * 9
    assert torch.equal(weight_vbwc.flatten(2).argmax(2), distance_vbwc.flatten(2).argmin(2))


def test_weights_are_mild_at_the_papers_settings():
    assert gaussian(0.1, 0.1, 1.0) / gaussian(1.0, 0.1, 1.0) < 1.5 + 1e-3


def test_gradient_is_the_closed_form_with_constant_weights(random_tensor, gradient):
    z_vbd, tau, n_images = random_tensor(2, 5, 4), 0.5, 5
    cosine_vbwc = cosines(z_vbd)
    positive_vb = torch.exp(torch.stack([cosine_vbwc[v].diagonal(dim1=0, dim2=2)[1 - v] for v in range(2)]) / tau)
    weighted_vbwc = log_weights(cosine_vbwc, mean=0.1, deviation=1.0).exp() * torch.exp(cosine_vbwc / tau)
    total_vb = positive_vb + weighted_vbwc.sum((2, 3))
    # dL/ds is w e^(s / tau) / (tau (pos + Ng)) for a negative and (pos / (pos + Ng) - 1) / tau for the positive.
    slope_vbwc = weighted_vbwc / (tau * total_vb[:, :, None, None])
    for v in range(2):
        slope_vbwc[v, torch.arange(5), 1 - v, torch.arange(5)] = (positive_vb[v] / total_vb[v] - 1) / tau
    expected = gradient(lambda z: (slope_vbwc * cosines(z)).sum() / (2 * n_images), z_vbd)
    assert torch.allclose(gradient(nmf_nce, z_vbd), expected, atol=1e-12, rtol=0)


def test_order_of_images_and_views_does_not_matter(random_tensor):
    z_vbd = random_tensor(2, 6, 4)
    for same_vbd in (z_vbd.flip(1), z_vbd.flip(0)):
        assert torch.allclose(nmf_nce(same_vbd), nmf_nce(z_vbd), atol=1e-12, rtol=0)


@pytest.mark.parametrize("form", [{}, PRINTED])
@pytest.mark.parametrize("n_images", [0, 1])
def test_no_negatives_stay_finite(random_tensor, gradient, form, n_images):
    z_vbd = random_tensor(2, n_images, 3)
    assert nmf_nce(z_vbd, **form).isfinite()
    assert gradient(lambda z: nmf_nce(z, **form), z_vbd).isfinite().all()


def test_one_image_leaves_only_the_attraction_of_the_printed_form():
    z_vbd = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]]], dtype=torch.float64)
    assert nmf_nce(z_vbd) == 0
    assert float(nmf_nce(z_vbd, **PRINTED)) == pytest.approx(-0.6 / 0.5)


def test_zero_vectors_narrow_weights_and_sharp_temperatures_stay_finite(random_tensor, gradient):
    z_vbd = random_tensor(2, 4, 3)
    z_vbd[1, 2] = 0
    assert gradient(lambda z: nmf_nce(z, temperature=1e-3, deviation=1e-3), z_vbd).isfinite().all()


def test_one_view_is_refused():
    with pytest.raises(ValueError, match="at least 2 views per image"):
        nmf_nce(torch.zeros(1, 4, 3))
