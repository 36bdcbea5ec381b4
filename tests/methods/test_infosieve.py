from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.core.errors import ConfigError
from nngcd.losses.code import category_cross_entropy, code_condition, code_length, mask_condition
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import closeness, relative_closeness
from nngcd.losses.supcon import supcon
from nngcd.methods import equal_sizes, infosieve
from nngcd.methods.centres import semi_supervised_clusters
from nngcd.methods.contract import Moment, Overview
from nngcd.results.result_tables import with_decisions
from nngcd.settings import resolve

SMALL = {"n_hidden": 12, "n_projection": 8, "n_directions": 0, "n_digits": 7, "n_starts": 2, "epoch_starts": 2}


@pytest.fixture
def uneven():
    """Two known classes of 6 images, all labelled but one each, and new images: 7 of one kind, 2 of another."""
    centre_kd = 5 * torch.eye(4)
    class_n = torch.tensor([0] * 6 + [1] * 6 + [2] * 7 + [3] * 2)
    noise_nd = 0.1 * torch.randn(21, 4, generator=torch.Generator().manual_seed(0))
    labels_n = torch.where(torch.isin(torch.arange(21), torch.tensor([5, 11])) | (class_n > 1), -1, class_n)
    return Overview(centre_kd[class_n] + noise_nd, labels_n, 0, seed=0), class_n


def uneven_method(task, **settings):
    task = type(task)(n_features=4, n_clusters=4, n_old=2, generator=task.generator)
    return infosieve.Method(infosieve.Config(**SMALL, **settings), task)


def test_every_term_is_the_published_one(task, two_views):
    method = infosieve.Method(infosieve.Config(**SMALL, smoothing=0.1, final_age=6.0, length_weight=0.5), task)
    method.pseudo_label_n = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 9])
    batch = two_views._replace(image_b=torch.tensor([10, 0, 1, 2, 3, 4, 5, 6, 7, 8]))
    pseudo_b, labels_b = torch.tensor([9, 0, 0, 1, 1, 2, 2, 3, 3, 4]), batch.labels_b
    z_vbd = F.normalize(method.head(batch.features_vbd), dim=-1)
    # Epoch 3 of 30, counted from 0: age 6 * 4 / 30, base 2 - 3 / 30.
    raw_vbl = torch.tanh(method.coder.coder(z_vbd) * 0.8)
    mask_vbl = (torch.tanh(method.coder.masker(z_vbd) + 1 / 1.8) + 1) / 2
    weighted_vbl = raw_vbl * 1.9 ** -torch.arange(7.0)
    category_vbk = method.coder.categorizer(mask_vbl * weighted_vbl)

    def both(x_vbd, similarity):
        return sum(supcon(x_vbd, y_b, temperature=0.07, similarity=similarity) for y_b in (labels_b, pseudo_b)) / 2

    expected = {
        "contrast": 0.65 * info_nce(z_vbd, smoothing=0.1, similarity=closeness),
        "supcon": 0.35 * both(z_vbd, closeness),
        "code_contrast": 0.65 * info_nce(F.normalize(raw_vbl, dim=-1), smoothing=0.1, similarity=relative_closeness),
        "code_supcon": 0.35 * both(weighted_vbl, relative_closeness),
        "code_condition": 0.01 * code_condition(raw_vbl),
        "mask_condition": 0.01 * mask_condition(mask_vbl),
        "category": 0.01 * category_cross_entropy(category_vbk, labels_b),
        "length": 0.5 * code_length(mask_vbl),
    }
    assert {name: term.item() for name, term in method.loss(batch).items()} == pytest.approx(
        {name: term.item() for name, term in expected.items()}, rel=1e-5
    )


def test_in_200_epochs_the_code_ages_as_in_the_authors_code(task, two_views, monkeypatch):
    method = infosieve.Method(infosieve.Config(**SMALL), task)
    method.pseudo_label_n = torch.zeros(10, dtype=torch.long)
    seen, forward = [], method.coder.forward

    def record(z_vbd, *, age, base):
        seen.extend([age, base])
        return forward(z_vbd, age=age, base=base)

    monkeypatch.setattr(method.coder, "forward", record)
    for epoch in (0, 50, 199):
        method.loss(two_views._replace(moment=Moment(epoch, 200, epoch, 200)))
    assert seen == pytest.approx([0.1, 2.0, 5.1, 1.75, 20.0, 1.005])


def test_pseudo_labels_are_clusters_of_equal_size_and_keep_what_is_known(task, uneven):
    overview, class_n = uneven
    method = uneven_method(task)
    method.look(overview)
    is_known_n = overview.labels_n >= 0
    assert torch.equal(method.pseudo_label_n[is_known_n], overview.labels_n[is_known_n])
    # 21 images in 4 clusters: at most 6 each, so one of the seven has to go to the pair.
    assert method.pseudo_label_n.bincount().tolist() == [6, 6, 6, 3]
    assert (method.pseudo_label_n != class_n).sum() == 1


