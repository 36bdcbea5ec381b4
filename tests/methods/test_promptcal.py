from __future__ import annotations

from functools import partial

import pytest
import torch

from nngcd.clustering.semi_affinity import affinities, drawn, labelled_first
from nngcd.core.errors import ConfigError
from nngcd.core.schedules import two_stages
from nngcd.core.seeds import torch_generator
from nngcd.losses.affinity_contrast import affinity_contrast
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import cosines
from nngcd.losses.supcon import supcon
from nngcd.methods import gcd, promptcal
from nngcd.methods.contract import Moment, Overview
from nngcd.settings import resolve

SMALL = {"n_hidden": 12, "n_projection": 8, "n_directions": 0, "n_starts": 2}
FIRST, TAUGHT = Moment(3, 30, 7, 300), Moment(21, 30, 215, 300)
"""A step of the first stage, and one in the middle of the second epoch of the second stage: 1.5 of its ramp of 2."""


def make(task, **settings):
    return promptcal.Method(promptcal.Config(**SMALL, **settings), task)


@pytest.fixture
def taught(two_views):
    teacher_vbd = torch.randn(2, 10, 6, generator=torch_generator(2, "x"))
    return two_views._replace(moment=TAUGHT, teacher_features_vbd=teacher_vbd)


def test_the_first_stage_is_gcd_on_the_class_token_and_with_less_weight_on_the_prompts(task, two_views):
    method = make(task)
    terms = method.loss(two_views._replace(teacher_features_vbd=two_views.features_vbd))
    of_class = gcd.contrast_terms(method.heads[0](two_views.features_vbd[..., :3]), two_views.labels_b, method.config)
    of_prompts = gcd.contrast_terms(method.heads[1](two_views.features_vbd[..., 3:]), two_views.labels_b, method.config)
    assert terms == of_class | {f"prompt_{name}": 0.35 * term for name, term in of_prompts.items()}


def test_the_second_stage_contrasts_with_the_teacher_and_with_the_memory(task, taught):
    method = make(task, n_neighbours=2, affinity_quantile=0.2, n_compared=9)
    with torch.no_grad():
        for parameter in method.teacher_heads.parameters():
            parameter.add_(0.1)
    memory_md = torch.randn(30, 6, generator=torch_generator(3, "x"))
    labels_m = torch.arange(30) % 4 - 2
    method.memory.features_md, method.memory.labels_m = memory_md, labels_m.clamp_min(-1)
    terms = method.loss(taught)
    share = 0.6 * 1.5 / 2
    for part, columns, weight, prefix in ((0, slice(3), 1.0, ""), (1, slice(3, 6), 0.35, "prompt_")):
        z_vbd, teacher_vbd = taught.features_vbd[..., columns], taught.teacher_features_vbd[..., columns]
        head_vbd, keys_vbd = method.heads[part](z_vbd), method.teacher_heads[part](teacher_vbd)
        contrast = info_nce(head_vbd, temperature=1.0, similarity=partial(cosines, keys_vbd=keys_vbd))
        assert terms[f"{prefix}contrast"].item() == pytest.approx(weight * 0.65 * (1 - share) * contrast.item())
        of_labelled = partial(cosines, keys_vbd=keys_vbd[:, taught.labels_b >= 0])
        labelled = supcon(head_vbd, taught.labels_b, temperature=0.07, similarity=of_labelled)
        assert terms[f"{prefix}supcon"].item() == pytest.approx(weight * 0.35 * labelled.item())
        other_bd = torch.cat([teacher_vbd[1], teacher_vbd[0]])
        near_nn = affinities(torch.cat([other_bd, memory_md[:, columns]]), n_neighbours=2, share=0.2)
        positive_bm = labelled_first(near_nn[:20, 20:], taught.labels_b.repeat(2), method.memory.labels_m)
        generator = torch_generator(method.seed, "negatives", TAUGHT.step, part)
        negative_bm = drawn(~positive_bm, 9 - positive_bm.sum(1), generator)
        affinity = affinity_contrast(
            z_vbd.flatten(0, 1), other_bd, memory_md[:, columns],
            is_positive_bm=positive_bm, is_negative_bm=negative_bm, temperature=0.07,
        )  # fmt: skip
        assert affinity > 0
        assert terms[f"{prefix}affinity"].item() == pytest.approx(weight * 0.65 * share * affinity.item())


def test_the_share_of_affinities_rises_over_its_ramp_and_stays(task):
    method = make(task)
    moments = [Moment(epoch, 30, step, 300) for epoch, step in ((20, 200), (20, 205), (21, 210), (22, 220), (29, 299))]
    assert [method._affinity_share(moment) for moment in moments] == pytest.approx([0, 0.15, 0.3, 0.6, 0.6])
    assert make(task, affinity_ramp_epochs=0)._affinity_share(moments[0]) == 0.6


