from __future__ import annotations

import math

import pytest
import torch

from nngcd.backbones.backbone import Adapter
from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.losses.distill import cross_view_distillation
from nngcd.losses.nmf_nce import nmf_nce
from nngcd.losses.sparse import hybrid_sparse_norm
from nngcd.methods import neighbours, nngcd, simgcd
from nngcd.methods.contract import Batch, Moment, Overview, Task

SMALL = {"n_hidden": 12, "n_projection": 8}
ALL_OFF = {"activation": "identity", "contrast": "info_nce", "sparse_weight": 0.0, "teacher": "student"}


def make_task(**more):
    return Task(n_features=6, n_clusters=5, n_old=2, generator=torch_generator(0, "init"), **more)


@pytest.fixture
def batch():
    features = torch.randn(2, 10, 6, generator=torch_generator(1, "x"))
    return Batch(features, torch.tensor([0, 1, -1, -1, 0, -1, 1, -1, -1, -1]), Moment(3, 30, 7, 300), torch.arange(10))


def test_with_everything_off_it_is_simgcd_to_the_bit(batch):
    ours = nngcd.Method(nngcd.Config(**SMALL, **ALL_OFF, contrastive_temperature=1.0), make_task())
    theirs = simgcd.Method(simgcd.Config(**SMALL), make_task())
    terms, expected = ours.loss(batch), theirs.loss(batch)
    assert terms.keys() == expected.keys()
    assert all(torch.equal(terms[name], expected[name]) for name in terms)
    assert torch.equal(ours.assign(batch.features_vbd[0]), theirs.assign(batch.features_vbd[0]))


def test_the_terms_are_the_papers_with_their_weights(batch):
    tail = Adapter(6)
    method = nngcd.Method(nngcd.Config(**SMALL, supervised_weight=0.25), make_task(sparse_weights=(tail.weight,)))
    terms = method.loss(batch)
    assert set(terms) == {"pseudo_label", "mean_entropy", "contrast", "classify", "supcon", "sparse"}
    projection = method.projection(batch.features_vbd)
    assert terms["contrast"].item() == pytest.approx(
        0.75 * nmf_nce(projection, temperature=0.5, mean=0.1, deviation=1.0).item()
    )
    matrices = [tail.weight, *(p for p in method.projection.parameters() if p.ndim == 2), method.prototypes.weight]
    assert len(matrices) == 5
    assert terms["sparse"].item() == pytest.approx(3e-5 * hybrid_sparse_norm(matrices, l1_share=0.6).item())


@pytest.mark.parametrize("parts", [("prototypes",), ("tail", "projection"), ("prototypes", "gains"), ("tail",), ()])
def test_the_regulariser_touches_the_weights_it_is_told_to(batch, parts):
    tail, norm = Adapter(6), torch.nn.LayerNorm(6)
    task = make_task(sparse_weights=(norm.weight, tail.weight))
    method = nngcd.Method(nngcd.Config(**SMALL, sparse_on=parts), task)
    sparse = method.loss(batch)["sparse"]
    touched = {
        "tail": [tail.weight],
        "gains": [norm.weight],
        "projection": [p for p in method.projection.parameters() if p.ndim == 2],
        "prototypes": [method.prototypes.weight],
    }
    everything = [weight for matrices in touched.values() for weight in matrices]
    expected = [weight for part in parts for weight in touched[part]]
    assert sparse.item() == pytest.approx(3e-5 * hybrid_sparse_norm(expected).item(), rel=1e-6)
    gradients = torch.autograd.grad(sparse, everything, allow_unused=True) if parts else [None] * 6
    assert [g is not None for g in gradients] == [any(w is one for one in expected) for w in everything]


