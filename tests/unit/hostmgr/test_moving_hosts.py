"""Which hosts that are being moved may be drained now."""

from __future__ import annotations

import pytest

from hostmgr.core.agents.maintained_hosts import draining
from hostmgr.core.pools.moves import MoveRequest, Step
from hostmgr.core.pools.moving_hosts import SCORE_SECONDS, MovingHosts
from hostmgr.core.state.host_pools import HostPools
from peloton.errors import Refused
from peloton.model.host_pool import PooledHost, StoredHostPools
from tests.interpreted import interpreted
from tests.unit.hostmgr.sight import Maintained

pytestmark = interpreted

MOVING = [PooledHost("host0", "a", "b"), PooledHost("host1", "a", "b")]


@pytest.fixture
def world() -> Maintained:
    return Maintained(3)


@pytest.fixture
def it(world: Maintained) -> MovingHosts:
    return MovingHosts(world.hosts, world.sight)


def score(it: MovingHosts, *by_cost: str) -> None:
    it.scored(it.score(it.runs_on(["host0", "host1"]), by_cost))


def test_a_host_is_drained_once_it_has_a_score(it: MovingHosts) -> None:
    assert it.begin(MOVING, 0.0) == {"host0", "host1"}
    score(it, "host2", "host1")
    with pytest.raises(Refused, match="a task there is not preemptible, or has just been launched"):
        it.next(MOVING[0])
    assert it.next(MOVING[1]) is Step.DRAIN


def test_scores_are_asked_for_now_and_then(it: MovingHosts) -> None:
    assert it.begin(MOVING, 0.0)
    assert not it.begin(MOVING, SCORE_SECONDS - 1)
    assert it.begin(MOVING, SCORE_SECONDS)
    assert not it.begin([], 1e6), "nothing is to be drained"


def test_no_host_is_drained_while_its_tasks_are_not_known(it: MovingHosts) -> None:
    it.begin(MOVING, 0.0)
    score(it, "host0")
    it.not_scored("resmgr is away")
    with pytest.raises(Refused, match="its tasks are not known: resmgr is away"):
        it.next(MOVING[0])


def test_a_launch_after_the_score_keeps_the_host(world: Maintained, it: MovingHosts) -> None:
    it.begin(MOVING, 0.0)
    score(it, "host0", "host1")
    world.term.runs.put("new", "S0")
    with pytest.raises(Refused):
        it.next(MOVING[0])
    assert it.next(MOVING[1]) is Step.DRAIN


def test_a_host_without_an_agent_needs_no_score(world: Maintained, it: MovingHosts) -> None:
    """Its maintenance is refused with a reason of its own."""
    world.register(1)
    assert it.begin(MOVING, 0.0) == {"host1"}
    assert it.next(MOVING[0]) is Step.DRAIN


def test_the_next_steps_follow_the_record(world: Maintained, it: MovingHosts) -> None:
    agent = world.sight.agents["S0"]
    world.records.apply(world.records.plan("host0", lambda record: draining(record, agent, "", 1)))
    assert it.begin(MOVING, 0.0) == {"host1"}
    assert it.next(MOVING[0]) is Step.WAIT
    assert it.next(PooledHost("host2", "b", "b")) is Step.FINISH


def test_hosts_are_chosen_by_cost_without_those_that_got_tasks_meanwhile(
    world: Maintained, it: MovingHosts
) -> None:
    pools = HostPools(StoredHostPools(("a", "b"), tuple(PooledHost(f"host{n}", "a") for n in range(3))))
    known = [f"host{n}" for n in range(3)]
    scored = it.score(it.runs_on(known), ["host2", "host1", "host0"])
    world.term.runs.put("new", "S2")
    assert it.choose(MoveRequest("a", 2, "b", 1), pools, known, scored) == ["host1"]
    with pytest.raises(Refused, match="3 hosts would have to move from a to b, but 2 of 3 can"):
        it.choose(MoveRequest("a", 0, "b", 3), pools, known, scored)
