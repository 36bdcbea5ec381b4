from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric

from nngcd.backbones.backbone import Adapter
from nngcd.core.errors import ConfigError, ResourceError, TrainingError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import torch_generator
from nngcd.methods import nngcd
from nngcd.methods.contract import BaseMethod, Moment, Overview, Task
from nngcd.training.bank import MemoryBank
from nngcd.training.learner import Learner
from nngcd.training.loop import TrainingSettings, _groups, train
from nngcd.training.sources import BankViews


@pytest.fixture
def source(blobs):
    features, labels, _ = blobs
    hidden = torch.from_numpy(features)[:, None] + torch.randn(240, 3, 16, generator=torch_generator(0, "noise")) * 0.1
    return BankViews(MemoryBank(hidden), labels, "two-random", batch_size=60, seed=0)


def make_learner(**config):
    tail = Adapter(16)
    task = Task(
        n_features=16, n_clusters=6, n_old=3, generator=torch_generator(0, "init"), sparse_weights=(tail.weight,)
    )
    return Learner(tail, nngcd.Method(nngcd.Config(n_hidden=24, n_projection=8, **config), task))


def run_training(learner, source, run, progress=None, **config):
    fabric = Fabric(accelerator="cpu", devices=1)
    train(
        learner,
        source,
        TrainingSettings(**config),
        overview=unseen,
        fabric=fabric,
        run=run,
        progress=progress or Progress(),
    )


def unseen(epoch):
    raise AssertionError("this method looks at nothing between epochs")


class StopAfter(Progress):
    """Stands for a crash: raises after some epochs, when their checkpoint is written."""

    def __init__(self, n_epochs):
        self.left = n_epochs

    def advance(self, n=1, note=""):
        self.left -= n
        if self.left <= 0:
            raise KeyboardInterrupt


def test_a_resumed_run_equals_an_unbroken_one_to_the_bit(source, tmp_path):
    unbroken = make_learner()
    run_training(unbroken, source, RunFolder.create(tmp_path / "unbroken"), epochs=6)

    broken, run = make_learner(), RunFolder.create(tmp_path / "broken")
    with pytest.raises(KeyboardInterrupt):
        run_training(broken, source, run, StopAfter(3), epochs=6)
    # The crash came after a metrics line whose checkpoint was never written.
    run.append_metrics({"epoch": 3, "loss": 99.0})
    resumed = make_learner()
    run_training(resumed, source, run, epochs=6)

    for name, tensor in unbroken.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    lines = run.read_metrics()
    assert [line["epoch"] for line in lines] == list(range(6))
    assert 99.0 not in [line["loss"] for line in lines]


def test_every_term_is_logged_by_name(source, tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run_training(make_learner(), source, run, epochs=2)
    line = run.read_metrics()[1]
    terms = {"pseudo_label", "mean_entropy", "contrast", "classify", "supcon", "sparse"}
    assert terms <= set(line)
    assert line["loss"] == pytest.approx(sum(line[name] for name in terms), abs=1e-4)
    assert line["learning_rate"] == pytest.approx(0.1 * (0.5 * (1 - 1e-3) + 1e-3))


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_state(source, tmp_path):
    run = RunFolder.create(tmp_path / "run")
    run_training(make_learner(), source, run, epochs=2)
    kept = run.checkpoint.read_bytes()
    learner = make_learner()
    source.bank.hidden_nv[:] = torch.nan
    with pytest.raises(TrainingError, match=r"no longer finite in epoch 3.*nan.*learning_rate"):
        run_training(learner, source, run, epochs=4)
    assert run.checkpoint.read_bytes() == kept


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_what_decays_and_that_the_tail_has_its_own_rate(decay):
    learner = make_learner(sparse_weight=0.0)
    learner.tail_learning_rate = 0.1
    groups = _groups(learner, TrainingSettings(weight_decay=0.5, decay=decay))
    for group in groups:
        assert all(group.weight_decay == (0.5 if p.ndim >= 2 or decay == "all" else 0) for p in group.parameters)
    tail = {id(p) for p in learner.tail.parameters()}
    for group in groups:
        assert {id(p) in tail for p in group.parameters} == {group.rate == 0.1}
    trained = {id(p) for p in learner.parameters() if p.requires_grad}
    assert {id(p) for group in groups for p in group.parameters} == trained
    assert {p.ndim for group in groups for p in group.parameters} == {1, 2}
    assert id(learner.method.teacher.weight) not in trained


def test_tail_and_heads_may_end_at_different_fractions_of_their_rates():
    """CiPR's code: 0.01 and 0.1 both fall to 1e-4."""
    learner = make_learner()
    learner.tail_learning_rate = 0.1
    tail = {id(p) for p in learner.tail.parameters()}
    groups = _groups(learner, TrainingSettings(final_learning_rate=0.001, tail_final_learning_rate=0.01))
    starts = {id(group.parameters[0]) in tail: group.learning_rate(0, 200, 0.1) for group in groups}
    assert starts == {True: pytest.approx(0.01), False: pytest.approx(0.1)}
    assert [group.learning_rate(200, 200, 0.1) for group in groups] == pytest.approx([1e-4] * len(groups))
    same = _groups(learner, TrainingSettings(final_learning_rate=0.001))
    assert {group.end for group in same} == {0.001}


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("batch_size", 0), ("pieces", 0), ("learning_rate", -1.0), ("weight_decay", -1e-3)],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"training.{name}"):
        TrainingSettings(**{name: value})


def test_pieces_change_memory_not_the_result(source):
    whole, pieces = make_learner(), make_learner()
    run_training(whole, source, None, epochs=2)
    run_training(pieces, source, None, epochs=2, pieces=7)
    for name, tensor in whole.state_dict().items():
        assert torch.allclose(tensor, pieces.state_dict()[name], atol=1e-6), name


