import pytest
import torch


@pytest.fixture
def random_tensor():
    """Return a maker of random float64 tensors; the same shape and seed give the same tensor."""

    def make(*shape, seed=0):
        return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    return make


@pytest.fixture
def gradient():
    """Return a function that gives the gradient of a loss at a tensor."""

    def differentiate(loss, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(loss(x), x)[0]

    return differentiate
