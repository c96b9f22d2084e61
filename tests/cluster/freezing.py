"""Stop daemons with SIGSTOP for a while."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from minicluster.cluster import Cluster
from tests.servers.freezing import freeze

BUSY_SECONDS = 30.0


@contextmanager
def frozen(cluster: Cluster, name: str) -> Iterator[int]:
    """Stop a process meanwhile, outside of a write to the shared SQLite file. Yield its process id.

    One that is stopped within a transaction would keep all daemons from writing.
    """
    pid = next(each.pid for each in cluster.status() if each.name == name)
    assert pid is not None
    try:
        _stop_between_writes(cluster, pid)
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def _stop_between_writes(cluster: Cluster, pid: int) -> None:
    """Stop it while nobody else can be within a transaction."""
    uri = f"{cluster.layout.database.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        freeze(pid)
        database.execute("ROLLBACK")
