import torch
import torch.nn.functional as F

from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import (
    closeness,
    cosines,
    distances,
    mean_over_positives,
    other_images,
    own_image,
    relative_closeness,
    unit,
)
from nngcd.methods.heads import rep_relu


def test_unit_is_normalize_away_from_zero(random_tensor):
    assert torch.equal(unit(random_tensor(2, 3, 4)), F.normalize(random_tensor(2, 3, 4), dim=-1))


def test_a_dead_projection_gets_no_gradient(random_tensor, gradient):
    z_vbd = random_tensor(2, 3, 4)
    z_vbd[0, 1] = -z_vbd[0, 1].abs()  # rep_relu makes it zero, yet lets gradients through
    gradient_vbd = gradient(lambda z: info_nce(rep_relu(z)), z_vbd)
    assert not gradient_vbd[0, 1].any()
    assert gradient_vbd.abs().max() < 10


def test_pairs_are_told_apart_by_image(random_tensor):
    cosine_vbwc = cosines(random_tensor(2, 3, 4))
    own_vwb, others_vbwc = own_image(cosine_vbwc), other_images(cosine_vbwc)
    for v in range(2):
        for w in range(2):
            for b in range(3):
                assert own_vwb[v, w, b] == cosine_vbwc[v, b, w, b]
                for c in range(3):
                    assert others_vbwc[v, b, w, c] == (-torch.inf if b == c else cosine_vbwc[v, b, w, c])


def test_mean_over_positives_leaves_out_a_view_with_itself():
    pair_vwb = torch.tensor([[[100.0, 100.0], [1.0, 2.0]], [[3.0, 4.0], [100.0, 100.0]]])
    assert mean_over_positives(pair_vwb) == (1 + 2 + 3 + 4) / 4


def test_distances_are_euclidean_and_agree_with_torch(random_tensor, gradient):
    z_vbd = random_tensor(2, 4, 3)
    all_ad = z_vbd.flatten(0, 1)
    assert torch.allclose(distances(z_vbd).reshape(8, 8), torch.cdist(all_ad, all_ad), atol=1e-12)
    weight = random_tensor(8, 8, seed=1)
    ours = gradient(lambda z: (distances(z).reshape(8, 8) * weight).sum(), z_vbd)
    theirs = gradient(lambda z: (torch.cdist(z.flatten(0, 1), z.flatten(0, 1)) * weight).sum(), z_vbd)
    assert torch.allclose(ours, theirs, atol=1e-10)


def test_distances_by_hand():
    z_vbd = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    assert distances(z_vbd)[0, 0, 0].tolist() == [0.0, 5.0]
    assert closeness(z_vbd)[0, 1, 0].tolist() == [-1.0, 0.0]


def test_vectors_that_agree_have_distance_zero_and_a_finite_gradient(random_tensor, gradient):
    # Views of one image agree to rounding: float32 would make a distance of 1e-4 of it, or the root of -1e-8.
    z_vbd = random_tensor(1, 5, 256).float().expand(2, 5, 256).clone()
    z_vbd[1] += 1e-6 * random_tensor(5, 256).float()
    z_vbd[:, 0] = 0
    assert not own_image(distances(z_vbd)).any()
    for similarity in (closeness, relative_closeness, lambda z: relative_closeness(1e-6 * z)):
        gradient_vbd = gradient(lambda z, similarity=similarity: info_nce(z, similarity=similarity), z_vbd)
        assert gradient_vbd.isfinite().all()
        assert gradient_vbd[:, 1:].any()
    for nothing_apart in (torch.zeros(2, 3, 4), torch.ones(2, 3, 4)):
        assert not gradient(lambda z: relative_closeness(z).sum(), nothing_apart).any()


def test_relative_distances_are_shares_of_a_views_own_distances_at_any_scale(random_tensor):
    # Points 0, 1 and 3 on a line: from 0 the others are 1/4 and 3/4 of the way, from 1 it is 1/3 and 2/3.
    line = torch.tensor([[[0.0], [1.0], [3.0]]])
    expected = torch.tensor([[0, 1 / 4, 3 / 4], [1 / 3, 0, 2 / 3], [3 / 5, 2 / 5, 0]])
    assert torch.allclose(-relative_closeness(line)[0, :, 0], expected)
    # Of the distances of the other point: 1 is 1/3 of those of point 1, 3 is 3/5 of those of point 3.
    others = torch.tensor([[0, 1 / 3, 3 / 5], [1 / 4, 0, 2 / 5], [3 / 4, 2 / 3, 0]])
    assert torch.allclose(-relative_closeness(line, of="other")[0, :, 0], others)
    z_vbd = random_tensor(2, 4, 3)
    assert torch.allclose(relative_closeness(1e-5 * z_vbd), relative_closeness(z_vbd), atol=1e-12)
