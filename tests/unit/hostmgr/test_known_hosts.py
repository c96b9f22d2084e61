"""Which hosts are lost, since when, and what ran there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hostmgr.core.agents.known_hosts import (
    ABSENT_NANOSECONDS,
    MOST_TASKS,
    NANOSECONDS,
    RECENT_NANOSECONDS,
    KnownHosts,
    Sight,
    sighted,
)
from hostmgr.core.state.columns import Agent
from hostmgr.drivers.known_hosts import KnownHostKeeper
from hostmgr.services.hosts import HostService
from hostmgr.services.registry import HostRegistry
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.errors import Conflict, InvalidArgument, NotFound, Refused
from peloton.model.known_host import KnownHost, LossReason
from peloton.private.hostmgr.registry import registry_pb2
from tests.interpreted import interpreted
from tests.unit.hostmgr.answers import parsed
from tests.unit.hostmgr.test_maintenance import NOTHING, World

pytestmark = interpreted

KEEP = 1000.0
HOST0, HOST1 = (
    Agent("S0", "host0", (("rack", "r"),), ip="10.0.0.0"),
    Agent("S1", "host1", (("rack", "r"),), ip="10.0.0.1"),
)


class Cluster:
    """The core with what the master shows it."""

    def __init__(self) -> None:
        self.known, self.now = KnownHosts(KEEP), 1000 * NANOSECONDS
        self.runs: dict[str, list[str]] = {}

    def sees(self, *agents: Agent, seconds: float = 1.0, complete: bool = True, **more: Any) -> list[str]:
        """Return the names of the lost hosts after the master has shown these agents."""
        self.now += int(seconds * NANOSECONDS)
        disconnected = frozenset(more.pop("disconnected", ()))
        sight = Sight(sighted(agents), disconnected, complete, self.now, **more)
        self.known.apply(self.known.plan(sight, lambda agent_id: self.runs.get(agent_id, ())))
        assert not self.known.plan(sight, lambda agent_id: ()), "the same again changes nothing"
        return [host.hostname for host in self.known.lost()]

    def lost(self, name: str) -> KnownHost:
        found = self.known.get(name)
        assert found is not None and found.lost
        return found


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    assert made.sees(HOST0, HOST1) == []
    return made


def test_a_host_whose_agent_is_gone_is_lost_until_it_is_back(cluster: Cluster) -> None:
    cluster.runs["S1"] = ["job-2-1", "job-0-1"]
    assert cluster.sees(HOST0) == ["host1"]
    expected = KnownHost(
        "host1", "10.0.0.1", HOST1.labels, ("S1",), cluster.now, LossReason.REMOVED, ("job-0-1", "job-2-1"), 2
    )
    assert cluster.lost("host1") == expected
    cluster.runs.clear()
    assert cluster.sees(HOST0) == ["host1"] and cluster.lost("host1") == expected, "remembered as it was"
    assert cluster.sees(HOST0, HOST1) == []
    assert cluster.known.get("host1") == KnownHost("host1", "10.0.0.1", HOST1.labels, ("S1",))


def test_runs_that_mesos_reported_before_the_loss_of_their_agent_count(cluster: Cluster) -> None:
    cluster.known.note_ended("old-0-1", "S1", cluster.now)
    cluster.now += RECENT_NANOSECONDS
    for run, agent_id in (("j-1-1", "S1"), ("j-2-1", "S0"), ("j-0-1", "S1"), ("j-0-1", "S1")):
        cluster.known.note_ended(run, agent_id, cluster.now)
    cluster.runs["S1"] = ["j-3-1", "j-1-1"]
    cluster.sees(HOST0)
    assert cluster.lost("host1").tasks == ("j-0-1", "j-1-1", "j-3-1")


def test_of_many_runs_the_first_are_named(cluster: Cluster) -> None:
    cluster.runs["S1"] = [f"j-{number}-1" for number in range(MOST_TASKS + 20)]
    cluster.sees(HOST0)
    lost = cluster.lost("host1")
    assert (len(lost.tasks), lost.task_count) == (MOST_TASKS, MOST_TASKS + 20)


def test_a_disconnected_agent_is_lost_with_that_reason(cluster: Cluster) -> None:
    assert cluster.sees(HOST0, disconnected=["host1"]) == ["host1"]
    since = cluster.lost("host1").lost_since
    assert cluster.lost("host1").reason is LossReason.DISCONNECTED
    assert cluster.sees(HOST0) == ["host1"]
    assert (cluster.lost("host1").reason, cluster.lost("host1").lost_since) == (LossReason.REMOVED, since)


def test_agents_have_time_to_register_with_a_new_master(cluster: Cluster) -> None:
    assert cluster.sees(complete=False) == []
    assert cluster.sees(HOST0, complete=False, seconds=ABSENT_NANOSECONDS / NANOSECONDS - 1) == []
    assert cluster.sees(HOST0, complete=False) == ["host1"]
    assert cluster.lost("host1").reason is LossReason.ABSENT
    assert cluster.sees(HOST1, complete=False) == [], "host0 was there a moment ago"


def test_an_agent_that_mesos_has_given_up_is_lost_at_once(cluster: Cluster) -> None:
    assert cluster.sees(HOST0, complete=False, gone=frozenset({"S1"})) == ["host1"]
    assert cluster.lost("host1").reason is LossReason.REMOVED


def test_a_host_in_maintenance_is_not_lost_before_it_is_completed(cluster: Cluster) -> None:
    assert cluster.sees(HOST0, in_maintenance=frozenset({"host1"})) == []
    assert cluster.sees(HOST0, returning=frozenset({"host1"}), complete=False) == ["host1"]
    assert cluster.lost("host1").reason is LossReason.NOT_BACK
    assert cluster.sees(HOST0) == ["host1"] and cluster.lost("host1").reason is LossReason.NOT_BACK


def test_a_lost_host_is_forgotten_after_the_set_time(cluster: Cluster) -> None:
    cluster.sees(HOST0)
    assert cluster.sees(HOST0, seconds=KEEP - 1) == ["host1"]
    assert cluster.sees(HOST0) == [] and cluster.known.get("host1") is None
    assert cluster.known.get("host0") is not None


class KnownStore:
    """The stored hosts."""

    def __init__(self) -> None:
        self.rows: dict[str, KnownHost] = {}
        self.writes = 0

    async def write(self, framework: str, hosts: Sequence[KnownHost], forgotten: Sequence[str] = ()) -> None:
        self.writes += 1
        self.rows.update({host.hostname: host for host in hosts})
        for name in forgotten:
            self.rows.pop(name, None)

    async def all(self, framework: str) -> Sequence[KnownHost]:
        return tuple(self.rows.values())


class Watched(World):
    """A term of hostmgr that follows which hosts there are."""

    def __init__(self) -> None:
        super().__init__()
        self.known_store = KnownStore()

    async def restart(self) -> None:
        await super().restart()
        self.keeper = KnownHostKeeper(
            "f", self.known_store, KnownHosts(KEEP), self.cluster, self.maintenance, self.runs, self.clock
        )
        await self.keeper.load()
        self.service = HostService(self.cluster, self.maintenance, self.pools, NOTHING, self.keeper)
        self.registry = HostRegistry(self.keeper, self.pools, NOTHING, NOTHING, "")
        await self.keeper.look()

    async def lose(self, number: int) -> None:
        self.cluster.agents = self.agents = {
            name: agent for name, agent in self.agents.items() if name != f"S{number}"
        }
        self.hosts.set_agents(self.agents.values())
        await self.keeper.look()

    async def lost(self) -> dict[str, host_pb2.HostInfo]:
        request = host_svc_pb2.QueryHostsRequest(include_lost=True)
        answer = parsed(host_svc_pb2.QueryHostsResponse, await self.service.QueryHosts(request, NOTHING))
        return {info.hostname: info for info in answer.host_infos if info.HasField("lost")}

    async def forget(self, *names: str) -> None:
        await self.registry.ForgetHosts(registry_pb2.ForgetHostsRequest(hostnames=names), NOTHING)


@pytest.fixture
async def watched() -> Watched:
    made = Watched()
    await made.restart()
    return made


async def test_a_lost_host_is_listed_for_those_who_ask_and_remembered_by_the_next_leader(
    watched: Watched,
) -> None:
    watched.runs.put("j-0-1", "S1")
    await watched.lose(1)
    for _ in range(2):
        assert await watched.query() == {"host0": "UP UP", "host2": "UP UP"}, "for clients of before"
        (lost,) = (await watched.lost()).values()
        assert (lost.hostname, lost.ip, lost.state) == ("host1", "10.0.0.1", host_pb2.HOST_STATE_UNKNOWN)
        assert (list(lost.lost.tasks), lost.lost.task_count) == (["j-0-1"], 1)
        assert lost.lost.reason == "Mesos has given up its agent" and lost.lost.since
        await watched.restart()
    with pytest.raises(Conflict, match=r"host host1 is LOST since .*given up its agent; .*host forget"):
        await watched.maintenance.start(["host1"])


async def test_a_lost_host_is_forgotten_on_request(watched: Watched) -> None:
    await watched.lose(1)
    with pytest.raises(Refused, match="host host0 is not lost"):
        await watched.forget("host1", "host0")
    with pytest.raises(NotFound, match="host other is unknown"):
        await watched.forget("other")
    with pytest.raises(InvalidArgument, match="hostnames"):
        await watched.forget()
    assert set(await watched.lost()) == {"host1"}
    await watched.forget("host1", "host1")
    assert not await watched.lost() and set(watched.known_store.rows) == {"host0", "host2"}


async def test_a_host_whose_agent_is_not_back_after_maintenance_is_lost(watched: Watched) -> None:
    await watched.maintenance.start(["host0"])
    await watched.maintenance.mark_drained("host0")
    await watched.step()
    await watched.lose(0)
    assert not await watched.lost()
    await watched.maintenance.complete(["host0"])
    (lost,) = (await watched.lost()).values()
    assert lost.hostname == "host0" and "maintenance was completed" in lost.lost.reason
    await watched.keeper.look()
    assert watched.known_store.rows["host0"].lost
    with pytest.raises(NotFound, match=r"host host0 is .*no maintenance to complete"):
        await watched.maintenance.complete(["host0"])


async def test_nothing_is_written_while_nothing_changes(watched: Watched) -> None:
    writes = watched.known_store.writes
    for _ in range(5):
        watched.clock.advance(60.0)
        await watched.keeper.look()
    assert watched.known_store.writes == writes
