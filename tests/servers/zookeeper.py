"""A ZooKeeper server of one node: real, small, empty, on a free loopback port.

Its data outlive a crash of the process, not one of the machine (no fsync).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from minicluster.ports import FreePorts
from minicluster.servers.maven import Broken
from minicluster.servers.zookeeper import HOST, command, configure, serves
from tests.servers.freezing import freeze

LONGEST_START = 60.0
"""Seconds."""


@dataclass(slots=True)
class ZooKeeperServer:
    """One server process and its folder. May be stopped, killed, frozen and started again, at the same port
    and with the same data."""

    folder: Path
    host: str = HOST
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """host:port, for a connection string."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Raises Broken while the server does not run."""
        if self._process is None:
            raise Broken("the ZooKeeper server does not run")
        return self._process.pid

    def start(self) -> None:
        """Returns when the server answers. Raises Broken with the end of its log where it does not."""
        argv = command(self.folder)
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(argv, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + LONGEST_START
        while not serves(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Broken(f"ZooKeeper did not start:\n{self._log_end()}")
            time.sleep(0.05)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._process = None

    def _log_end(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")[-4000:]


def new_zookeeper(folder: Path) -> ZooKeeperServer:
    """A server that is yet to be started, with its files in `folder`, which is made."""
    server = ZooKeeperServer(folder, port=FreePorts(owner=folder).take())
    configure(folder, server.port)
    return server


@contextmanager
def zookeeper_server(folder: Path) -> Iterator[ZooKeeperServer]:
    """A running server with its files in `folder`, which it makes; they are removed at the end.

    Raises Missing without Java 17 or Maven, Broken where the server does not start.
    """
    server = new_zookeeper(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)
