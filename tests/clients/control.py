"""Lose the leaders of roles of a minicluster, for tests of clients: `control DIRECTORY kill|freeze ROLE…`.

`restore` starts what has ended, and lets what is frozen go on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from minicluster.cluster import Cluster, Status
from peloton.client.discovery import ZooKeeperDiscovery


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
        os.kill(pid, {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}[action])
    return 0


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
