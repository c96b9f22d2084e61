"""Daemons as processes that lose each other: killed, stopped, frozen, without ZooKeeper."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx2
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.calls.rpc import rpc
from peloton.client import PelotonClient
from peloton.membership.interface import Address, Role
from peloton.membership.zookeeper import ZooKeeperMembership
from peloton.rpc.client import Channels, LeaderClient
from tests.servers.freezing import freeze
from tests.servers.zookeeper import ZooKeeperServer
from tests.waiting import until

from .conftest import Make

DAEMON = """
import asyncio, os, sys, time
from contextlib import asynccontextmanager
from pathlib import Path
from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.config.settings import DaemonSettings
from peloton.daemon.lifecycle import run
from peloton.errors import Fenced, Unavailable
from peloton.membership.interface import Role
from peloton.rpc.server import service

stick = Path(os.environ["STICK"])
journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Pools(respool_pb2_grpc.ResourceManagerServicer):
    def __init__(self, me):
        self.me = me

    async def LookupResourcePoolID(self, request, context):
        answer = respool_pb2.LookupResponse()
        answer.id.value = self.me
        return answer

async def write(daemon, term):
    while True:
        now = time.monotonic()
        try:
            daemon.fence()
            os.write(journal, f"{now} {term}\\n".encode())
        except Unavailable:
            pass
        if stick.exists():  # one step of work takes long
            seconds = float(stick.read_text())
            stick.unlink()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                sum(range(10_000))
        await asyncio.sleep(0.005)

def build(daemon):
    @asynccontextmanager
    async def leading(term):
        daemon.spawn("writer", write(daemon, term))
        pools = Pools(daemon.settings.instance)
        async with daemon.serving(service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, pools)):
            yield
    daemon.lead(leading, ["peloton.api.v0.respool.ResourceManager"])

