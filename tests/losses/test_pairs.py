import torch
import torch.nn.functional as F

from nngcd.heads import rep_relu
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import cosines, mean_over_positives, other_images, own_image, unit


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
