from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.core.seeds import torch_generator
from nngcd.methods.contract import Batch, Moment, Overview, Task


@pytest.fixture
def task():
    return Task(n_features=6, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))


@pytest.fixture
def two_views():
    """Ten images, four of them labelled, in an early epoch."""
    features_vbd = torch.randn(2, 10, 6, generator=torch_generator(1, "x"))
    labels_b = torch.tensor([0, 1, -1, -1, 0, -1, 1, -1, -1, -1])
    return Batch(features_vbd, labels_b, Moment(3, 30, 7, 300), torch.arange(10))


@pytest.fixture
def blob_overview(blobs):
    features, labels, _ = blobs
    return Overview(torch.from_numpy(features), torch.from_numpy(labels), 0, seed=0)


@pytest.fixture
def blob_task():
    return Task(n_features=16, n_clusters=6, n_old=3, generator=torch_generator(0, "init"))


@pytest.fixture
def swallowed():
    """Two known classes of 30 images, half labelled; 20 that touch the first; a new one of 40 that has two clusters."""
    axes, generator = torch.eye(16), torch_generator(0, "blobs")
    near = F.normalize(axes[0] + 0.5 * axes[2], dim=0)
    centres = [axes[0]] * 30 + [near] * 20 + [axes[1]] * 30 + [axes[3]] * 40
    features_nd = torch.stack(centres) + 0.05 * torch.randn(120, 16, generator=generator)
    labels_n = torch.full((120,), -1)
    labels_n[:15], labels_n[50:65] = 0, 1
    return Overview(features_nd, labels_n, 2, seed=0)


@pytest.fixture
def distinct(swallowed):
    """The same, and what had two clusters is two categories: nothing can be merged."""
    features_nd = swallowed.features_nd.clone()
    features_nd[100:] = features_nd[100:].roll(3, dims=1)
    return swallowed._replace(features_nd=features_nd)
