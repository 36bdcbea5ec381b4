"""The neighbours of some rows by faiss, as a program: `python -m nngcd.clustering.faiss_search D FIRST LAST M`.

A process of its own, because faiss and Infomap (DCCL) crash where both are loaded: each brings a run time of SWIG that
takes the other's objects for its own. Rows come in and numbers go out as plain bytes.
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import ResourceError

N_PROBES = 16
"""Cells of an index that are searched for each row."""


def search(rows_nd: NDArray[np.float32], share: slice, m: int) -> NDArray[np.int64]:
    """Return the numbers of the `m` rows nearest to each row of a share, -1 for those that were not found.

    Raises:
        ResourceError: the search failed, for example for want of memory.
    """
    first, last, _ = share.indices(len(rows_nd))
    command = [sys.executable, "-m", __name__, *map(str, (rows_nd.shape[1], first, last, m))]
    done = subprocess.run(command, input=np.ascontiguousarray(rows_nd).data.cast("B"), capture_output=True)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ResourceError(
            f"the search for neighbours by faiss failed ({reason[0]}). Free memory, or uninstall faiss-cpu to search a "
            "sample instead."
        )
    return np.frombuffer(done.stdout, dtype=np.int64).reshape(last - first, m)


def _main(n_features: int, first: int, last: int, m: int) -> None:
    import faiss

    rows_nd = np.frombuffer(sys.stdin.buffer.read(), dtype=np.float32).reshape(-1, n_features)
    # About as much work to find the cells as to search them.
    n_cells = min(2 ** round(math.log2(2 * math.sqrt(len(rows_nd)))), len(rows_nd))
    index = faiss.index_factory(n_features, f"IVF{n_cells},Flat", faiss.METRIC_INNER_PRODUCT)
    faiss.ParameterSpace().set_index_parameter(index, "nprobe", min(N_PROBES, n_cells))
    index.train(rows_nd)
    index.add(rows_nd)
    sys.stdout.buffer.write(index.search(rows_nd[first:last], m)[1].astype(np.int64).tobytes())


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
