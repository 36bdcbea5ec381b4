"""Functions in processes of their own that can be killed, without the seconds that importing torch takes each time.

A server, a clean process with no threads, imports everything once and forks for every call.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
CONTEXT = multiprocessing.get_context(METHOD)
CONTEXT.set_forkserver_preload(["nngcd.pipeline", "nngcd.backbones.timm_loading", "lightning_fabric", "torch._dynamo"])


class Forked:
    """A function that runs in a process and a group of its own, used as a `subprocess.Popen`.

    Args:
        function: one of this module.
        arguments: what it is called with.
    """

    def __init__(self, function, *arguments):
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [Path(self._folder.name) / name for name in ("out", "err")]
        self._process = CONTEXT.Process(
            target=_run, args=(function, arguments, [str(path) for path in self._outputs], dict(os.environ))
        )
        self._process.start()

    @property
    def pid(self):
        """Number of the process."""
        return self._process.pid

    @property
    def returncode(self):
        """Exit code, the negative signal that ended it, or None while it runs."""
        return self._process.exitcode

    def wait(self):
        """Wait for its end and return its exit code."""
        self._process.join()
        return self.returncode

    def communicate(self):
        """Wait for its end and return what it printed to standard output and standard error."""
        self.wait()
        return tuple(path.read_text(encoding="utf-8") for path in self._outputs)

    def send_signal(self, number):
        """Send it a signal."""
        os.kill(self.pid, number)


def nngcd(*arguments):
    """Start a command line."""
    return Forked(_command, *map(str, arguments))


def script(source, *arguments):
    """Start a program, given as its text."""
    return Forked(_script, source, *map(str, arguments))


def _command(*arguments):
    from nngcd.cli import program

    sys.argv = ["nngcd", *arguments]
    program()


def _script(source, *arguments):
    sys.argv = ["script", *arguments]
    exec(compile(source, "script", "exec"), {"__name__": "__main__"})


def _run(function, arguments, outputs, environment):
    os.setsid()
    multiprocessing.set_start_method(None, force=True)  # its own processes start as they would without a server
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, encoding="utf-8") for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    import torch

    torch.set_num_threads(1)
    function(*arguments)