def test_kept_centres_are_where_the_next_epoch_starts(task, uneven, monkeypatch):
    overview, _ = uneven
    method = uneven_method(task, keep_centres=True)
    starts, cluster = [], equal_sizes.semi_supervised_clusters

    def record(*arguments, init, **settings):
        starts.append(init if isinstance(init, str) else init.clone())
        return cluster(*arguments, init=init, **settings)

    monkeypatch.setattr(equal_sizes, "semi_supervised_clusters", record)
    method.look(overview)
    first_kd = method.centres_kd.clone()
    method.look(overview._replace(epoch=1))
    method.settle(overview._replace(epoch=2))
    assert starts[0] == starts[2] == "published"
    assert torch.equal(starts[1], first_kd)


def test_the_result_is_balanced_and_new_images_go_to_the_nearest_centre(task, uneven):
    overview, class_n = uneven
    method = uneven_method(task)
    decided_n = method.settle(overview)
    nearest_n = method.assign(overview.features_nd).argmax(-1)
    assert decided_n.bincount().tolist() == [6, 6, 6, 3]
    assert torch.equal(nearest_n, class_n)
    scores_nk = with_decisions(method.assign(overview.features_nd), decided_n)
    assert torch.equal(scores_nk.argmax(-1), decided_n)


def test_unbalanced_categories_have_the_size_they_have(task, uneven):
    overview, class_n = uneven
    method = uneven_method(task, unbalanced=True)
    method.look(overview)
    assert torch.equal(method.pseudo_label_n, class_n)
    assert method.settle(overview) is None
    assert torch.equal(method.assign(overview.features_nd).argmax(-1), class_n)


def test_known_classes_keep_their_number_where_one_has_no_labelled_image(blob_overview, blobs):
    classes = torch.from_numpy(blobs[2])
    labels_n = torch.where(blob_overview.labels_n == 1, -1, blob_overview.labels_n)
    cluster_n, centres_kd = semi_supervised_clusters(
        blob_overview._replace(labels_n=labels_n), 6, init="matched", n_init=2, max_iter=10, size_limit=None
    )
    unit_nd = F.normalize(blob_overview.features_nd, dim=-1)
    for k in (0, 2):
        assert torch.equal(cluster_n == k, classes == k)
    for k in range(6):
        assert torch.allclose(centres_kd[k], unit_nd[cluster_n == k].mean(0), atol=1e-5)


@pytest.mark.parametrize(("sampling", "share"), [("balanced", 1 / 2), ("share", 1 / (1 + 3 / 4))])
def test_how_many_images_of_a_batch_are_labelled(task, sampling, share):
    method = infosieve.Method(infosieve.Config(**SMALL, sampling=sampling), task)
    labels_n = torch.where(torch.arange(20_000) % 4 == 0, 0, -1)
    drawn = method.draw(labels_n.numpy(), 128, torch.Generator().manual_seed(0))
    assert len(drawn) == 20_000 // 128
    assert (labels_n[torch.cat(list(drawn))] >= 0).float().mean().item() == pytest.approx(share, abs=0.01)
    nothing_known = method.draw(torch.full((300,), -1).numpy(), 128, torch.Generator().manual_seed(0))
    assert [len(image_b) for image_b in nothing_known] == [128, 128]


def test_presets_are_the_published_settings():
    cub = resolve({"method": "infosieve", "preset": "official", "dataset": "cub", "effort": "full"})
    assert (cub.tail_blocks, cub.training.epochs, cub.training.weight_decay) == (2, 200, 1e-4)
    assert (cub.loss.smoothing, cub.loss.unbalanced, cub.loss.n_directions) == (1.0, False, 65536)
    for name, smoothing in {"stanford_cars": 0.5, "fgvc_aircraft": 0.5, "herbarium19": 0.5, "cifar100": 0.1}.items():
        other = resolve({"method": "infosieve", "preset": "paper", "dataset": name})
        assert (other.loss.smoothing, other.loss.unbalanced) == (smoothing, name == "herbarium19")
        assert (other.loss.sampling, other.loss.code_shares) == (cub.loss.sampling, cub.loss.code_shares)
    assert (cub.loss.sampling, cub.loss.code_shares) == ("share", "other")
    default = resolve({"method": "infosieve", "dataset": "cub"}).loss
    assert (default.sampling, default.code_shares) == ("balanced", "own")
    # The authors' sum over two views of a batch is our mean times their number.
    assert cub.loss.length_weight == pytest.approx(0.1 * 2 * cub.training.batch_size)


@pytest.mark.parametrize(
    ("name", "value"),
    [("smoothing", 1.5), ("epoch_starts", 0), ("n_digits", 0), ("final_age", 0.0), ("length_weight", -1.0)],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        infosieve.Config(**{name: value})
