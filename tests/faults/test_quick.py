"""Every fault once, with shortened outages, several in one round, on ZooKeeper and Cassandra."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import lacking
from tests.faults.faults import FAULTS, InTurn
from tests.faults.rounds import play
from tests.faults.world import Setup, World
from tests.servers.maven import Missing

SEED = 1
SECONDS = 4.0
"""Of the workload, for each fault."""
ROUNDS = {
    "kills": ("kill-jobmgr", "kill-resmgr", "kill-hostmgr", "kill-placement"),
    "stops": ("stop-jobmgr", "stop-resmgr", "stop-hostmgr"),
    "freezes": ("freeze-jobmgr", "freeze-resmgr", "freeze-hostmgr"),
    "mesos": ("kill-mesos-master", "mesos-cut", "updates-mangled"),
    "agents": ("agent-restarts", "agent-gone", "agent-back"),
    "zookeeper": ("sessions-expired", "zookeeper-down"),
    "cassandra": ("cassandra-slow", "cassandra-unknown", "cassandra-down"),
}


def test_no_fault_is_left_out() -> None:
    assert sorted(name for names in ROUNDS.values() for name in names) == sorted(FAULTS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One cluster for all faults: a fault heals what it did."""
    made = World(tmp_path_factory.mktemp("faults"), Setup(True, True, session_seconds=3.0), SEED)
    try:
        made.up()
    except Missing as missing:
        lacking(missing)
    yield made
    made.down()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ROUNDS)
def test_nothing_is_lost_and_nothing_runs_twice(world: World, name: str) -> None:
    fault = InTurn([FAULTS[each] for each in ROUNDS[name]])
    result = play(world, name, fault, SEED, quick=True, seconds=SECONDS * len(fault.faults))
    print(result)
    assert not result.violations, "\n".join(result.violations)