class SmallMemory(Adapter):
    """A tail that runs out of memory when it is given too many rows to learn from at once."""

    error = torch.OutOfMemoryError("made up")

    def forward(self, hidden):
        if len(hidden) > 40:
            raise self.error
        return super().forward(hidden)


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="torch before 2.13 cannot repeat such a step"
)
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("made up"), RuntimeError("CPU: can't allocate memory")])
def test_out_of_memory_halves_the_pieces_and_keeps_the_batch(source, caplog, monkeypatch, error):
    monkeypatch.setattr(SmallMemory, "error", error)
    roomy, tight = make_learner(), make_learner()
    tight.tail = SmallMemory(16)
    tight.method.task = replace(tight.method.task, sparse_weights=(tight.tail.weight,))
    run_training(roomy, source, None, epochs=2)
    run_training(tight, source, None, epochs=2)
    assert tight.n_pieces == 4  # 120 rows in a batch of 60 images with two views
    assert [record.args for record in caplog.records if record.levelname == "WARNING"] == [(2,), (4,)]
    for name, tensor in roomy.state_dict().items():
        assert torch.allclose(tensor, tight.state_dict()[name], atol=1e-6), name


def test_a_batch_that_fits_in_no_way_says_what_to_do(source):
    learner = make_learner()
    learner.method.loss = out_of_memory
    with pytest.raises(ResourceError, match=r"60 images does not fit.*training\.batch_size=30"):
        run_training(learner, source, None, epochs=1)


def out_of_memory(batch):
    raise torch.OutOfMemoryError("made up")


def test_a_compiled_tail_learns_the_same(source, monkeypatch):
    compiled = []

    def compile_without_compiler(module):
        compiled.append(module)
        real_compile(module, backend="eager")

    real_compile = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", compile_without_compiler)
    plain, fast = make_learner(), make_learner()
    run_training(plain, source, None, epochs=2)
    run_training(fast, source, None, epochs=2, compile=True)
    assert compiled == [fast.tail]
    for name, tensor in plain.state_dict().items():
        assert torch.allclose(tensor, fast.state_dict()[name], atol=1e-6), name


class Taught(BaseMethod):
    """Pulls features to zero; looks before the second epoch, has two stages and an averaged tail."""

    averages_tail = True

    def __init__(self):
        task = Task(n_features=16, n_clusters=6, n_old=3, generator=torch_generator(0, "init"))
        super().__init__(None, task)
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.seen = []

    def stage(self, epoch, n_epochs):
        return range(2) if epoch < 2 else range(2, n_epochs)

    def looks_before(self, epoch, n_epochs):
        return epoch == 1

    def look(self, overview):
        self.seen.append(overview.epoch)

    def loss(self, batch):
        assert batch.teacher_features_vbd.shape == batch.features_vbd.shape
        assert not batch.teacher_features_vbd.requires_grad
        return {"size": (self.weight * batch.features_vbd).square().mean()}

    def teacher_momentum(self, moment):
        return 0.5


def test_a_method_may_look_have_stages_and_be_taught_by_an_averaged_tail(source, tmp_path):
    learner, run = Learner(Adapter(16), Taught()), RunFolder.create(tmp_path / "run")
    before = learner.teacher_tail.weight.clone()
    train(
        learner, source, TrainingSettings(epochs=6, learning_rate=0.01),
        overview=lambda epoch: Overview(None, None, epoch, 0),
        fabric=Fabric(accelerator="cpu", devices=1), run=run, progress=Progress(),
    )  # fmt: skip
    assert learner.method.seen == [1]
    rates = [line["learning_rate"] for line in run.read_metrics()]
    assert rates[0] == rates[2] == 0.01
    assert rates[1] < rates[0]
    assert rates[2] > rates[3] > rates[5]
    assert not torch.equal(learner.teacher_tail.weight, before)
    assert torch.equal(learner.tail.weight, learner.teacher_tail.weight), "the average is what training leaves"
    trained = {id(p) for group in _groups(learner, TrainingSettings()) for p in group.parameters}
    assert not trained & {id(p) for p in learner.teacher_tail.parameters()}


def test_the_averaged_tail_moves_by_the_methods_momentum():
    learner = Learner(Adapter(16), Taught())
    with torch.no_grad():
        learner.tail.weight.add_(1.0)
    learner.after_step(Moment(0, 1, 0, 1))
    assert torch.allclose(learner.teacher_tail.weight, torch.eye(16) + 0.5)


@pytest.mark.parametrize("pace", [0.0, 1.0])
def test_a_method_may_pace_a_part_of_the_tail_step_by_step(source, tmp_path, pace):
    asked = []

    def own_pace(moment):
        asked.append(moment.step)
        return pace

    constant = {"epochs": 2, "final_learning_rate": 1.0, "weight_decay": 0.0}
    plain, paced = make_learner(), make_learner()
    paced.method.paced, paced.method.pace = lambda tail: [tail.weight], own_pace
    start = paced.tail.weight.detach().clone()
    run_training(plain, source, RunFolder.create(tmp_path / "plain"), **constant)
    run_training(paced, source, RunFolder.create(tmp_path / "paced"), **constant)
    assert asked == list(range(2 * source.n_batches))
    assert torch.equal(paced.tail.weight, plain.tail.weight if pace else start)
    assert not torch.equal(plain.tail.weight, start)
    own, *others = _groups(paced, TrainingSettings(weight_decay=0.5, decay="all"))
    assert own.weight_decay == 0.0
    assert {group.weight_decay for group in others} == {0.5}
