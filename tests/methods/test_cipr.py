from __future__ import annotations

import pytest
import torch

from nngcd.clustering import snc
from nngcd.core.errors import ConfigError
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods import cipr
from nngcd.methods.contract import Overview
from nngcd.results.result_tables import with_decisions
from nngcd.settings import PRESETS, resolve

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}


def test_images_of_one_group_are_contrasted_and_labelled_ones_apart(task, two_views):
    method = cipr.Method(cipr.Config(**SMALL_HEAD), task)
    method.group_n = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 9])
    batch = two_views._replace(image_b=torch.tensor([10, 0, 1, 2, 3, 4, 5, 6, 7, 8]))
    terms = method.loss(batch)
    z_vbd = method.head(batch.features_vbd)
    group_b = torch.tensor([9, 0, 0, 1, 1, 2, 2, 3, 3, 4])
    assert terms["cross"].item() == pytest.approx(0.12 / 0.07 * supcon(z_vbd, group_b, temperature=0.12).item())
    assert terms["supcon"].item() == pytest.approx(supcon(z_vbd, batch.labels_b, temperature=0.07).item())


def test_the_contrast_of_groups_weighs_what_code_and_paper_say():
    weights = [resolve({"method": "cipr", "preset": preset}).loss.cross_weight for preset in PRESETS]
    assert weights == pytest.approx([0.12 / 0.07, 0.12 / 0.07, 1])


def test_official_settings_are_those_of_the_authors_scripts():
    table = {
        "cub": "affine", "stanford_cars": "randaugment", "fgvc_aircraft": "crop", "herbarium19": "crop",
        "cifar10": "dino", "cifar100": "dino", "imagenet100": "dino",
    }  # fmt: skip
    for dataset, augmentation in table.items():
        s = resolve({"method": "cipr", "preset": "official", "dataset": dataset, "effort": "full"})
        assert (s.views.recipe, s.views.augmentation, s.views.per_image) == ("two-random", augmentation, "online")
        t = s.training
        assert (t.epochs, t.batch_size, t.momentum, t.weight_decay) == (200, 128, 0.9, 5e-5)
        assert (t.decay, t.drop_last) == ("all", False)
        head, tail = t.learning_rate, t.learning_rate * t.tail_learning_rate
        assert (head, tail) == pytest.approx((0.1, 0.01))
        assert (head * t.final_learning_rate, tail * t.tail_final_learning_rate) == pytest.approx((1e-4, 1e-4))
        assert (s.loss.level, s.loss.warmup_epochs, s.loss.grouping, s.loss.n_directions) == (1, 0, "published", 65536)


def test_during_the_warm_up_only_views_attract_and_no_groups_are_asked_for(task, two_views):
    method = cipr.Method(cipr.Config(**SMALL_HEAD, warmup_epochs=5), task)
    assert [method.looks_before(epoch, 30) for epoch in (0, 4, 5, 29)] == [False, False, True, True]
    z_vbd = method.head(two_views.features_vbd)
    assert method.loss(two_views)["cross"].item() == pytest.approx(info_nce(z_vbd, temperature=1.0).item())


def test_the_groups_are_a_level_of_the_hierarchy(blob_task, blob_overview):
    for rule in ("published", "unordered"):
        levels = snc.partitions(blob_overview.features_nd, blob_overview.labels_n, rule=rule)
        for level in (0, 1, 99):
            method = cipr.Method(cipr.Config(**SMALL_HEAD, level=level, grouping=rule), blob_task)
            method.look(blob_overview)
            expected = levels[min(level, len(levels) - 1)]
            assert method.group_n.tolist() == expected.tolist()


@pytest.mark.parametrize("rule", ["published", "unordered"])
def test_the_result_is_the_hierarchy_cut_at_k_whatever_centre_is_nearest(blob_task, blob_overview, rule):
    method = cipr.Method(cipr.Config(**SMALL_HEAD, grouping=rule), blob_task)
    noisy = Overview(
        blob_overview.features_nd + torch.randn(240, 16, generator=torch.Generator().manual_seed(0)),
        blob_overview.labels_n,
        0,
        seed=0,
    )
    decided_n = method.settle(noisy)
    assert decided_n.tolist() == snc.cluster(noisy.features_nd, noisy.labels_n, 6, rule=rule).tolist()
    scores_nk = with_decisions(method.assign(noisy.features_nd), decided_n)
    assert torch.equal(scores_nk.argmax(-1), decided_n)


@pytest.mark.parametrize(("name", "value"), [("cross_temperature", 0.0), ("cross_weight", -1.0), ("level", -1)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        cipr.Config(**{name: value})
