"""A ZooKeeper server of one node: real, small, empty, on a free loopback port.

Its data outlive a crash of the process, not one of the machine (no fsync).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.maven import Broken, class_path, jars, java

VERSION = "3.9.5"
ARTIFACTS = (
    f"org.apache.zookeeper:zookeeper:{VERSION}",
    # What its POM expects the server's distribution to bring along.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    "org.slf4j:slf4j-simple:2.0.13",
)
TICK_MILLISECONDS = 500
LONGEST_START = 60.0
"""Seconds."""


@dataclass(slots=True)
class ZooKeeperServer:
    """One server process and its folder. May be stopped, killed, frozen and started again, at the same port
    and with the same data."""

    folder: Path
    host: str = "127.0.0.1"
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
        library = jars(ARTIFACTS)
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                _command(self.folder, library), cwd=self.folder, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + LONGEST_START
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Broken(f"ZooKeeper did not start:\n{self._log_end()}")
            time.sleep(0.05)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _serves(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as probe:
                probe.sendall(b"srvr")
                # Before it serves it says that it does not.
                return probe.recv(4096).startswith(b"Zookeeper version")
        except OSError:
            return False

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


@contextmanager
def zookeeper_server(folder: Path) -> Iterator[ZooKeeperServer]:
    """A running server with its files in `folder`, which it makes; they are removed at the end.

    Raises Missing without Java 17 or Maven, Broken where the server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = ZooKeeperServer(folder, port=_free_port())
    (folder / "zoo.cfg").write_text(
        f"tickTime={TICK_MILLISECONDS}\n"
        f"dataDir={folder / 'data'}\n"
        f"clientPortAddress={server.host}\n"
        f"clientPort={server.port}\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
        "maxClientCnxns=0\n"
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)


def _command(folder: Path, library: Path) -> list[str]:
    return [
        str(java()),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.sasl.client=false",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        class_path(library),
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        str(folder / "zoo.cfg"),
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
