"""One pass through the backbone serves student and teacher: exactly what the authors' two passes give."""

from __future__ import annotations

import torch

from nngcd.backbones import load_backbone
from nngcd.core.seeds import torch_generator
from nngcd.methods import nngcd
from nngcd.methods.contract import Batch, Moment, Task


class TwoPasses(nngcd.Method):
    """NN-GCD as the authors run it: the teacher sees features of a second pass through the whole backbone."""

    def __init__(self, config, task, backbone, images):
        super().__init__(config, task)
        self.second_pass = lambda: backbone.tail(backbone.trunk(images)).unflatten(0, (2, 4))

    def _judge(self, features):
        return super().judge(self.second_pass())


def test_loss_and_gradients_are_equal_to_the_bit():
    backbone = load_backbone("vit_tiny_patch16_224", pretrained=False, image_size=32)
    images = torch.randn(8, 3, 32, 32, generator=torch_generator(0, "images"))
    labels = torch.tensor([0, 1, -1, -1])
    results = []
    for is_two_pass in (False, True):
        task = Task(n_features=192, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))
        config = nngcd.Config(n_hidden=16, n_projection=8, teacher_start="random")
        method = TwoPasses(config, task, backbone, images) if is_two_pass else nngcd.Method(config, task)
        features = backbone.tail(backbone.trunk(images)).unflatten(0, (2, 4))
        terms = method.loss(Batch(features, labels, Moment(0, 10, 0, 100), torch.arange(4)))
        loss = torch.stack(list(terms.values())).sum()
        trained = [p for p in backbone.tail.parameters() if p.requires_grad]
        results.append((loss.detach(), torch.autograd.grad(loss, trained)))
    (loss, gradients), (two_pass_loss, two_pass_gradients) = results
    assert torch.equal(loss, two_pass_loss)
    assert all(torch.equal(a, b) for a, b in zip(gradients, two_pass_gradients, strict=True))
    assert sum(g.abs().sum() for g in gradients) > 0
