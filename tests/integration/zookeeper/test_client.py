"""The Python client, and a ZooKeeper that is away for a while."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo import retry

from peloton.client.discovery import DiscoveryError, NoLeader, ZooKeeperDiscovery
from peloton.membership.interface import Address
from tests.servers.zookeeper import ZooKeeperServer

from .conftest import silent

AWAY = 14.0
"""Seconds. Pauses that double without end are tried 12.7 s and 25.5 s after the loss, with a jitter of 1."""
SOON = 8.0
"""Seconds. Less than the 11.5 s that such pauses take; pauses of at most 1 s leave a busy machine time."""


def test_leaders_are_found_soon_after_zookeeper_is_back(
    zookeeper: ZooKeeperServer, raw: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "random", SimpleNamespace(uniform=lambda low, high: (low + high) / 2))
    leader = Address("here", "127.0.0.1", 1, 2)
    raw.create(f"{root}/jobmanager/leader", leader.to_json().encode(), makepath=True)
    discovery = ZooKeeperDiscovery(zookeeper.address, root)
    try:
        assert discovery.address("jobmgr") == leader.target
        zookeeper.kill()
        try:
            time.sleep(AWAY)
        finally:
            zookeeper.start()
        back = time.monotonic()
        while True:
            try:
                assert discovery.address("jobmgr") == leader.target
                break
            except NoLeader:
                assert time.monotonic() - back < 60
        assert time.monotonic() - back < SOON
    finally:
        discovery.close()


def test_servers_that_are_gone_are_passed_over(zookeeper: ZooKeeperServer, raw: Any, root: str) -> None:
    """Two of three, in whatever order they are tried."""
    leader = Address("here", "127.0.0.1", 1, 2)
    raw.create(f"{root}/jobmanager/leader", leader.to_json().encode(), makepath=True)
    with silent() as one, silent() as two:
        for _ in range(3):
            discovery = ZooKeeperDiscovery(f"{one},{two},{zookeeper.address}", root)
            try:
                assert discovery.address("jobmgr") == leader.target
            finally:
                discovery.close()


def test_all_may_lie_below_a_node(
    zookeeper: ZooKeeperServer, raw: Any, root: str, recwarn: pytest.WarningsRecorder
) -> None:
    """Which may be yet to be made."""
    leader = Address("here", "127.0.0.1", 1, 2)
    discovery = ZooKeeperDiscovery(f"zk://{zookeeper.address}/deep{root}/", "/peloton")
    try:
        with pytest.raises(DiscoveryError, match="has no /peloton/jobmanager"):
            discovery.address("jobmgr")
        place = f"/deep{root}/peloton/jobmanager/leader"
        raw.create(place, leader.to_json().encode(), makepath=True)
        assert discovery.address("jobmgr") == leader.target
    finally:
        discovery.close()
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_connection_that_kazoo_gave_up_is_made_again(
    zookeeper: ZooKeeperServer, raw: Any, root: str
) -> None:
    leader = Address("here", "127.0.0.1", 1, 2)
    raw.create(f"{root}/jobmanager/leader", leader.to_json().encode(), makepath=True)
    discovery = ZooKeeperDiscovery(zookeeper.address, root, timeout=2)
    try:
        discovery.address("jobmgr")
        discovery._client._pending.append((None, None, 0))
        with pytest.raises(NoLeader):
            discovery.address("jobmgr")
        assert discovery.address("jobmgr") == leader.target
    finally:
        discovery.close()


def test_host_managers_of_named_mesos_clusters_are_found(
    zookeeper: ZooKeeperServer, raw: Any, root: str
) -> None:
    discovery = ZooKeeperDiscovery(zookeeper.address, root)
    try:
        assert discovery.clusters() == [""]
        east = Address("here", "127.0.0.1", 1, 3)
        place = f"{root}/hostmanager/clusters/east"
        raw.create(f"{place}/leader", east.to_json().encode(), makepath=True)
        assert discovery.clusters() == ["east"]
        assert discovery.address("hostmgr/east") == east.target
        raw.create(f"{root}/hostmanager/members/one", b"", makepath=True)
        assert discovery.clusters() == ["", "east"]
    finally:
        discovery.close()
