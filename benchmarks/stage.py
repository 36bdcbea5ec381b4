"""How many maps at once a CPU should pass through a trained CNN stage: forward and backward, all at once and in parts.

python benchmarks/stage.py
"""

from __future__ import annotations

import argparse
import os
from functools import partial

import torch
from torch import Tensor

from measuring import begin, fastest
from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import CPU_MAPS, Backbone

N_MAPS = 256
SIZES = (N_MAPS, 64, 32, 16, 8)


def learn(backbone: Backbone, hidden_b: Tensor, size: int) -> None:
    """Find the gradients of a sum of features, the stage taking `size` maps at once."""
    backbone.tail.zero_grad()
    torch.cat([backbone.tail(part) for part in hidden_b.split(size)]).sum().backward()


def main() -> None:
    """Print the time of each size, and how it compares with all at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    begin(parser.parse_args())
    backbone = load_backbone("efficientnet_lite0", weights=None, tail_blocks=1, image_size=None)
    hidden_b = torch.rand(N_MAPS, *backbone.trunk(torch.zeros(1, 3, 224, 224)).shape[1:])
    times = fastest(*(partial(learn, backbone, hidden_b, size) for size in SIZES))
    for size, time in zip(SIZES, times, strict=True):
        note = "  <- nngcd" if size == CPU_MAPS else ""
        print(f"{size:>4} maps at once: {time:.2f} s, {times[0] / time:.2f} times as fast as all at once{note}")


if __name__ == "__main__":
    main()
