"""The Mesos master is found as masters announce themselves, by the recorded nodes of three real ones."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.detector import Elected, ElectionPath, MasterAddress, MasterDetector, detecting
from tests.servers.zookeeper import ZooKeeperServer

from .conftest import SECONDS

MASTERS = {1: 5050, 2: 5070, 3: 5060}
"""Ports by number, of recording 09-master-failover-zk: the lowest number leads."""


def info(port: int) -> bytes:
    """As a master of Mesos 1.12 writes it; `ip` is the address as a little-endian integer."""
    held = {
        "address": {"hostname": "master", "ip": "127.0.0.1", "port": port},
        "capabilities": [{"type": "AGENT_UPDATE"}, {"type": "AGENT_DRAINING"}, {"type": "QUOTA_V2"}],
        "hostname": "master",
        "id": "a9926f41-ba62-4f37-8fc1-05ca033ca222",
        "ip": 16777343,
        "pid": f"master@127.0.0.1:{port}",
        "port": port,
        "version": "1.12.0",
    }
    return json.dumps(held).encode()


def announce(raw: Any, root: str, number: int, port: int) -> None:
    raw.retry(raw.create, f"{root}/json.info_{number:010d}", info(port), makepath=True)


async def leads(detector: MasterDetector, port: int) -> None:
    async with asyncio.timeout(SECONDS):
        while await _port(detector) != port:  # noqa: ASYNC110 - it only answers
            await asyncio.sleep(0.02)


async def _port(detector: MasterDetector) -> int:
    """0 where none leads."""
    try:
        return (await detector.master()).port
    except Unavailable:
        return 0


async def test_the_lowest_is_followed(zookeeper: ZooKeeperServer, raw: Any, root: str) -> None:
    async with detecting(f"zk://127.0.0.1:1,{zookeeper.address}{root}") as detector:
        with pytest.raises(Unavailable, match=f"no Mesos master leads at zk://.*{root}"):
            await detector.master()
        raw.create(f"{root}/log_replicas/0000000000", b"log-replica(1)@127.0.0.1:5050", makepath=True)
        for number in (3, 1, 2):
            announce(raw, root, number, MASTERS[number])
        await leads(detector, 5050)
        raw.delete(f"{root}/json.info_0000000001")
        await leads(detector, 5070)
        announce(raw, root, 4, 5050)
        raw.delete(f"{root}/json.info_0000000002")
        await leads(detector, 5060)


async def test_the_last_master_counts_while_zookeeper_is_away(
    zookeeper: ZooKeeperServer, raw: Any, root: str
) -> None:
    announce(raw, root, 1, 5050)
    async with detecting(f"zk://{zookeeper.address}{root}") as detector:
        await leads(detector, 5050)
        await asyncio.to_thread(zookeeper.kill)
        try:
            assert await detector.master() == MasterAddress("127.0.0.1", 5050)
        finally:
            await asyncio.to_thread(zookeeper.start)
        announce(raw, root, 0, 5070)
        await leads(detector, 5070)


async def test_what_is_no_master_is_none(zookeeper: ZooKeeperServer, raw: Any, root: str) -> None:
    raw.create(f"{root}/json.info_0000000001", b"[]", makepath=True)
    async with detecting(f"zk://{zookeeper.address}{root}") as detector:
        with pytest.raises(Unavailable, match="no Mesos master leads"):
            await detector.master()


async def test_a_detector_that_fails_says_so_to_whoever_asks(zookeeper: ZooKeeperServer, root: str) -> None:
    def failing(found: Elected | None) -> None:
        raise RuntimeError("of the listener")

    async with detecting(f"zk://{zookeeper.address}{root}", failing) as detector, asyncio.timeout(SECONDS):
        with pytest.raises(RuntimeError, match="of the listener"):
            while True:
                with suppress(Unavailable):
                    await detector.master()
                await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "text", ["zk://host/mesos", "zk://host:2181", "zk://a:b@host:1/mesos", "zk://host:1/"]
)
def test_what_is_no_election(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not zk://HOST:PORT,HOST:PORT/PATH"):
        ElectionPath.parse(text)
