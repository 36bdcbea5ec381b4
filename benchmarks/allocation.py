"""What it is worth to keep freed memory: passes of efficientnet_lite0 at the three sizes of effort quick.

python benchmarks/allocation.py --threads 1
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

N_ROUNDS, N_IMAGES, N_PASSES, SIZES = 3, 16, 4, (224, 288, 320)
WAYS = {"as glibc does it": {"MALLOC_ARENA_TEST": "8"}, "kept (nngcd)": {}}
"""glibc's own number of arenas, said aloud: nngcd leaves alone what the user has set."""


def cost(n_threads: int) -> tuple[float, float, int]:
    """Return processor time an image in ms, the system's share of it, and pages given by the system."""
    import torch

    from nngcd.backbones import load_backbone
    from nngcd.core.seeds import torch_generator
    from nngcd.training.extraction import run_trunk

    torch.set_num_threads(n_threads)
    backbone = load_backbone("efficientnet_lite0")
    size = max(SIZES)
    images = torch.randint(255, (N_IMAGES, 3, size, size), dtype=torch.uint8, generator=torch_generator(0, "images"))
    run_trunk(backbone, images)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(N_PASSES):
        for size in SIZES:
            run_trunk(backbone, images[..., :size, :size])
    after = resource.getrusage(resource.RUSAGE_SELF)
    system, user = after.ru_stime - before.ru_stime, after.ru_utime - before.ru_utime
    milliseconds = 1000 * (system + user) / (N_PASSES * N_IMAGES)
    return milliseconds, system / (system + user), after.ru_minflt - before.ru_minflt


def measure(environment: dict[str, str], n_threads: int) -> tuple[float, float, int]:
    """Return the cost in a fresh process with these variables."""
    command = [sys.executable, __file__, "--threads", str(n_threads), "--once"]
    out = subprocess.run(command, env=os.environ | environment, capture_output=True, check=True, text=True).stdout
    milliseconds, share, pages = out.split()
    return float(milliseconds), float(share), int(pages)


def main() -> None:
    """Print the median of a few interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(*cost(arguments.threads))
        return
    rounds = [{way: measure(env, arguments.threads) for way, env in WAYS.items()} for _ in range(N_ROUNDS)]
    print("| freed memory | ms per image (processor time, three sizes) | of which in the system | pages provided |")
    print("|---|---|---|---|")
    for way in WAYS:
        milliseconds, share, pages = sorted(measured[way] for measured in rounds)[N_ROUNDS // 2]
        print(f"| {way} | {milliseconds:.0f} | {100 * share:.0f}% | {pages:,} |")


if __name__ == "__main__":
    main()