def test_one_pass_serves_student_and_teacher_exactly(batch):
    """The authors run the backbone again for the teacher; without dropout the second pass gives the same bits."""
    tail = Adapter(6)
    with torch.no_grad():
        tail.weight.add_(torch.randn(6, 6, generator=torch_generator(2, "w")))
    method = nngcd.Method(nngcd.Config(**SMALL), make_task())
    hidden = batch.features_vbd
    one_pass = method.judge(tail(hidden))
    with torch.no_grad():
        two_passes = method.judge(tail(hidden.clone()))
    assert torch.equal(one_pass.detach(), two_passes)
    loss = method.loss(batch._replace(features_vbd=tail(hidden)))["pseudo_label"]
    gradient = torch.autograd.grad(loss, tail.weight)[0]
    assert method.teacher.weight.grad is None
    assert gradient.abs().sum() > 0


def test_the_teacher_moves_by_the_schedule(batch):
    method = nngcd.Method(nngcd.Config(**SMALL, teacher_start="random"), make_task())
    before = method.teacher.weight.clone()
    method.after_step(Moment(0, 10, 0, 100))
    expected = 0.7 * before + 0.3 * method.prototypes.weight
    assert torch.allclose(method.teacher.weight, expected, atol=1e-7)
    method.after_step(Moment(9, 10, 100, 100))
    assert torch.allclose(method.teacher.weight, 0.99 * expected + 0.01 * method.prototypes.weight, atol=1e-7)


def test_the_teacher_starts_as_a_copy_or_on_its_own():
    copy = nngcd.Method(nngcd.Config(**SMALL), make_task())
    assert torch.equal(copy.teacher.weight, copy.prototypes.weight)
    own = nngcd.Method(nngcd.Config(**SMALL, teacher_start="random"), make_task())
    assert not torch.equal(own.teacher.weight, own.prototypes.weight)
    assert not own.teacher.weight.requires_grad


def test_a_teacher_of_wider_scope_judges_the_features_of_its_own_tail(batch):
    """The paper's Theta_t has a backbone of its own, the authors' code has not."""
    other = batch._replace(teacher_features_vbd=batch.features_vbd.flip(1))
    settings = {**SMALL, "teacher_start": "random"}
    shared, own = (
        nngcd.Method(nngcd.Config(**settings, teacher_scope=scope), make_task()) for scope in ("head", "all")
    )
    off = nngcd.Method(nngcd.Config(**settings, teacher_scope="all", teacher="student"), make_task())
    assert [method.averages_tail for method in (shared, own, off)] == [False, True, False]
    assert shared.loss(batch)["pseudo_label"] != own.loss(other)["pseudo_label"]
    student, epoch = own.prototypes(batch.features_vbd), batch.moment.epoch
    temperatures = {"student_temperature": 0.1, "teacher_temperature": simgcd.teacher_temperature(own.config, epoch)}
    expected = 0.65 * cross_view_distillation(student, own.teacher(other.teacher_features_vbd), **temperatures)
    assert own.loss(other)["pseudo_label"].item() == pytest.approx(expected.item())
    assert own.teacher_momentum(Moment(0, 10, 0, 100)) == pytest.approx(0.7)


def test_the_teacher_judges_unless_it_is_off(batch):
    features = batch.features_vbd[0]
    on = nngcd.Method(nngcd.Config(**SMALL, teacher_start="random"), make_task())
    assert torch.equal(on.assign(features), on.teacher(features) / 0.1)
    off = nngcd.Method(nngcd.Config(**SMALL, teacher_start="random", teacher="student"), make_task())
    assert torch.equal(off.assign(features), off.prototypes(features) / 0.1)


def test_the_printed_nce_differs_from_the_official_one(batch):
    official = nngcd.Method(nngcd.Config(**SMALL), make_task()).loss(batch)["contrast"]
    printed = nngcd.Method(nngcd.Config(**SMALL, nce_form="printed"), make_task()).loss(batch)["contrast"]
    assert printed < official


@pytest.mark.parametrize(
    ("name", "value"),
    [("supervised_weight", 1.5), ("student_temperature", 0.0), ("sparse_weight", -1.0), ("sparse_l1_share", 2.0),
     ("nce_deviation", 0.0), ("n_hidden", 0), ("activation", "gelo"), ("teacher_momentum_end", 1.5),
     ("teacher_warmup_epochs", -3), ("nce_deviation", math.nan), ("sparse_weight", math.nan), ("nce_mean", math.inf)],
)  # fmt: skip
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} = {value!r}"):
        nngcd.Config(**{name: value})


