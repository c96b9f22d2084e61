"""An unreachable machine: connections to it time out only after minutes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def full() -> Iterator[int]:
    """A port of 127.0.0.1 on which no connection comes about: the kernel's queue is full."""
    with socket.socket() as listening, socket.socket() as one, socket.socket() as other:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for each in (one, other):
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def connecting(port: int) -> bool:
    """Whether anybody but `full` itself tries to connect there."""
    tried = (each for each in psutil.net_connections("tcp4") if each.status == psutil.CONN_SYN_SENT)
    return sum(each.raddr == ("127.0.0.1", port) for each in tried) > 1
