"""The Python client, and a ZooKeeper that is away for a while."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo import retry

from peloton.client.discovery import NoLeader, ZooKeeperDiscovery
from peloton.membership.interface import Address
from tests.servers.zookeeper import ZooKeeperServer

AWAY = 7.0
"""Seconds. Long enough for pauses that double without end to be noticed."""


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
        assert time.monotonic() - back < 3
    finally:
        discovery.close()
