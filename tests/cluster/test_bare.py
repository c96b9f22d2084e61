"""`peloton minicluster up --bare`: Mesos and ZooKeeper without daemons, to deploy on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from minicluster.servers.maven import Missing, java
from tests.cluster.deploying import PELOTON
from tests.conftest import lacking


@pytest.mark.extended
def test_mesos_and_zookeeper_come_up_alone(tmp_path: Path) -> None:
    try:
        java()
    except Missing as missing:
        lacking(missing)

    def minicluster(command: str, *flags: str) -> str:
        argv = [str(PELOTON), "minicluster", command, "--dir", str(tmp_path / "cluster"), *flags]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout)

    try:
        minicluster("up", "--free-ports", "--bare", "--membership", "zookeeper")
        status = minicluster("status")
        assert "zookeeper" in status and "mesos-master" in status and "mesos-agent0" in status
        assert not [name for name in ("jobmgr", "resmgr", "hostmgr", "placement") if name in status], status
    finally:
        minicluster("down")
