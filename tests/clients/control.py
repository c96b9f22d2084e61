"""Lose the leaders of roles of a minicluster, for tests of clients: `control DIRECTORY kill|freeze ROLE…`.

`restore` starts what has ended, and lets what is frozen go on.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from minicluster.cluster import Cluster
from minicluster.overview import Status
from peloton.client.discovery import ZooKeeperDiscovery
from tests.servers.freezing import freeze


def main(directory: str, action: str, *roles: str) -> int:
    cluster = Cluster(Path(directory))
    if action == "restore":
        for each in cluster.status():
            if each.name.startswith(roles) and each.pid is not None:
                os.kill(each.pid, signal.SIGCONT)
        cluster.start(())
        return 0
    pids = [_leader(cluster, role).pid for role in roles]
    for pid in pids:
        assert pid is not None
        if action == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            _freeze(pid, cluster.layout.database)
    return 0


def _freeze(pid: int, database: Path) -> None:
    """Freeze a daemon outside of its writes: SQLite's lock would be frozen too, and nobody could lead."""
    freeze(pid)
    while _locked(database):
        os.kill(pid, signal.SIGCONT)
        freeze(pid)


def _locked(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=2.0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def _leader(cluster: Cluster, role: str) -> Status:
    discovery = ZooKeeperDiscovery(cluster.zookeeper_servers())
    try:
        port = discovery.address(role).rpartition(":")[2]
    finally:
        discovery.close()
    return next(
        each
        for each in cluster.status()
        if each.name.startswith(role) and each.addresses["grpc"].rpartition(":")[2] == port
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
