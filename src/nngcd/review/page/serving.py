"""From a run folder to a running server."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import pandas as pd
import uvicorn

from nngcd.core.errors import ConfigError, ResourceError
from nngcd.core.run_folder import RunFolder
from nngcd.results.images import find_pictures
from nngcd.review.page.app import ReviewPage
from nngcd.review.page.desk import Desk, seat
from nngcd.review.page.pictures import PictureStore
from nngcd.review.page.safety import Door

N_PORTS = 20
"""Ports tried, from the wanted one upwards."""


class Server(uvicorn.Server):
    """A server that tells its page when it ends, so that open streams do not keep it waiting."""

    def __init__(self, config: uvicorn.Config, page: ReviewPage, listening: socket.socket) -> None:
        super().__init__(config)
        self.page, self.listening = page, listening

    def serve_until_stopped(self) -> None:
        """Answer until Ctrl-C, or until `should_exit` is set."""
        self.run(sockets=[self.listening])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self.page.is_closing = True
        super().handle_exit(sig, frame)


@contextmanager
def opened(run: RunFolder, *, root: Path | None, host: str, port: int, is_read_only: bool) -> Iterator[Server]:
    """Give the server of a run, listening but not yet answering.

    Raises:
        DataError: the run is not finished, or damaged.
        ConfigError: `root` does not hold the images, or nothing can listen on `host`.
    """
    run.check_complete()
    with seat(run, is_read_only=is_read_only) as why_read_only, closing(_listen(host, port)) as listening:
        desk = Desk(run, why_read_only=why_read_only)
        # The names that the desk has: a million texts are not made thrice.
        results = desk.review.results.assign(file_name=pd.Series(desk.file_names, dtype="object"))
        found = find_pictures(run.read_summary(), desk.settings, results, root)
        store = PictureStore(
            found.images, desk.file_names, desk.index.ids, found.why_none.replace("nngcd report", "nngcd review")
        )
        page = ReviewPage(desk, store, Door(host, listening.getsockname()[1]))
        config = uvicorn.Config(page.app(), log_config=None, access_log=False, server_header=False, lifespan="off",
                                timeout_graceful_shutdown=2)  # fmt: skip
        try:
            yield Server(config, page, listening)
        finally:
            page.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the wanted port, or on the next free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, min(port + N_PORTS, 2**16)) if port else (0,):
        # With the protocol named, asyncio sends answers at once (TCP_NODELAY), not 40 ms later.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except socket.gaierror:
            listening.close()
            raise ConfigError("--host", host, "is not an address of this machine") from None
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise ConfigError("--host", host, "is not an address of this machine") from None
            continue
        listening.listen(128)
        return listening
    raise ResourceError(f"no free port from {port} to {port + N_PORTS - 1}. Choose another with --port.")
