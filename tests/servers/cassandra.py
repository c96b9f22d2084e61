"""A Cassandra server of one node: real, small, empty, on free loopback ports."""

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
from minicluster.servers.cassandra import HOST, Lasting, Server, command, configure, serves
from minicluster.servers.maven import Broken
from tests.servers.freezing import freeze

USERNAME = PASSWORD = "cassandra"
"""The superuser that a new server makes."""
LONGEST_START = 400.0
"""Seconds."""


@dataclass(slots=True)
class CassandraServer:
    """One server process and its folder. May be stopped, killed, frozen and started again."""

    server: Server
    host: str = HOST
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def username(self) -> str:
        """Empty where anyone is let in."""
        return USERNAME if self.server.authenticate else ""

    @property
    def password(self) -> str:
        return PASSWORD if self.server.authenticate else ""

    @property
    def pid(self) -> int:
        """Raises Broken while the server does not run."""
        if self._process is None:
            raise Broken("the Cassandra server does not run")
        return self._process.pid

    def start(self) -> None:
        """Returns when the server answers. Raises Broken with the end of its log where it does not."""
        argv = command(self.server)
        folder = self.server.folder
        with (folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(argv, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + LONGEST_START
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Broken(f"Cassandra did not start:\n{self._log()[-4000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """What the server's process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _serves(self) -> bool:
        # The server answers when it is whole, but the superuser is made a moment later.
        if self.server.authenticate and "Created default superuser role" not in self._log():
            return False
        return serves(self.port)

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

    def _log(self) -> str:
        log = self.server.folder / "output.log"
        return log.read_text(errors="replace") if log.exists() else ""


@contextmanager
def cassandra_server(
    folder: Path, *, authenticate: bool = True, quick: bool = True, lasting: Lasting = Lasting.NOTHING
) -> Iterator[CassandraServer]:
    """A running server with its files in `folder`, which it makes; they are removed at the end. `lasting`
    is for one that is to be killed and started again.

    Raises Missing without Java 17 or Maven, Broken where the server does not start.
    """
    ports = FreePorts(owner=folder)
    port, storage_port = ports.take(), ports.take()
    server = CassandraServer(Server(folder, port, storage_port, authenticate, quick=quick, lasting=lasting))
    configure(server.server)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)
