"""Ports for the components, chosen once per cluster, so that a restarted component keeps its addresses."""

from __future__ import annotations

import random
import socket

from minicluster.settings import AGENT_PORT, BASE_PORTS
from peloton.errors import Unavailable

LOWEST, HIGHEST = 10_000, 19_999
"""Below the ports that the kernel gives to outgoing connections, and those that tasks are offered."""
STEP = 10


def default_ports(kind: str, index: int) -> tuple[int, int]:
    """HTTP and gRPC port of the index-th instance of a kind (for placement: of its task type)."""
    if kind == "mesos-agent":
        return AGENT_PORT + index, 0
    http, grpc = BASE_PORTS[kind]
    return http + STEP * index, grpc + STEP * index if grpc else 0


class FreePorts:
    """Hands out ports that nobody listens on at the moment, none twice."""

    def __init__(self) -> None:
        self._candidates = random.sample(range(LOWEST, HIGHEST + 1), HIGHEST - LOWEST + 1)

    def take(self) -> int:
        while self._candidates:
            port = self._candidates.pop()
            if is_free(port):
                return port
        raise Unavailable(f"no free port from {LOWEST} to {HIGHEST}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
