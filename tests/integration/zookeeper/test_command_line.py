"""The command line and the client find leaders through ZooKeeper."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from peloton.cli import exit_codes
from peloton.cli.__main__ import main
from peloton.client import DiscoveryError, PelotonClient, clusters
from peloton.client.discovery import NoLeader
from peloton.membership.interface import Role
from tests.servers.zookeeper import ZooKeeperServer

from .conftest import Make, member


async def test_leaders_are_found(make: Make, zookeeper: ZooKeeperServer, root: str) -> None:
    membership = make()
    await membership.start()
    leadership = await membership.campaign(member("a", Role.HOSTMGR))

    def ask() -> None:
        with PelotonClient("test", zk_servers=f"{zookeeper.address}", zk_root=root) as client:
            assert client.address("hostmgr") == "127.0.0.1:2"
            with pytest.raises(NoLeader, match=f"shows no leader of jobmgr at {root}/jobmanager"):
                client.address("jobmgr")
        below = f"{zookeeper.address}{root}"
        with (
            PelotonClient("test", zk_servers=below, zk_root="/elsewhere") as client,
            pytest.raises(DiscoveryError, match="has no /elsewhere/jobmanager: is the cluster's root"),
        ):
            client.address("jobmgr")

    await asyncio.to_thread(ask)
    await leadership.resign()


async def test_flags_and_clusters_by_name(
    make: Make,
    zookeeper: ZooKeeperServer,
    root: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The leader's address is tried: nobody listens there."""
    for name in ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL", "ZK_SERVERS", "ZK_ROOT", "CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "clusters.json"
    file.write_text(json.dumps({"clusters": [{"clusterName": "here", "zkURL": zookeeper.address}]}))
    monkeypatch.setattr(clusters.zookeeper_of, "__defaults__", ((file,),))
    membership = make()
    await membership.start()
    leadership = await membership.campaign(member("a", Role.HOSTMGR))
    for flags in (("-z", zookeeper.address), ("-e", "here")):
        arguments = [*flags, "--zkroot", root, "-t", "20s", "host", "query"]
        assert await asyncio.to_thread(main, arguments) == exit_codes.UNREACHABLE
        assert "cannot reach hostmgr at 127.0.0.1:2" in capfd.readouterr().err
    await leadership.resign()
