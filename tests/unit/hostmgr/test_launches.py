"""How many launches a host has at a time, and when it is passed over."""

from __future__ import annotations

from typing import Any

import pytest

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.runs.launches import Launches, LaunchLimits
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.internal import InternalHosts
from peloton.model.states import TaskState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from placement.core.model import HostClass
from placement.wire import host_from
from tests.unit.hostmgr.hosts import agent, ids, offer

S = TaskState
JOB, OTHER_JOB = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
TIMED_OUT = "EXECUTOR_REGISTRATION_TIMEOUT"
ANY = HostFilter()


class World:
    """Hosts S0 and S1 of one offer each, that take two launches at a time."""

    def __init__(self) -> None:
        table = HostTable(concurrent_launches=2)
        self.hosts = Hosts(table)
        self.launches = Launches(
            table, LaunchLimits(concurrent=2, failures=3, first_pause=30, longest_pause=50)
        )
        self.now = 100.0
        for host in range(2):
            self.hosts.set_agents([agent(host)], complete=False)
            self.hosts.add_offer(offer(host, host), 0.0)

    def begin(self, *instances: int, agent_id: str = "S0") -> None:
        for instance in instances:
            self.launches.begin(f"{JOB}-{instance}-1", agent_id)

    def observe(
        self, instance: int, state: TaskState, reason: str = "", agent_id: str = "S0", job: str = JOB
    ) -> None:
        self.launches.observe(f"{job}-{instance}-1", agent_id, state, reason, self.now)

    def fail(self, *instances: int, agent_id: str = "S0", job: str = JOB) -> None:
        for instance in instances:
            self.observe(instance, S.FAILED, TIMED_OUT, agent_id, job)

    def counts(self) -> dict[Result, int]:
        """What is found about the hosts; none stays claimed."""
        acquired = self.hosts.claims.acquire(ANY, ids(), self.now)
        for claim in acquired.claims:
            self.hosts.claims.release(claim.id)
        return dict(acquired.counts)


def test_a_host_takes_so_many_launches_at_a_time() -> None:
    world = World()
    world.begin(0, 1, 1)
    assert world.counts() == {Result.MATCH: 1, Result.TOO_MANY_STARTING: 1}
    assert (world.launches.room("S0"), world.launches.room("S1")) == (0, 2)
    world.observe(0, S.LAUNCHED)
    world.observe(0, S.STARTING)
    assert world.launches.room("S0") == 0, "they are the same two"
    world.observe(0, S.RUNNING)
    assert (world.counts(), world.launches.room("S0")) == ({Result.MATCH: 2}, 1)
    world.observe(0, S.SUCCEEDED)
    world.observe(1, S.KILLED)
    assert world.launches.room("S0") == 2


@pytest.mark.parametrize("end", [S.RUNNING, S.KILLING, S.SUCCEEDED, S.FAILED, S.KILLED, S.LOST])
def test_any_further_status_ends_a_launch(end: TaskState) -> None:
    world = World()
    world.begin(0)
    world.observe(0, end)
    world.observe(0, end)
    assert world.launches.room("S0") == 2


def test_what_starts_is_known_again_from_its_statuses_and_through_the_loss_of_its_agent() -> None:
    world = World()
    world.observe(0, S.STARTING)
    world.observe(1, S.LAUNCHED)
    assert world.launches.room("S0") == 0
    world.hosts.remove_agent("S0")
    world.hosts.add_offer(offer(7, 0), 0.0)
    assert world.counts() == {Result.MATCH: 1, Result.TOO_MANY_STARTING: 1}
    world.hosts.remove_agent("S0")
    world.observe(0, S.LOST)
    world.observe(1, S.LOST)
    world.hosts.add_offer(offer(8, 0), 0.0)
    assert world.counts() == {Result.MATCH: 2}


def test_a_host_that_fails_launches_is_passed_over_for_longer_and_longer() -> None:
    world = World()
    world.fail(0, 1)
    assert world.counts() == {Result.MATCH: 2}
    world.fail(2, 3, 4)
    assert world.counts() == {Result.MATCH: 1, Result.FAILED_LAUNCHES: 1}
    world.now += 29
    assert world.launches.expire(world.now) == []
    world.now += 1
    assert world.launches.expire(world.now) == ["S0"]
    assert world.counts() == {Result.MATCH: 2}
    world.fail(5)
    assert world.counts() == {Result.MATCH: 1, Result.FAILED_LAUNCHES: 1}, "one is enough now"
    world.now += 49
    assert world.launches.expire(world.now) == []
    world.now += 1
    assert world.launches.expire(world.now) == ["S0"], "doubled, up to 50 s"


def test_a_start_makes_up_for_what_failed() -> None:
    world = World()
    world.fail(0, 1)
    world.observe(9, S.RUNNING)
    world.fail(2, 3)
    assert world.counts() == {Result.MATCH: 2}
    world.fail(4)
    assert Result.FAILED_LAUNCHES in world.counts()
    world.observe(8, S.RUNNING)
    assert world.counts() == {Result.MATCH: 2}, "it works again"
    assert world.launches.expire(world.now + 1000) == []


def test_other_failures_are_not_the_hosts() -> None:
    world = World()
    for instance in range(5):
        world.observe(instance, S.FAILED, "COMMAND_EXECUTOR_FAILED")
        world.observe(instance, S.LOST, "RECONCILIATION")
    assert world.counts() == {Result.MATCH: 2}


def test_a_job_that_fails_everywhere_costs_no_host() -> None:
    """Its image does not exist, say: then each host fails to launch it."""
    world = World()
    for instance in range(10):
        world.fail(2 * instance, agent_id="S0")
        world.fail(2 * instance + 1, agent_id="S1")
    assert world.counts() == {Result.MATCH: 2}
    world.observe(99, S.RUNNING, agent_id="S1", job=OTHER_JOB)
    world.fail(50, 51, 52, 53)
    assert world.counts() == {Result.MATCH: 2}, "a start of another job does not count"
    world.observe(98, S.RUNNING, agent_id="S1")
    world.fail(60, 61, 62)
    assert world.counts() == {Result.MATCH: 1, Result.FAILED_LAUNCHES: 1}, "it starts elsewhere"


async def test_an_offer_contains_how_many_more_launches_a_host_takes() -> None:
    world = World()

    class Manager:
        hosts, launches = world.hosts, world.launches

        def acquire(self, want: HostFilter, owner: str) -> Any:
            return world.hosts.claims.acquire(want, ids(), world.now, owner)

    class Context:
        def invocation_metadata(self) -> tuple[()]:
            return ()

    manager: Any = Manager()
    nothing: Any = None
    held: HostManager = manager
    sight: ClusterSight = nothing
    reconciliation: Reconciliation = nothing
    world.begin(0)
    answer = await InternalHosts(held, sight, reconciliation, nothing, nothing).AcquireHostOffers(
        pb.AcquireHostOffersRequest(), Context()
    )
    assert isinstance(answer, bytes)
    offers = pb.AcquireHostOffersResponse.FromString(answer).hostOffers
    hosts = [host_from(wire, HostClass()) for wire in offers]
    assert {host.hostname: host.launches for host in hosts} == {"host0": 1, "host1": 2}
