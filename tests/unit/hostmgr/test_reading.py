"""When agents, load scores and stored runs are read, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hostmgr.core.agents.load_scores import LONGEST_PAUSE_INTERVALS, Loads, scores_of
from hostmgr.core.agents.reading import AgentReading
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.cluster_manager.reconciliation import Reconciler, ReconciliationLimits
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.hosts.history import MOST_CHANGES, HostChanges
from hostmgr.core.reservations.replanning import REPLAN_SECONDS, Replanning
from hostmgr.core.runs.ends import READS_AT_ONCE, info_of, to_read
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import RunInfo
from hostmgr.core.state.table import HostTable
from peloton.model.host import HostInfo
from peloton.model.ids import parse_mesos_task_id
from peloton.model.resources import Resources
from peloton.model.states import HostState, TaskState
from peloton.model.task import TaskRuntime
from tests.interpreted import interpreted
from tests.unit.hostmgr.hosts import agent, offer

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
RUN = f"{JOB}-0-1"
INTERVAL = 10.0


class Reading:
    """The reads of a map of agents, of a master that leads since 0.0 and knows all agents since 600.0."""

    def __init__(self) -> None:
        self.hosts, self.reconciler = Hosts(HostTable()), Reconciler(ReconciliationLimits(reregister=600.0))
        self.reconciler.subscribed("m1", 0.0)
        self.sight = ClusterSight(self.hosts, self.reconciler)
        self.it = AgentReading(self.sight, self.hosts, INTERVAL)

    def take(
        self, *numbers: int, complete: bool = True, was_settled: bool = True, now: float = 600.0
    ) -> None:
        """Take a map of these agents over."""
        agents = [agent(number) for number in numbers]
        self.sight.take(agents, complete, frozenset(), now, was_settled, now)


@pytest.fixture
def reading() -> Reading:
    return Reading()


# The map of agents.


@pytest.mark.parametrize(
    ("complete", "was_settled", "now", "gone"),
    [
        (True, True, 600.0, True),
        (False, True, 600.0, False),
        (True, False, 600.0, False),
        (True, True, 599.0, False),
    ],
)
def test_agents_are_gone_only_where_all_are_known(
    reading: Reading, complete: bool, was_settled: bool, now: float, gone: bool
) -> None:
    reading.hosts.set_agents([agent(0), agent(1)])
    reading.take(0, complete=complete, was_settled=was_settled, now=now)
    assert (reading.hosts.table.row("S1") is None) == gone


def test_an_agent_that_is_listed_is_not_lost(reading: Reading) -> None:
    reading.reconciler.agent_gone("S0")
    reading.take(0)
    assert not reading.reconciler.gone()


def test_what_was_read_is_shown(reading: Reading) -> None:
    sight = reading.sight
    assert sight.unhealthy == "the master's map of agents has not been read yet" and not sight.known
    sight.failed("away")
    assert sight.unhealthy == "the master's map of agents has not been read yet: away"
    reading.take(0, 1)
    assert sight.unhealthy == "" and sight.hostnames == {"host0", "host1"} and sight.read_began == 600.0
    version = sight.version
    reading.take(0)
    assert sight.version == version, "neither `complete` nor `disconnected` has changed"
    sight.take([], False, frozenset({"host0"}), 601.0, True, 601.0)
    assert sight.version == version + 1 and not sight.settled(601.0) and sight.is_settled(601.0)
    with pytest.raises(AssertionError, match="late"):
        sight.take([], True, frozenset(), 600.0, True, 601.0)


def test_pauses_grow_after_failures_up_to_the_interval(reading: Reading) -> None:
    pauses = [reading.it.failed() for _ in range(6)]
    assert pauses == sorted(pauses) and pauses[0] == 1.0 and pauses[-1] == INTERVAL
    assert reading.it.succeeded() == INTERVAL
    assert reading.it.failed() == pauses[0]


def test_a_large_map_is_read_less_often(reading: Reading) -> None:
    reading.take(*range(20_000))
    assert reading.it.succeeded() == 20.0


def test_a_pause_ends_early_for_an_agent_that_the_map_lacks(reading: Reading) -> None:
    assert reading.it.rest(0.0, INTERVAL) == 1.0
    assert reading.it.rest(9.5, INTERVAL) == 0.5
    assert reading.it.rest(INTERVAL, INTERVAL) == 0.0
    reading.hosts.add_offer(offer(1, 0), 0.0)
    assert reading.it.rest(0.5, INTERVAL) == 1.0, "the master is not asked again at once"
    assert reading.it.rest(1.0, INTERVAL) == 0.0
    reading.take(0)
    assert reading.it.rest(1.0, INTERVAL) == 1.0


# Load scores.


def test_scores_last_until_they_are_too_old() -> None:
    table = HostTable()
    it = Loads(table, 30.0, 100.0, 0.0, "east")
    assert it.take({"host0": 3.0}, 0.0) == 30.0 and it.known == 1
    assert table._loads == {"east/host0": 3.0}
    pauses = [it.failed(now) for now in (30.0, 99.0)]
    assert pauses == sorted(pauses) and it.known == 1
    it.failed(100.0)
    assert it.known == 0 and table._loads == {}
    assert max(it.failed(200.0) for _ in range(20)) == 30.0 * LONGEST_PAUSE_INTERVALS
    assert it.take({"east/host1": 1.0}, 300.0) == 30.0
    assert table._loads == {"east/host1": 1.0}, "a name with the cluster is taken as it is"


def test_the_highest_of_the_scores_of_a_host_counts() -> None:
    found = scores_of([("a", "12.5"), ("b", 200), ("c", "NaN"), ("a", 40), ("e", "-3"), ("f", "none")])
    assert found == {"a": 40, "b": 100, "e": 0}


# Stored runs, for reservations.


def test_only_runs_of_which_nothing_is_known_are_read_and_not_too_many() -> None:
    runs = Runs()
    runs.put("known", "S0")
    runs.learn("known", RunInfo((1, 1, 1, 0, 0, 0), None))
    for number in range(READS_AT_ONCE + 5):
        runs.put(f"run-{number}", f"S{number % 2}")
    assert len(list(to_read(["S0", "S1"], runs))) == READS_AT_ONCE
    assert "known" not in set(to_read(["S0"], runs))
    assert list(to_read(["S9"], runs)) == []


def runtime(run: int = 1, start: int = 0) -> TaskRuntime:
    return TaskRuntime(TaskState.RUNNING, TaskState.SUCCEEDED, run, 1, 1, run, start_time=start)


def spec(longest: int) -> Any:
    return SimpleNamespace(
        sla=SimpleNamespace(max_running_time=longest),
        task=lambda instance: SimpleNamespace(resources=Resources.of(4, 100)),
        revocable=lambda instance: False,
    )


@interpreted
def test_when_a_stored_run_ends() -> None:
    run, wall = parse_mesos_task_id(RUN), 10**18
    began = wall - 20 * 10**9
    limited = info_of(run, runtime(start=began), spec(60), 500.0, wall)
    assert limited is not None and limited.end == 500.0 - 20 + 60
    unlimited = info_of(run, runtime(), spec(0), 500.0, wall)
    assert unlimited is not None and unlimited.end is None
    assert info_of(run, runtime(), spec(60), 500.0, wall) is None, "it has not begun"
    assert info_of(run, runtime(2, began), spec(60), 500.0, wall) is None, "it is another run"
    later = info_of(run, runtime(start=wall + 10**9), spec(60), 500.0, wall)
    assert later is not None and later.end == 560.0, "by another clock it begins later"


def test_one_plan_at_a_time() -> None:
    it = Replanning()
    assert it.is_due(False, 0.0) and it.begin(0.0)
    assert not it.begin(5.0), "others run between its steps"
    it.end()
    assert not it.is_due(False, REPLAN_SECONDS - 0.1) and it.is_due(True, 0.0)
    assert it.is_due(False, REPLAN_SECONDS)
    with pytest.raises(AssertionError):
        it.end()


# Changes of hosts.


def test_the_changes_of_the_hosts_that_changed_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostmgr.core.hosts.history.MOST_HOSTS", 2)
    it = HostChanges(0)
    for at, name in enumerate(("a", "b", "a", "c")):
        it.note_pool(name, "default", "shared", at)
    assert [bool(it.of(name)) for name in "abc"] == [True, False, True]
    for at in range(MOST_CHANGES + 3):
        it.note_pool("a", str(at), str(at + 1), at)
    assert [each.at for each in it.of("a")] == list(range(3, MOST_CHANGES + 3))


def test_a_record_that_is_as_before_is_no_change() -> None:
    it, host = HostChanges(0), HostInfo("a", "", HostState.DOWN, HostState.DOWN)
    it.note_record(host, replace(host, ip="10.0.0.1"), 1)
    assert it.of("a") == []
    it.note_record(host, replace(host, goal=HostState.UP), 2)
    assert [(each.kind.value, each.before, each.after) for each in it.of("a")] == [("goal", "DOWN", "UP")]
