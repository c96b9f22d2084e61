"""The checker finds daemon jobs that are not where their hosts are, and hosts with two of their runs."""

from __future__ import annotations

import pytest

from tests.faults.history import DaemonJob, Event, History, Instance
from tests.faults.test_checker import CREATED, JOB, agent, ends, launch, rules, run, update

LIVE = [(run(0), "A"), (run(1), "B")]
END = ends(Instance("RUNNING", 1), Instance("RUNNING", 1), live=LIVE)
STARTS = [
    *(agent("A"), agent("B")),
    *(launch(1, run(0), "A"), update(1, run(0), "TASK_RUNNING", "A")),
    *(launch(1, run(1), "B"), update(1, run(1), "TASK_RUNNING", "B")),
]


def history(instances: dict[int, tuple[str, str]], *more: Event) -> History:
    daemon = DaemonJob(JOB, ("a", "b"), instances)
    return History([*STARTS, *more], [CREATED], END, daemons=[daemon])


@pytest.mark.parametrize(
    ("instances", "found"),
    [
        ({0: ("a", "RUNNING"), 1: ("b", "RUNNING")}, []),
        ({0: ("b", "RUNNING"), 7: ("a", "RUNNING")}, []),
        ({0: ("a", "RUNNING")}, ["daemon not on a host"]),
        ({0: ("a", "RUNNING"), 1: ("b", "PENDING")}, ["daemon not on a host"]),
        ({0: ("a", "RUNNING"), 1: ("b", "RUNNING"), 2: ("b", "RUNNING")}, ["daemon not on a host"]),
        ({0: ("a", "RUNNING"), 1: ("b", "RUNNING"), 2: ("c", "KILLING")}, ["daemon elsewhere"]),
    ],
)
def test_each_host_has_one_instance(instances: dict[int, tuple[str, str]], found: list[str]) -> None:
    assert rules(history(instances)) == found


def test_two_runs_on_one_agent() -> None:
    good = {0: ("a", "RUNNING"), 1: ("b", "RUNNING")}
    other = [launch(2, run(2), "A"), update(2, run(2), "TASK_RUNNING", "A")]
    assert "daemon twice on a host" in rules(history(good, *other))