def test_prototypes_start_at_the_clusters(blobs):
    features, labels, classes = (torch.from_numpy(part) for part in blobs)
    task = Task(n_features=16, n_clusters=6, n_old=3, generator=torch_generator(0, "init"))
    method = nngcd.Method(nngcd.Config(**SMALL, prototype_start="matched"), task)
    norms = method.prototypes.weight.norm(dim=-1)
    assert method.looks_before(0, 30)
    assert not method.looks_before(1, 30)
    method.look(Overview(features, labels, 0, seed=0))
    assert torch.allclose(method.prototypes.weight.norm(dim=-1), norms)
    assert torch.equal(method.teacher.weight, method.prototypes.weight)
    cluster = method.assign(features).argmax(-1)
    assert (cluster[classes < 3] == classes[classes < 3]).all()
    assert len(set(cluster[classes >= 3].tolist())) == 3
    assert not nngcd.Method(nngcd.Config(**SMALL), task).looks_before(0, 30)


def test_neighbours_teach_what_the_teacher_takes_them_for(batch):
    config = nngcd.Config(**SMALL, supervised_weight=0.25, neighbour_weight=2.0, n_neighbours=1)
    method = nngcd.Method(config, make_task())
    assert all(method.looks_before(epoch, 30) for epoch in range(30))
    teacher = method.teacher.weight.clone()
    # The nearest image to each of the pairs (0, 1), (2, 3), ... is the other one.
    features = torch.eye(6)[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]
    method.look(Overview(features, batch.labels_b, 5, seed=0))
    assert torch.equal(method.teacher.weight, teacher)
    assert method.neighbours.index_nm[:, 0].tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]
    sharpness = simgcd.teacher_temperature(config, batch.moment.epoch)
    target = (method.teacher(features) / sharpness).softmax(-1)
    logp = (method.prototypes(batch.features_vbd) / 0.1).log_softmax(-1)
    expected = 0.75 * 2.0 * -(target * logp).sum(-1).mean()
    terms = method.loss(batch)
    assert terms["neighbours"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_neighbours_are_found_anew_now_and_then_kept_in_checkpoints_and_forgotten_in_the_end(batch):
    config = nngcd.Config(**SMALL, neighbour_weight=1.0, n_neighbours=1, neighbour_epochs=5)
    method, features = nngcd.Method(config, make_task()), torch.eye(6)[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]
    method.look(Overview(features, batch.labels_b, 5, seed=0))
    # Between two searches the neighbours stay who they were, but are seen as they look now.
    turned = features.roll(1, 0)
    method.look(Overview(turned, batch.labels_b, 6, seed=0))
    resumed = nngcd.Method(config, make_task())
    resumed.load_state_dict(method.state_dict())
    resumed.look(Overview(turned, batch.labels_b, 6, seed=0))
    assert resumed.neighbours.features(torch.tensor([0, 3])).tolist() == turned[[1, 2]][:, None].tolist()
    assert resumed.loss(batch)["neighbours"].item() == method.loss(batch)["neighbours"].item()
    method.settle(Overview(features, batch.labels_b, 30, seed=0))
    assert method.neighbours.index_nm.numel() == method.neighbours.seen_nd.numel() == 0
    resumed.load_state_dict(method.state_dict())
    assert resumed.neighbours.index_nm.numel() == 0


@pytest.mark.parametrize("n_images", [1, 3, 5])
def test_a_model_of_fewer_images_than_neighbours_can_be_loaded(batch, n_images):
    config = nngcd.Config(**SMALL, neighbour_weight=1.0)
    method, fresh = (nngcd.Method(config, make_task()) for _ in range(2))
    overview = Overview(batch.features_vbd[0, :n_images], batch.labels_b[:n_images], 0, seed=0)
    method.look(overview)
    method.settle(overview)
    assert fresh.state_dict()["neighbours.index_nm"].shape == method.state_dict()["neighbours.index_nm"].shape
    fresh.load_state_dict(method.state_dict())


@pytest.mark.parametrize(("n_images", "expected"), [(40, 3), (29, 2), (10, 1), (9, 0)])
def test_an_image_has_no_more_neighbours_than_half_a_cluster(batch, n_images, expected):
    """Of 5 clusters: with more neighbours, images of small clusters learnt from those of others, and all became one."""
    method = nngcd.Method(nngcd.Config(**SMALL, neighbour_weight=1.0, n_neighbours=3), make_task())
    features = torch.randn(n_images, 6, generator=torch.Generator().manual_seed(0))
    method.look(Overview(features, torch.full((n_images,), -1), 0, seed=0))
    assert method.neighbours.index_nm.shape == (n_images, expected)
    if not expected:
        assert method.loss(batch)["neighbours"].item() == 0


def test_a_batch_that_is_tried_twice_is_remembered_once(batch):
    once, twice = (nngcd.Method(nngcd.Config(**SMALL, entropy_memory=0.9), make_task()) for _ in range(2))
    once.loss(batch)
    twice.loss(batch)  # memory ran out on the way back
    assert twice.loss(batch)["mean_entropy"] == once.loss(batch)["mean_entropy"]
    for method in (once, twice):
        method.after_step(batch.moment)
    assert torch.equal(once.mean_k, twice.mean_k)
    assert once.mean_k.tolist() != [1 / 5] * 5


def test_of_many_images_a_sample_can_be_neighbours_and_the_seed_of_the_look_draws_it(monkeypatch):
    features = torch.randn(40, 6, generator=torch_generator(3, "x"))

    def found(limit, seed):
        monkeypatch.setattr(neighbours, "MAX_CANDIDATES", limit)
        monkeypatch.setattr(neighbours, "has_index", lambda: False)
        method = nngcd.Method(nngcd.Config(**SMALL, neighbour_weight=1.0, n_neighbours=3), make_task())
        method.look(Overview(features, torch.full((40,), -1), 5, seed=seed))
        return method.neighbours.index_nm

    few = found(10, seed=1)
    assert few.shape == (40, 3)
    assert 3 < len(few.unique()) <= 10
    assert torch.equal(found(10, seed=1), few)
    assert set(found(10, seed=2).unique().tolist()) != set(few.unique().tolist())
    # Where there are no more, every image can be one, whatever the seed.
    assert torch.equal(found(40, seed=1), nearest_neighbours(features, 3))
    assert torch.equal(found(40, seed=2), nearest_neighbours(features, 3))


@pytest.mark.needs("faiss")
def test_of_many_images_an_index_finds_neighbours_among_all(monkeypatch):
    monkeypatch.setattr(neighbours, "MAX_CANDIDATES", 10)
    features = torch.randn(200, 6, generator=torch_generator(3, "x"))
    method = nngcd.Method(nngcd.Config(**SMALL, neighbour_weight=1.0, n_neighbours=3), make_task())
    method.look(Overview(features, torch.full((200,), -1), 5, seed=1))
    true = nearest_neighbours(features, 3)
    assert (method.neighbours.index_nm == true).float().mean() > 0.8


def test_the_learning_rate_of_the_prototypes_holds_their_length_through_training(batch):
    method = nngcd.Method(nngcd.Config(**SMALL, prototype_learning_rate=4.0), make_task())
    optimiser = torch.optim.SGD(method.prototypes.parameters(), 1.0)
    sum(method.loss(batch).values()).backward()
    optimiser.step()
    assert not torch.allclose(method.prototypes.weight.norm(dim=-1), torch.full((5,), 0.5), atol=1e-6)
    method.after_step(batch.moment)
    assert torch.allclose(method.prototypes.weight.norm(dim=-1), torch.full((5,), 0.5))


@pytest.mark.parametrize("values", [{"neighbour_weight": -1.0}, {"n_neighbours": 0}, {"prototype_learning_rate": 0.0}])
def test_impossible_settings_of_neighbours_and_prototypes_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        simgcd.Config(**values)
