from __future__ import annotations

import pytest
import torch

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
