"""The project's own Mesos masters elect one among them: frozen, stopped in good order, shut out."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from minicluster.mesos.master.node_registry import NodeRegistry
from minicluster.mesos.master.registry import RegistryError
from peloton.errors import Unavailable
from peloton.membership.connection import Connection
from peloton.mesos.detector import RetryLog
from tests.contract.mesos.cluster import Member, Processes
from tests.contract.mesos.framework import Framework, get
from tests.contract.mesos.unreachable import connecting, full
from tests.faults.proxy import Proxy
from tests.servers.zookeeper import ZooKeeperServer

SECONDS = 60.0


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - other processes give no notice
            await asyncio.sleep(0.02)


@dataclass
class Masters:
    """By name, on one ZooKeeper."""

    processes: Processes
    zookeeper: str
    root: str
    ports: dict[str, int] = field(default_factory=dict)

    async def start(self, name: str, session: float, by: str = "") -> None:
        """``by``: another address of the same ZooKeeper."""
        flags = ("--port=0", f"--work-dir={self.processes.root / name}", "--allocation-interval=0.1")
        election = self.election.replace(self.zookeeper, by or self.zookeeper)
        zk = (f"--zk={election}", f"--zk-session-timeout={session}")
        member = await self.processes.start(name, "master", *flags, *zk)
        self.ports[name] = (await member.wait_ready())["port"]

    @property
    def election(self) -> str:
        return f"zk://{self.zookeeper}{self.root}/mesos"

    def told(self, name: str) -> str:
        """What a master wrote on its standard output and error."""
        return self.processes.members[name].errors.read_text()

    async def begin_agent(self) -> Member:
        work = self.processes.root / "agent"
        self.processes.work_dirs.add(work)
        flags = (f"--master={self.election}", "--port=0", f"--work-dir={work}")
        return await self.processes.start("agent", "agent", *flags)

    async def start_agent(self) -> str:
        """Its id."""
        return str((await (await self.begin_agent()).wait_ready())["agent_id"])

    async def state(self, name: str) -> dict[str, Any]:
        """Empty while another leads."""
        reply = await get(self.ports[name], "/state")
        return dict(json.loads(reply.body)) if reply.status == 200 else {}

    async def leads(self, name: str, seconds: float = SECONDS) -> None:
        async def so() -> bool:
            return bool(await self.state(name))

        await until(so, seconds)

    async def knows(self, name: str, *tasks: str) -> None:
        async def so() -> bool:
            return await self.tasks(name) == list(tasks)

        await until(so)

    async def tasks(self, name: str) -> list[str]:
        """Ids of those that the master knows."""
        frameworks = (await self.state(name)).get("frameworks", [])
        return [task["id"] for framework in frameworks for task in framework["tasks"]]


@pytest.fixture
async def masters(zookeeper: ZooKeeperServer, root: str, tmp_path: Path) -> AsyncIterator[Masters]:
    processes = Processes(tmp_path)
    yield Masters(processes, zookeeper.address, root)
    await processes.stop()


async def test_a_frozen_leader_is_left_and_ends_when_it_wakes(masters: Masters) -> None:
    await masters.start("first", 1.5)
    await masters.leads("first")
    await masters.start("second", 1.5)
    await masters.start_agent()
    framework = await Framework.subscribe(masters.ports["first"])
    await framework.launch("t", "sleep 600")
    await framework.until("TASK_RUNNING")
    await masters.processes.signal("first", signal.SIGSTOP)
    await masters.leads("second")
    await masters.knows("second", "t")
    first = masters.processes.members["first"]
    await masters.processes.signal("first", signal.SIGCONT)
    assert await asyncio.wait_for(first.process.wait(), SECONDS) == 1
    assert "master: lost leadership: " in first.errors.read_text().splitlines()[-1]
    assert await masters.tasks("second") == ["t"]
    framework.close()


async def test_a_leader_that_is_stopped_is_followed_at_once(masters: Masters) -> None:
    await masters.start("first", 10)
    await masters.leads("first")
    await masters.start("second", 10)
    await masters.processes.signal("first", signal.SIGTERM)
    await masters.leads("second", seconds=8)
    assert await asyncio.wait_for(masters.processes.members["first"].process.wait(), SECONDS) == 0


async def test_no_master_leads_without_zookeeper(masters: Masters, zookeeper: ZooKeeperServer) -> None:
    await masters.start("first", 1.5)
    await masters.leads("first")
    await masters.start("second", 1.5)

    async def nobody_leads() -> bool:
        reply = await get(masters.ports["second"], "/state")
        return (reply.status, reply.body) == (503, b"No leader elected")

    zookeeper.freeze()
    try:
        first = masters.processes.members["first"].process
        assert await asyncio.wait_for(first.wait(), SECONDS) == 1
        await until(nobody_leads)
    finally:
        zookeeper.thaw()
    await masters.leads("second")


async def test_a_leader_that_zookeeper_hears_no_more_decides_nothing_beside_the_next(
    masters: Masters, zookeeper: ZooKeeperServer
) -> None:
    """It alone is cut off; frameworks and agents still reach it."""
    proxy = Proxy(zookeeper.host, zookeeper.port)
    proxy.start()
    try:
        await masters.start("first", 2, by=proxy.address)
        await masters.leads("first")
        await masters.start("second", 2)
        stays = await Framework.subscribe(masters.ports["first"])
        proxy.delay = 3600

        async def second_leads() -> bool:
            return bool(await masters.state("second"))

        await until(second_leads)
        first = masters.processes.members["first"].process
        if first.returncode is None:
            with suppress(ConnectionError, EOFError, asyncio.IncompleteReadError):
                assert await masters.state("first") == {}
                assert (await stays.call("RECONCILE", reconcile={})).status == 503
        assert await asyncio.wait_for(first.wait(), SECONDS) == 1
        assert "master: lost leadership: " in masters.told("first").splitlines()[-1]
        stays.close()
    finally:
        proxy.close()


async def test_an_agent_does_not_wait_for_a_master_that_is_gone(
    masters: Masters, raw: Any, root: str
) -> None:
    """Its machine answers nothing, so that connecting takes minutes."""
    with full() as gone:
        info = {"id": "gone", "hostname": "gone", "address": {"ip": "127.0.0.1", "port": gone}}
        node = f"{root}/mesos/json.info_0000000000"
        raw.create(node, json.dumps(info).encode(), makepath=True)
        await masters.start("first", 10)
        agent = await masters.begin_agent()
        await until(lambda: asyncio.to_thread(connecting, gone))
        raw.delete(node)
        await masters.leads("first")
        await asyncio.wait_for(agent.wait_ready(), SECONDS)


@pytest.mark.parametrize("refused", ["announcing this master", "reading the registry"])
async def test_what_zookeeper_refuses_is_said_once_and_tried_until_it_is_granted(
    masters: Masters, raw: Any, root: str, refused: str
) -> None:
    node = f"{root}/mesos" if refused.startswith("announcing") else f"{root}/mesos/registry"
    raw.ensure_path(node)
    raw.set_acls(node, [make_acl("world", "anyone", read=True, admin=True)])
    await masters.start("first", 4)

    async def said() -> bool:
        return refused in masters.told("first")

    await until(said)
    raw.set_acls(node, OPEN_ACL_UNSAFE)
    await masters.leads("first")
    assert masters.told("first").count(refused) == 1


def test_each_trouble_is_said_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    trouble = RetryLog("reading")
    for why in ("no", "no", "never", "no"):
        trouble.failed(Unavailable(why))
    assert caplog.messages == ["reading: no; trying again", "reading: never; trying again"]
    trouble.succeeded()
    trouble.failed(Unavailable("no"))
    assert len(caplog.messages) == 3


@pytest.mark.parametrize("second", [b"two", b"one"], ids=["changed", "as it is"])
async def test_only_the_newest_reader_writes_the_registry(
    zookeeper: ZooKeeperServer, root: str, second: bytes
) -> None:
    connection = Connection(zookeeper.address, 4.0)
    await connection.open()
    try:
        older, newer = (NodeRegistry(connection, f"{root}/registry", 4.0) for _ in range(2))
        assert await older.read() == b""
        older.write(b"one")
        writing = asyncio.create_task(older.run())

        async def written() -> bool:
            return (await connection.get(f"{root}/registry")).value == b"one"

        await until(written)
        assert await newer.read() == b"one"
        older.write(second)
        with pytest.raises(RegistryError, match=r"another master has taken the registry .* over"):
            await asyncio.wait_for(writing, SECONDS)
        assert (await connection.get(f"{root}/registry")).value == b"one"
    finally:
        await connection.close()
