"""What a host manager tells is wrong with its hosts."""

from __future__ import annotations

import pytest

from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.claims.holds import HELD_SECONDS
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.services.problems import (
    AWAY_SECONDS,
    CLAIMED_SECONDS,
    DRAINING_SECONDS,
    HostProblems,
)
from hostmgr.services.problems import HELD_SECONDS as OLD_SECONDS
from peloton.clock import NANOSECONDS, ManualClock
from peloton.model.host import HostInfo
from peloton.model.states import HostState
from tests.unit.hostmgr.hosts import cluster, ids
from tests.unit.hostmgr.test_manager import JOB


async def test_a_hold_that_is_renewed_for_long_is_told_by_when_it_was_made() -> None:
    hosts, clock = cluster(2), ManualClock()
    problems = HostProblems(hosts, Records(), clock)
    hosts.holds.add("host0", f"{JOB}-3", clock.now)
    while clock.now <= OLD_SECONDS:
        assert await problems.now() == []
        clock.now += HELD_SECONDS / 2
        assert hosts.holds.renew("host0", f"{JOB}-3", clock.now, None)
    hosts.holds.add("host1", f"{JOB}-4", clock.now)
    [told] = await problems.now()
    assert told.text == f"Room of host0 has been held for {JOB}-3 for 31 min 30 s"
    assert told.link == "/hosts/host0" and f"`peloton task why {JOB} 3`" in told.remedy
    hosts.holds.add("host0", f"{JOB}-3", clock.now)
    assert await problems.now() == [], "it is another hold"


async def test_a_claim_without_a_launch_is_told() -> None:
    hosts, clock = cluster(8), ManualClock()
    problems = HostProblems(hosts, Records(), clock)
    hosts.claims.acquire(HostFilter(max_hosts=7), ids(), clock.now, owner="placement/one")
    clock.now += CLAIMED_SECONDS
    assert await problems.now() == []
    clock.now += 1.0
    *first, last = await problems.now()
    assert [each.text for each in first] == [
        f"host{number} has been claimed by placement/one for 2 min 1 s without a launch"
        for number in range(5)
    ]
    assert last.text == "2 further claims as old"


@pytest.mark.parametrize(
    ("state", "seconds", "level"),
    [
        (HostState.DRAINING, DRAINING_SECONDS, "warn"),
        (HostState.DRAINED, AWAY_SECONDS, "note"),
        (HostState.DOWN, AWAY_SECONDS, "note"),
    ],
)
async def test_a_host_that_is_away_for_long_is_told(state: HostState, seconds: float, level: str) -> None:
    clock, records = ManualClock(), Records()
    records.load(
        [
            HostInfo("a", "", state, HostState.DOWN, since=clock.wall(), begun_by="ann"),
            HostInfo("b", "", state, HostState.DOWN),
            HostInfo("c", "", HostState.UP, HostState.UP, since=clock.wall()),
        ]
    )
    problems = HostProblems(cluster(1), records, clock)
    clock.epoch += int(seconds) * NANOSECONDS
    assert await problems.now() == []
    clock.epoch += 3600 * NANOSECONDS
    [told] = await problems.now()
    assert told.level == level and told.text.startswith(f"a has been {state.name} for ")
    assert told.text.endswith(", begun by ann")
