from __future__ import annotations

from math import exp, log

import pytest
import torch

from nngcd.losses.affinity_contrast import affinity_contrast


def reference(z_bd, own_bd, memory_md, is_positive_bm, is_negative_bm, temperature):
    """Plain loops over the authors' form, less its least value."""

    def logit(a, b):
        return float(torch.dot(a, b) / (a.norm() * b.norm())) / temperature

    losses = []
    for b, z in enumerate(z_bd):
        positives = [logit(z, own_bd[b])] + [logit(z, m) for m in memory_md[is_positive_bm[b]]]
        negatives = [logit(z, m) for m in memory_md[is_negative_bm[b]]]
        total = sum(exp(s) for s in positives + negatives)
        losses.append(sum(log(total) - s for s in positives) / len(positives) - log(len(positives)))
    return sum(losses) / len(losses)


def pairs(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def test_value_by_hand():
    # The query is its own other view and equal to one image of the memory; another image is at a right angle.
    z_bd, memory_md = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    loss = affinity_contrast(
        z_bd, z_bd, memory_md, is_positive_bm=pairs([1, 0]), is_negative_bm=pairs([0, 1]), temperature=1.0
    )
    assert float(loss) == pytest.approx(log(2 * exp(1) + 1) - 1 - log(2))
    # What is neither positive nor negative is left out: two equal positives, and nothing else.
    alone = affinity_contrast(z_bd, z_bd, memory_md, is_positive_bm=pairs([1, 0]), is_negative_bm=pairs([0, 0]))
    assert float(alone) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_agrees_with_plain_loops(random_tensor, temperature):
    z_bd, own_bd, memory_md = (random_tensor(*shape, seed=i) for i, shape in enumerate([(5, 4), (5, 4), (7, 4)]))
    kind_bm = torch.randint(3, (5, 7), generator=torch.Generator().manual_seed(0))
    arguments = kind_bm == 1, kind_bm == 2
    loss = affinity_contrast(
        z_bd, own_bd, memory_md, is_positive_bm=arguments[0], is_negative_bm=arguments[1], temperature=temperature
    )
    assert float(loss) == pytest.approx(reference(z_bd, own_bd, memory_md, *arguments, temperature), abs=1e-10)
    assert loss > 0


def test_only_the_query_learns_and_it_learns_towards_its_positives(random_tensor):
    z_bd, own_bd, memory_md = (random_tensor(n, 4, seed=n).requires_grad_() for n in (3, 3, 6))
    is_positive_bm = torch.arange(6).expand(3, 6) < 2
    affinity_contrast(
        z_bd, own_bd.detach().requires_grad_(), memory_md, is_positive_bm=is_positive_bm, is_negative_bm=~is_positive_bm
    ).backward()
    assert memory_md.grad is None
    moved_bd = (z_bd - 0.01 * z_bd.grad / z_bd.grad.norm(dim=-1, keepdim=True)).detach()
    before, after = (
        affinity_contrast(z, own_bd, memory_md, is_positive_bm=is_positive_bm, is_negative_bm=~is_positive_bm).item()
        for z in (z_bd, moved_bd)
    )
    assert after < before


def test_no_image_is_zero_with_a_graph():
    z_bd = torch.zeros(0, 4, requires_grad=True)
    nobody_bm = torch.zeros(0, 2, dtype=torch.bool)
    loss = affinity_contrast(z_bd, z_bd, torch.ones(2, 4), is_positive_bm=nobody_bm, is_negative_bm=nobody_bm)
    assert loss.item() == 0
    loss.backward()