sys.exit(run(DaemonSettings, Role.RESMGR, build, sys.argv[1:]))
"""
LOOKUP = respool_pb2.LookupRequest()
LOOKUP_POOL = rpc(respool_pb2_grpc.ResourceManagerStub, lambda stub: stub.LookupResourcePoolID)


@dataclass
class Processes:
    """Instances of one cluster, by name."""

    folder: Path
    membership: str
    """As YAML."""
    children: dict[str, asyncio.subprocess.Process]
    session_seconds: int = 5
    stuck_seconds: int = 30

    @property
    def stick(self) -> Path:
        """A file: the seconds for which the event loop of the leader is to be busy."""
        return self.folder / "stick"

    async def start(self, name: str) -> None:
        (self.folder / f"{name}.yaml").write_text(
            f"instance: {name}\nmembership: {{session_seconds: {self.session_seconds}, "
            f"stuck_seconds: {self.stuck_seconds}, {self.membership}}}\n"
        )
        with (self.folder / f"{name}.log").open("ab") as log:
            self.children[name] = await asyncio.create_subprocess_exec(
                sys.executable, "-c", DAEMON, "-c", str(self.folder / f"{name}.yaml"), stderr=log,
                env={**os.environ, "JOURNAL": str(self.folder / "journal"), "STICK": str(self.stick)},
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def terms(self) -> list[int]:
        """Of all writes, in the order in which they were allowed."""
        lines = (line.split() for line in (self.folder / "journal").read_text().splitlines())
        return [int(term) for _, term in sorted((float(when), term) for when, term in lines)]


@pytest.fixture
async def processes(tmp_path: Path, zookeeper: ZooKeeperServer, root: str) -> AsyncIterator[Processes]:
    found = Processes(tmp_path, f"servers: '{zookeeper.address}', root: {root}", {})
    yield found
    for child in found.children.values():
        if child.returncode is None:
            child.kill()
        await child.wait()


@asynccontextmanager
async def following(membership: ZooKeeperMembership) -> AsyncIterator[LeaderClient]:
    """How a daemon calls the leader."""
    async with AsyncExitStack() as stack:
        channels = Channels()
        stack.push_async_callback(channels.close)
        stack.callback(asyncio.create_task(channels.follow(membership)).cancel)
        yield LeaderClient(membership, channels, Role.RESMGR, ())


async def who_answers(client: LeaderClient) -> str:
    answer = await client.call(LOOKUP_POOL, LOOKUP, timeout=60)
    return str(answer.id.value)


@pytest.fixture
async def watching(make: Make) -> ZooKeeperMembership:
    membership = make()
    await membership.start()
    return membership


@dataclass(frozen=True)
class Pair:
    """Two that run: their names and addresses."""

    leader: str
    leads: Address
    follower: str
    follows: Address


async def pair(processes: Processes, watching: ZooKeeperMembership) -> Pair:
    await processes.start("a")
    await processes.start("b")
    members = watching.members
    await until(lambda: watching.leader(Role.RESMGR) is not None and len(members(Role.RESMGR)) == 2)
    by_name = {each.id[0]: each.address for each in members(Role.RESMGR).values()}
    leader, follower = sorted(by_name, key=lambda name: by_name[name] != watching.leader(Role.RESMGR))
    return Pair(leader, by_name[leader], follower, by_name[follower])


def get(address: Address, path: str) -> str:
    return httpx2.get(f"http://{address.ip}:{address.http}/{path}", timeout=60).text


async def test_a_killed_leader_is_followed(
    processes: Processes, watching: ZooKeeperMembership, zookeeper: ZooKeeperServer, root: str
) -> None:
    """By daemons and by clients, with their calls under way."""
    both = await pair(processes, watching)
    outside = PelotonClient("test", zk_servers=zookeeper.address, zk_root=root)

    async def lookup() -> str:
        answer = await asyncio.to_thread(outside.respool_svc.LookupResourcePoolID, LOOKUP)
        return str(answer.id.value)

    async with following(watching) as client:
        assert [await who_answers(client), await lookup()] == [both.leader] * 2
        processes.children[both.leader].kill()
        killed = time.monotonic()
        answers = await asyncio.gather(who_answers(client), lookup())
        took = time.monotonic() - killed
    await asyncio.to_thread(outside.close)
    assert list(answers) == [both.follower] * 2
    assert took < 3 * processes.session_seconds, f"{took:.1f} s"


async def test_a_leader_that_stops_hands_over_before_its_session_ends(
    processes: Processes, watching: ZooKeeperMembership
) -> None:
    processes.session_seconds = 10  # the longest that the servers grant
    both = await pair(processes, watching)
    told = await asyncio.to_thread(get, both.follows, "health")
    assert told == f"OK\nthis resmgr does not lead; the leader is at {both.leads.target}"
    assert await asyncio.to_thread(get, both.leads, "health") == "OK"
    async with following(watching) as client:
        assert await who_answers(client) == both.leader
        processes.children[both.leader].send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        while await who_answers(client) != both.follower:
            continue
        took = time.monotonic() - stopped
    assert took < processes.session_seconds - 1, f"{took:.2f} s"
    assert await processes.children[both.leader].wait() == 0


async def test_a_leader_frozen_past_its_session_does_nothing_more(
    processes: Processes, watching: ZooKeeperMembership
) -> None:
    """Nor does it answer for what it was asked while it was frozen."""
    processes.session_seconds = 2
    both = await pair(processes, watching)
    frozen = processes.children[both.leader]
    async with grpc.aio.insecure_channel(both.leads.target) as channel, following(watching) as client:
        stale = respool_pb2_grpc.ResourceManagerStub(channel)
        assert (await stale.LookupResourcePoolID(LOOKUP)).id.value == both.leader
        freeze(frozen.pid)
        assert await who_answers(client) == both.follower
        written = len(processes.terms())
        asked = stale.LookupResourcePoolID(LOOKUP, timeout=60)
        await asyncio.sleep(0.1)  # for its bytes to lie in the frozen one's socket
        frozen.send_signal(signal.SIGCONT)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asked
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    await until(lambda: len(processes.terms()) > written + 100)
    await until_told(both.leads, f"the leader is at {both.follows.target}")
    terms = processes.terms()
    assert terms == sorted(terms)
    assert "leadership of term 1 is lost" in processes.log(both.leader)
    assert frozen.returncode is None


async def test_a_leader_that_is_busy_for_longer_than_its_lease_still_leads(
    processes: Processes, watching: ZooKeeperMembership
) -> None:
    """A step of work takes seconds on a starved machine: another leader would begin it anew."""
    processes.session_seconds = 5
    both = await pair(processes, watching)
    draft = processes.folder / "draft"
    draft.write_text("12")
    draft.rename(processes.stick)
    await until(lambda: not processes.stick.exists())
    before = len(processes.terms())
    await until(lambda: len(processes.terms()) > before + 10)
    assert set(processes.terms()) == {1}
    assert watching.leader(Role.RESMGR) == both.leads
    assert "leadership of term 1 is lost" not in processes.log(both.leader)


async def test_a_leader_whose_loop_is_stuck_gives_its_place_up(
    processes: Processes, watching: ZooKeeperMembership
) -> None:
    """Its thread keeps the session and would keep the lease; what the loop does at last is refused."""
    processes.session_seconds, processes.stuck_seconds = 2, 3
    both = await pair(processes, watching)
    draft = processes.folder / "draft"
    draft.write_text("20")
    draft.rename(processes.stick)
    await until(lambda: not processes.stick.exists())
    stuck = time.monotonic()
    async with following(watching) as client:
        assert await who_answers(client) == both.follower
    took = time.monotonic() - stuck
    assert took < 15, f"{took:.1f} s: it waited for the end of the step"
    await until(lambda: "leadership of term 1 is lost" in processes.log(both.leader))
    await until_told(both.leads, f"the leader is at {both.follows.target}")
    terms = processes.terms()
    # Further ones where the machine stands still for longer than a session.
    assert terms == sorted(terms) and set(terms) >= {1, 2}
    assert "term 1 is over: the event loop did nothing for" in processes.log(both.leader)
    assert processes.children[both.leader].returncode is None


async def test_daemons_outlive_zookeeper_and_wait_for_it(
    processes: Processes, watching: ZooKeeperMembership, zookeeper: ZooKeeperServer
) -> None:
    """One that starts meanwhile says what it waits for."""
    processes.session_seconds = 2
    both = await pair(processes, watching)
    processes.children[both.follower].terminate()
    await asyncio.to_thread(zookeeper.stop)
    try:
        await until_told(both.leads, "has not answered for")
        assert await processes.children[both.follower].wait() == 0
        await processes.start(both.follower)
        await until(lambda: "leadership of term 1 is lost" in processes.log(both.leader))
        await until(lambda: "has not answered for" in processes.log(both.follower))
        assert f"ZooKeeper {zookeeper.address} has" in processes.log(both.follower)
        assert "trying again" in processes.log(both.follower)
    finally:
        await asyncio.to_thread(zookeeper.start)
    async with following(watching) as client:
        assert await who_answers(client) in ("a", "b")
    await until(lambda: len(watching.members(Role.RESMGR)) == 2)
    assert all(child.returncode is None for child in processes.children.values())
    terms = processes.terms()
    assert terms == sorted(terms)


async def until_told(address: Address, text: str) -> None:
    """By /health."""
    async with asyncio.timeout(60):
        while text not in await asyncio.to_thread(get, address, "health"):  # noqa: ASYNC110 - it only answers
            await asyncio.sleep(0.05)
