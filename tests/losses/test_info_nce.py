from functools import partial
from math import exp, log

import pytest
import torch
import torch.nn.functional as F

from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import closeness, cosines


def reference(z_vbd, temperature):
    """Plain loops: one positive at a time against all views of all other images."""
    n_views, n_images, _ = z_vbd.shape

    def e(v, b, w, c):
        cosine = torch.dot(z_vbd[v, b], z_vbd[w, c]) / (z_vbd[v, b].norm() * z_vbd[w, c].norm())
        return exp(cosine / temperature)

    terms = []
    for b in range(n_images):
        for v in range(n_views):
            for w in range(n_views):
                if v != w:
                    negatives = sum(e(v, b, u, c) for u in range(n_views) for c in range(n_images) if c != b)
                    terms.append(-log(e(v, b, w, b) / (e(v, b, w, b) + negatives)))
    return sum(terms) / len(terms)


def simgcd(z_vbd, temperature):
    """SimGCD's form: views joined into the batch, the positive put first among the 2B - 1 others."""
    z_ad = F.normalize(z_vbd.flatten(0, 1), dim=1)
    n_anchors, n_images = len(z_ad), z_vbd.shape[1]
    similarity_aa = z_ad @ z_ad.T
    rows = []
    for a in range(n_anchors):
        positive = (a + n_images) % n_anchors
        others = [j for j in range(n_anchors) if j not in (a, positive)]
        rows.append(similarity_aa[a, [positive, *others]])
    return F.cross_entropy(torch.stack(rows) / temperature, torch.zeros(n_anchors, dtype=torch.long))


def test_value_by_hand():
    # Image 0 is (1, 0) in both views, image 1 is (0, 1): positives have cosine 1, the two negatives of each 0.
    z_vbd = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    assert float(info_nce(z_vbd)) == pytest.approx(-log(exp(1) / (exp(1) + 2 * exp(0))), abs=1e-12)
    assert float(info_nce(z_vbd, temperature=0.5)) == pytest.approx(-log(exp(2) / (exp(2) + 2)), abs=1e-12)


@pytest.mark.parametrize("shape", [(2, 2, 3), (2, 6, 4), (3, 4, 5), (4, 2, 2)])
@pytest.mark.parametrize("temperature", [1.0, 0.07])
def test_agrees_with_plain_loops(random_tensor, shape, temperature):
    z_vbd = random_tensor(*shape)
    assert float(info_nce(z_vbd, temperature=temperature)) == pytest.approx(reference(z_vbd, temperature), abs=1e-10)


def test_agrees_with_simgcd_for_two_views(random_tensor):
    z_vbd = random_tensor(2, 7, 5)
    assert float(info_nce(z_vbd, temperature=0.3)) == pytest.approx(float(simgcd(z_vbd, 0.3)), abs=1e-12)


def test_order_of_images_and_views_and_length_of_vectors_do_not_matter(random_tensor):
    z_vbd = random_tensor(3, 5, 4)
    loss = info_nce(z_vbd)
    scale = torch.rand(3, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    for same_vbd in (z_vbd.flip(1), z_vbd.flip(0), z_vbd * scale):
        assert torch.allclose(info_nce(same_vbd), loss, atol=1e-12, rtol=0)


@pytest.mark.parametrize("n_images", [0, 1])
def test_nothing_to_tell_apart_is_zero_with_a_graph(random_tensor, gradient, n_images):
    z_vbd = random_tensor(2, n_images, 3)
    assert info_nce(z_vbd) == 0
    assert not gradient(info_nce, z_vbd).any()


def test_zero_vectors_and_sharp_temperatures_stay_finite(random_tensor, gradient):
    z_vbd = random_tensor(2, 4, 3)
    z_vbd[0, 1] = 0
    assert gradient(lambda z: info_nce(z, temperature=1e-3), z_vbd).isfinite().all()
    assert float(info_nce(torch.zeros(2, 4, 3))) == pytest.approx(log(7))


def test_one_view_is_refused():
    with pytest.raises(ValueError, match="at least 2 views per image"):
        info_nce(torch.zeros(1, 4, 3))


def smoothed(z_vbd, temperature, smoothing):
    """InfoSieve's form: torch's label smoothing of minus the distances, the positive put first."""
    z_ad = F.normalize(z_vbd.flatten(0, 1), dim=1)
    n_anchors, n_images = len(z_ad), z_vbd.shape[1]
    rows = []
    for a in range(n_anchors):
        positive = (a + n_images) % n_anchors
        order = [positive, *(j for j in range(n_anchors) if j not in (a, positive))]
        rows.append(-(z_ad[a] - z_ad[order]).norm(dim=1))
    target = torch.zeros(n_anchors, dtype=torch.long)
    return F.cross_entropy(torch.stack(rows) / temperature, target, label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_distances_and_smoothing_agree_with_infosieve(random_tensor, smoothing):
    z_vbd = random_tensor(2, 6, 5)
    loss = info_nce(z_vbd, temperature=0.7, smoothing=smoothing, similarity=closeness)
    assert float(loss) == pytest.approx(float(smoothed(z_vbd, 0.7, smoothing)), abs=1e-12)


def test_smoothing_by_hand():
    # Positives at 1 and two negatives at 0: a third of half the target falls on each of the three.
    z_vbd = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    log_sum = log(exp(1) + 2)
    expected = 0.5 * (log_sum - 1) + 0.5 * (log_sum - 1 / 3)
    assert float(info_nce(z_vbd, smoothing=0.5)) == pytest.approx(expected, abs=1e-12)


def test_wholly_smoothed_views_of_an_image_do_not_attract_each_other(random_tensor):
    # All alike is the optimum: a batch in which every view is equally far from every other has loss log(2B - 1).
    z_vbd = torch.eye(6, dtype=torch.float64).reshape(2, 3, 6)
    assert float(info_nce(z_vbd, smoothing=1.0, similarity=closeness)) == pytest.approx(log(5), abs=1e-12)
    assert info_nce(random_tensor(2, 3, 6), smoothing=1.0, similarity=closeness) > log(5)


def test_keys_of_a_teacher_take_the_place_of_the_projections_themselves(random_tensor, gradient):
    z_vbd, keys_vbd = random_tensor(2, 5, 4), random_tensor(2, 5, 4, seed=1)
    unit_ad, key_ad = F.normalize(z_vbd, dim=-1).flatten(0, 1), F.normalize(keys_vbd, dim=-1).flatten(0, 1)
    similarity_aa = (unit_ad @ key_ad.T / 0.3).fill_diagonal_(-torch.inf)
    # The positive of a view is the teacher's other view of the image, half a turn away.
    expected = F.cross_entropy(similarity_aa, (torch.arange(10) + 5) % 10)
    assert info_nce(z_vbd, temperature=0.3, similarity=partial(cosines, keys_vbd=keys_vbd)).item() == pytest.approx(
        expected.item(), abs=1e-12
    )
    assert torch.equal(info_nce(z_vbd, similarity=partial(cosines, keys_vbd=z_vbd)), info_nce(z_vbd))
    assert not gradient(
        lambda keys: info_nce(z_vbd, similarity=partial(cosines, keys_vbd=keys)) + 0 * keys.sum(), keys_vbd
    ).any()
