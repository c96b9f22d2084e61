"""Every fault once, with shortened outages, several in one round, on ZooKeeper and Cassandra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import lacking
from tests.faults.faults import (
    AT_STATES,
    FAULTS,
    IN_DAEMON_GROWTH,
    IN_MAINTENANCE,
    IN_SERVICES,
    IN_WORKFLOWS,
    OF_OWNERS,
    InTurn,
)
from tests.faults.rounds import play
from tests.faults.testbed import Setup, Testbed
from tests.servers.maven import Missing

SEED = 1
SECONDS = 4.0
"""Of the workload, for each fault."""
LAUNCH_SECONDS = "0.1-1"
ROUNDS = {
    "kills": ("kill-jobmgr", "kill-resmgr", "kill-hostmgr", "kill-placement"),
    "cuts": ("cut-create", "cut-launch", "cut-kill"),
    "states": ("kill-jobmgr-at-launched", "stop-jobmgr-at-launched"),
    "stops": ("stop-jobmgr", "stop-resmgr", "stop-hostmgr"),
    "freezes": ("freeze-jobmgr", "freeze-resmgr", "freeze-hostmgr"),
    "mesos": ("kill-mesos-master", "mesos-cut", "updates-mangled"),
    "agents": ("agent-restarts", "agent-restarts-launching", "agent-gone-launching", "agent-back"),
    "workflows": ("kill-jobmgr-in-update",),
    "daemons": ("kill-jobmgr-in-daemon-growth",),
    "services": ("kill-hostmgr-in-services", "kill-jobmgr-in-services"),
    "maintenance": ("kill-hostmgr-in-maintenance",),
    "zookeeper": ("sessions-expired", "zookeeper-down"),
    "cassandra": ("cassandra-slow", "cassandra-unknown", "cassandra-down"),
}
FIRST = ("kills", "services")
"""The rounds of `make test`."""
FAILOVER = "mesos-failover"
OWNERS = ("kill-owner", "freeze-owner", "leave-owner", "cut-off-owner", "join-owner")
SHARING = 3
SIMULATED = 50


def test_no_fault_is_left_out() -> None:
    """Of those at states, in workflows, in daemon jobs, in maintenance and among services some stand for
    all, as of those with agents that launch or do not."""
    played = {FAILOVER, *OWNERS, *(name for names in ROUNDS.values() for name in names)}
    others = {"agent-gone", "agent-back-launching"}
    sets = AT_STATES, IN_WORKFLOWS, IN_DAEMON_GROWTH, IN_MAINTENANCE, IN_SERVICES, OF_OWNERS
    series = [each.keys() for each in sets]
    assert played.union(others, *series) == FAULTS.keys()
    assert all(played & each for each in series)


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_nothing_is_lost_with_a_mesos_master(tmp_path: Path) -> None:
    """On a cluster of its own, since others want the proxy in front of the one master."""
    setup = Setup(True, session_seconds=2.0, masters=2, launch_seconds=LAUNCH_SECONDS)
    with _up(Testbed(tmp_path / "testbed", setup, SEED)) as testbed:
        result = play(testbed, FAILOVER, FAULTS[FAILOVER], SEED, quick=True, seconds=SECONDS)
        print(result)
        assert not result.violations, "\n".join(result.violations)


@pytest.mark.extended
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*OWNERS, "kill-owner-in-large"])
def test_nothing_is_lost_of_job_managers_that_share_the_work(tmp_path: Path, name: str) -> None:
    simulated = SIMULATED if "large" in name else 0
    setup = Setup(
        True, session_seconds=2.0, launch_seconds=LAUNCH_SECONDS, sharing=SHARING, simulated=simulated
    )
    with _up(Testbed(tmp_path / "testbed", setup, SEED)) as testbed:
        result = play(testbed, name, FAULTS[name], SEED, quick=True, seconds=SECONDS)
        print(result)
        assert not result.violations, "\n".join(result.violations[:100])


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One cluster for all faults: a fault undoes its effects."""
    setup = Setup(True, True, session_seconds=3.0, launch_seconds=LAUNCH_SECONDS)
    with _up(Testbed(tmp_path_factory.mktemp("faults"), setup, SEED)) as made:
        yield made


@contextmanager
def _up(made: Testbed) -> Iterator[Testbed]:
    try:
        made.up()
    except Missing as missing:
        lacking(missing)
    try:
        yield made
    finally:
        made.down()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.extended) for name in ROUNDS]
)
def test_nothing_is_lost_and_nothing_runs_twice(testbed: Testbed, name: str) -> None:
    fault = InTurn([FAULTS[each] for each in ROUNDS[name]])
    result = play(testbed, name, fault, SEED, quick=True, seconds=SECONDS * len(fault.faults))
    print(result)
    assert not result.violations, "\n".join(result.violations)
