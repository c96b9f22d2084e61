"""The claim on a host and the life of a host as two tables of moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hostmgr.core.filter import HostFilter, Result
from hostmgr.core.states import CLAIM, LIFE, ClaimCause, ClaimState, LifeCause
from hostmgr.services.query import HostQueries
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc.host_svc_pb2 import QueryHostsRequest
from peloton.errors import IllegalTransition
from peloton.model.states import HostState
from tests.unit.hostmgr.hosts import agent, cluster, ids

ROUND = (
    LifeCause.START_MAINTENANCE,
    LifeCause.LAST_TASK_ENDED,
    LifeCause.TAKE_DOWN,
    LifeCause.COMPLETE_MAINTENANCE,
)

WAYS = {
    ClaimState.PLACING: ClaimCause.ACQUIRE,
    ClaimState.RESERVED: ClaimCause.RESERVE,
    ClaimState.HELD: ClaimCause.HOLD,
}
"""From READY."""


@pytest.mark.parametrize("state", ClaimState)
@pytest.mark.parametrize("cause", ClaimCause)
def test_every_move_of_a_claim_is_in_the_table(state: ClaimState, cause: ClaimCause) -> None:
    table = cluster(1).table
    if state is not ClaimState.READY:
        table.change_claim(0, WAYS[state])
    if CLAIM.allows(state, cause):
        table.change_claim(0, cause)
        assert table.claim(0) is CLAIM.table[state, cause]
    else:
        with pytest.raises(IllegalTransition, match=f"claim on host host0: no {cause.name} in {state.name}"):
            table.change_claim(0, cause)
        assert table.claim(0) is state


@pytest.mark.parametrize("moves", range(len(ROUND)))
@pytest.mark.parametrize("cause", LifeCause)
def test_every_move_of_a_life_is_in_the_table(moves: int, cause: LifeCause) -> None:
    table = cluster(1).table
    for each in ROUND[:moves]:
        table.change_life(0, each)
    state = table.life(0)
    if LIFE.allows(state, cause):
        table.change_life(0, cause)
        assert table.life(0) is LIFE.table[state, cause]
    else:
        with pytest.raises(IllegalTransition, match=f"host host0: no {cause.name} in {state.name}"):
            table.change_life(0, cause)


def test_only_a_host_that_is_up_takes_tasks() -> None:
    hosts = cluster(1)
    for cause in ROUND:
        assert hosts.table.life(0) is not HostState.UNKNOWN
        taken = hosts.acquire(HostFilter(), ids(), 0.0)
        up = hosts.table.life(0) is HostState.UP
        assert (len(taken.claims), taken.counts.get(Result.MISMATCH_STATUS, 0)) == (int(up), int(not up))
        for claim in taken.claims:
            hosts.release(claim.id)
        hosts.table.change_life(0, cause)
    assert hosts.acquire(HostFilter(), ids(), 0.0).claims


def test_a_host_that_comes_back_is_up_and_unclaimed() -> None:
    hosts = cluster(1)
    table = hosts.table
    (claim,) = hosts.acquire(HostFilter(), ids(), 0.0).claims
    table.change_life(0, LifeCause.START_MAINTENANCE)
    hosts.remove_agent(claim.agent_id)
    again = cluster(1).offers()[0]
    hosts.add_offer(again, 1.0)
    assert (table.life(0), table.claim(0)) == (HostState.UP, ClaimState.READY)


async def test_hosts_are_listed_with_their_states() -> None:
    hosts = cluster(3)
    nothing: Any = None
    agents: Any = SimpleNamespace(agents={})
    for number in range(3):
        agents.agents[f"S{number}"] = agent(number)
    hosts.table.change_life(1, LifeCause.START_MAINTENANCE)
    hosts.remove_agent("S2")
    queries = HostQueries(agents, hosts)

    async def query(*states: host_pb2.HostState.ValueType) -> list[tuple[str, int, int]]:
        answer = await queries.QueryHosts(QueryHostsRequest(host_states=states), nothing)
        return [(each.hostname, each.state, each.goal_state) for each in answer.host_infos]

    up, draining = host_pb2.HOST_STATE_UP, host_pb2.HOST_STATE_DRAINING
    assert await query() == [
        ("host0", up, up),
        ("host1", draining, host_pb2.HOST_STATE_DOWN),
        ("host2", up, up),
    ], "the map of agents still lists the third"
    assert await query(draining) == [("host1", draining, host_pb2.HOST_STATE_DOWN)]
    assert await query(host_pb2.HOST_STATE_DRAINED) == []
