from __future__ import annotations

import math

import pytest
import torch

from nngcd.core.errors import ConfigError
from nngcd.methods import mugcd
from nngcd.methods.contract import Moment

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}


def make(task, **more):
    return mugcd.Method(mugcd.Config(**SMALL_HEAD, **more), task)


def test_two_stages_each_with_its_own_epochs(task):
    method = make(task)
    contrastive, taught = range(20), range(20, 30)
    stages = [method.stage(epoch, 30) for epoch in (0, 19, 20, 29)]
    assert stages == [contrastive, contrastive, taught, taught]
    assert make(task, contrastive_share=0.0).stage(0, 30) == range(30)
    # However large the share, the last epoch is taught, and the others are not.
    assert [make(task, contrastive_share=0.99).stage(epoch, 3) for epoch in (0, 2)] == [range(2), range(2, 3)]
    assert make(task).stage(0, 1) == range(1)


def test_a_large_share_does_not_make_the_contrastive_stage_a_taught_one(task, two_views):
    early = two_views._replace(moment=Moment(0, 3, 0, 30))
    assert set(make(task, contrastive_share=0.99).loss(early)) == {"contrast", "supcon"}


def test_the_first_stage_is_gcd_and_the_second_has_a_teacher(task, two_views):
    method = make(task)
    assert set(method.loss(two_views)) == {"contrast", "supcon"}
    taught = two_views._replace(moment=Moment(25, 30, 250, 300), teacher_features_vbd=two_views.features_vbd)
    assert set(method.loss(taught)) == {"pseudo_label", "mean_entropy", "classify"}


def test_the_student_learns_the_strong_view_from_the_teachers_weak_one(task, two_views):
    method = make(task, student_temperature=0.2, teacher_temperature=0.1, supervised_weight=0.0)
    student_vbd = two_views.features_vbd.clone().requires_grad_()
    teacher_vbd = torch.randn(2, 10, 6, generator=torch.Generator().manual_seed(3))
    batch = two_views._replace(
        moment=Moment(25, 30, 250, 300), features_vbd=student_vbd, teacher_features_vbd=teacher_vbd
    )
    loss = method.loss(batch)["pseudo_label"]
    target_bk = (method.teacher(teacher_vbd[1]) / 0.1).softmax(-1)
    p_bk = (method.prototypes(student_vbd[0]) / 0.2).softmax(-1)
    expected = sum(-target_bk[b, k].item() * math.log(p_bk[b, k].item()) for b in range(10) for k in range(5)) / 10
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert student_vbd.grad[0].abs().sum() > 0
    assert student_vbd.grad[1].abs().sum() == 0
    assert method.teacher.weight.grad is None


def test_the_teacher_is_the_student_until_the_second_stage_and_then_lags(task):
    method = make(task, teacher_momentum_start=0.7, teacher_momentum_end=0.999)
    moments = [Moment(0, 30, 0, 300), Moment(19, 30, 199, 300), Moment(20, 30, 200, 300), Moment(29, 30, 300, 300)]
    assert [method.teacher_momentum(moment) for moment in moments] == pytest.approx([0, 0, 0.7, 0.999])
    with torch.no_grad():
        method.prototypes.weight.add_(1.0)
    before = method.teacher.weight.clone()
    method.after_step(moments[2])
    assert torch.allclose(method.teacher.weight, before + 0.3, atol=1e-6)
    method.after_step(moments[0])
    assert torch.equal(method.teacher.weight, method.prototypes.weight)


def test_prototypes_are_placed_between_the_stages(blob_task, blob_overview):
    method = mugcd.Method(mugcd.Config(**SMALL_HEAD, prototype_start="matched"), blob_task)
    assert [epoch for epoch in range(30) if method.looks_before(epoch, 30)] == [20]
    method.look(blob_overview)
    assert torch.equal(method.teacher.weight, method.prototypes.weight)
    is_labelled = blob_overview.labels_n >= 0
    cluster_n = method.assign(blob_overview.features_nd).argmax(-1)
    assert torch.equal(cluster_n[is_labelled], blob_overview.labels_n[is_labelled])


@pytest.mark.parametrize(
    ("name", "value"),
    [("contrastive_share", 1.0), ("teacher_temperature", 0.0), ("teacher_momentum_end", 5.0), ("entropy_weight", -1.0)],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        mugcd.Config(**{name: value})


def test_known_clusters_are_searched_in_the_second_stage(blob_task, blob_overview, monkeypatch):
    method = mugcd.Method(mugcd.Config(**SMALL_HEAD, prototype_start="matched", split_epochs=3), blob_task)
    assert [epoch for epoch in range(30) if method.looks_before(epoch, 30)] == [20, 23, 26, 29]
    searched = []
    monkeypatch.setattr(method, "split_and_merge", lambda overview: searched.append(overview.epoch))
    for epoch in (20, 23):
        method.look(blob_overview._replace(epoch=epoch))
    assert searched == [23]
