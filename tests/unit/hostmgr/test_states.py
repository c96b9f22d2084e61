"""The claim on a host and the life of a host as two tables of moves."""

from __future__ import annotations

import pytest

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.core.state.states import CLAIM, LIFE, ClaimCause, ClaimState, LifeCause
from hostmgr.core.state.table import HostTable
from peloton.errors import IllegalTransition
from peloton.model.states import HostState
from tests.unit.hostmgr.hosts import cluster, ids, need

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


def change_life(table: HostTable, hostname: str, cause: LifeCause) -> None:
    table.set_life(hostname, LIFE.next(table.life_of(hostname), cause, hostname))


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
    state = HostState.UP
    for each in ROUND[:moves]:
        state = LIFE.next(state, each, "host0")
    if LIFE.allows(state, cause):
        assert LIFE.next(state, cause, "host0") is LIFE.table[state, cause]
    else:
        with pytest.raises(IllegalTransition, match=f"host host0: no {cause.name} in {state.name}"):
            LIFE.next(state, cause, "host0")


def test_only_a_host_that_is_up_takes_tasks() -> None:
    hosts = cluster(1)
    for cause in ROUND:
        assert hosts.table.life(0) is not HostState.UNKNOWN
        taken = hosts.claims.acquire(HostFilter(), ids(), 0.0)
        up = hosts.table.life(0) is HostState.UP
        assert (len(taken.claims), taken.counts.get(Result.MISMATCH_STATUS, 0)) == (int(up), int(not up))
        for claim in taken.claims:
            hosts.claims.release(claim.id)
        change_life(hosts.table, "host0", cause)
    assert hosts.claims.acquire(HostFilter(), ids(), 0.0).claims


def test_maintenance_outlasts_the_agent() -> None:
    hosts = cluster(1)
    table = hosts.table
    (claim,) = hosts.claims.acquire(HostFilter(), ids(), 0.0).claims
    change_life(table, "host0", LifeCause.START_MAINTENANCE)
    hosts.remove_agent(claim.agent_id)
    assert table.life_of("host0") is HostState.DRAINING
    hosts.add_offer(next(iter(cluster(1).offers)), 1.0)
    assert (table.life(0), table.claim(0)) == (HostState.DRAINING, ClaimState.READY)
    for cause in ROUND[1:]:
        change_life(table, "host0", cause)
    assert (table.life(0), table.life_of("host0")) == (HostState.UP, HostState.UP)
    assert table.life_of("host1") is HostState.UNKNOWN


def test_the_claims_on_a_host_end_together() -> None:
    hosts = cluster(2)
    claims = {claim.hostname: claim for claim in hosts.claims.acquire(HostFilter(), ids(), 0.0).claims}
    assert hosts.claims.end_on(["host0"]) == [claims["host0"]]
    assert hosts.claims.get(claims["host0"].id) is None and hosts.claims.get(claims["host1"].id)
    with pytest.raises(InvalidOffers):
        hosts.uses.plan_launch(claims["host0"].id, "host0", "", [need("t")])
