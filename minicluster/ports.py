"""Choose ports for components, once per cluster: a restarted component keeps its addresses."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minicluster.settings import AGENT_PORT, BASE_PORTS
from peloton.errors import Unavailable

LOWEST, HIGHEST = 10_000, 19_999
"""Below the kernel's ports of outgoing connections, and below the ports that tasks are offered."""
STEP = 10
RESERVED_SECONDS = 300.0
"""How long a port stays reserved after it was handed out: its component may not listen yet."""


def default_ports(kind: str, index: int) -> tuple[int, int]:
    """Return the HTTP and gRPC port of an instance of a kind; of placement, the kind is the task type."""
    if kind == "mesos-agent":
        return AGENT_PORT + index, 0
    http, grpc = BASE_PORTS[kind]
    return http + STEP * index, grpc + STEP * index if grpc else 0


class FreePorts:
    """Hand out ports on which nobody listens, each to one process of this user only.

    Clusters that start at the same time would otherwise choose the same port before one listens on it, and
    one that starts while a component of another is down would choose that component's.
    """

    def __init__(
        self, candidates: Sequence[int] = range(LOWEST, HIGHEST + 1), owner: Path | None = None
    ) -> None:
        """Ports stay reserved as long as the file `owner` exists, once RESERVED_SECONDS have passed."""
        self._candidates = random.sample(candidates, len(candidates))
        self._owner = str(owner.absolute()) if owner is not None else ""
        self._folder = Path(tempfile.gettempdir()) / f"peloton-ports-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def take(self) -> int:
        """Return a free port. Raise Unavailable where none is left."""
        with self._alone():
            while self._candidates:
                port = self._candidates.pop()
                if is_free(port) and self._reserve(port):
                    return port
        raise Unavailable(f"no free port from {LOWEST} to {HIGHEST}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
            yield

    def _reserve(self, port: int) -> bool:
        """Reserve a port. Return False where it is reserved."""
        file = self._folder / str(port)
        if file.exists():
            owner = file.read_text()
            lately = time.time() - file.stat().st_mtime < RESERVED_SECONDS
            if lately or (owner and Path(owner).exists()):
                return False
        file.write_text(self._owner)
        return True


def is_free(port: int) -> bool:
    """Return whether a process could listen at a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