@pytest.mark.parametrize(
    ("dataset", "epochs", "graph", "memory"),
    [("cub", (200, 100), (5, 0.8), (4096, 1024)), ("stanford_cars", (200, 100), (5, 0.8), (4096, 1024)),
     ("fgvc_aircraft", (200, 100), (5, 0.8), (4096, 1024)), ("cifar10", (200, 70), (10, 0.5), (4096, 1024)),
     ("cifar100", (200, 70), (10, 0.5), (4096, 1024)), ("imagenet100", (100, 70), (10, 0.5), (4096, 1024)),
     ("herbarium19", (100, 100), (7, 0.8), (20000, 5000))],
)  # fmt: skip
def test_official_is_what_the_two_scripts_say(dataset, epochs, graph, memory):
    found = resolve({"method": "promptcal", "preset": "official", "dataset": dataset, "effort": "full"})
    training, c = found.training, found.loss
    stages = [two_stages(epoch, training.epochs, c.untaught_share) for epoch in (0, training.epochs - 1)]
    assert tuple(len(stage) for stage in stages) == epochs
    assert (c.n_neighbours, c.affinity_quantile, c.memory_size, c.n_compared) == (*graph, *memory)
    assert (training.learning_rate, training.final_learning_rate, training.weight_decay) == (0.1, 1e-3, 5e-5)
    assert (c.n_prompts, c.n_prompts_read, c.teacher_momentum, c.n_starts) == (5, 2, 0.999, 100)
    assert (training.batch_size, training.momentum, training.decay) == (128, 0.9, "all")


def test_the_memory_holds_the_newest_views_of_the_second_stage(task, taught):
    method = make(task, memory_size=50)
    method.loss(taught._replace(moment=FIRST))
    method.after_step(FIRST)
    assert len(method.memory.labels_m) == 0
    for step in range(3):
        batch = taught._replace(teacher_features_vbd=taught.teacher_features_vbd + step)
        method.loss(batch)
        method.after_step(TAUGHT)
    assert method.memory.labels_m.tolist() == (taught.labels_b.tolist() * 6)[:50]
    newest_md, oldest_md = method.memory.features_md[:20], method.memory.features_md[40:]
    assert torch.equal(newest_md, taught.teacher_features_vbd.flatten(0, 1) + 2)
    assert torch.equal(oldest_md, taught.teacher_features_vbd.flatten(0, 1)[:10])
    resumed = make(task, memory_size=50)
    resumed.load_state_dict(method.state_dict())
    assert torch.equal(resumed.memory.features_md, method.memory.features_md)


def test_the_teacher_is_the_student_at_first_an_average_later_and_the_student_at_the_end(task):
    method = make(task, teacher_momentum=0.9)
    last = Moment(29, 30, 299, 300)
    assert [method.teacher_momentum(moment) for moment in (FIRST, TAUGHT, last)] == [0, 0.9, 0]
    with torch.no_grad():
        for parameter in method.heads.parameters():
            parameter.add_(1.0)
    pairs = list(zip(method.teacher_heads.parameters(), method.heads.parameters(), strict=True))
    for moment, distance in ((TAUGHT, 0.9), (FIRST, 0.0)):
        method.after_step(moment)
        assert all(torch.allclose(student - teacher, torch.full_like(teacher, distance), atol=1e-6)
                   for teacher, student in pairs)  # fmt: skip
    assert [len(method.stage(epoch, 30)) for epoch in (0, 19, 20, 29)] == [20, 20, 10, 10]
    assert method.stage(0, 1) == range(1)


def test_only_the_class_token_is_clustered_and_the_memory_is_no_part_of_the_result(blob_task, blob_overview, taught):
    features_nd = torch.cat([blob_overview.features_nd[:, :8], torch.randn(240, 8) * 100], dim=1)
    method = make(blob_task)
    method.memory.features_md, method.memory.labels_m = torch.ones(5, 16), torch.ones(5, dtype=torch.int64)
    method.settle(Overview(features_nd, blob_overview.labels_n, 0, seed=0))
    assert method.centres_kd.shape == (6, 8)
    assert len(method.memory.labels_m) == len(method.memory.features_md) == 0
    other_nd = torch.cat([features_nd[:, :8], torch.zeros(240, 8)], dim=1)
    assert torch.equal(method.assign(features_nd), method.assign(other_nd))


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_prompts_read", 6), ("n_prompts_read", 0), ("untaught_share", 1.1), ("teacher_momentum", -0.1),
     ("affinity_quantile", 1.5), ("n_neighbours", 0), ("affinity_temperature", 0.0), ("prompt_weight", -1.0)],
)  # fmt: skip
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        promptcal.Config(**{name: value})
