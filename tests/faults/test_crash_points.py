"""Faults at points cover each state, and wait for the point that they are set for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from jobmgr.core.task.status_rules import PROGRESS
from tests.faults import crash_points
from tests.faults.crash_points import STATES, AtPoint
from tests.faults.fault import FaultContext
from tests.faults.triggers import Trigger, file_of, set_trigger


def test_every_stored_state_has_a_crash_point() -> None:
    written = {point.partition(" ")[2] for _, several in STATES.values() for point in several}
    assert {state.name for state in PROGRESS} <= written
    assert {"LaunchTasks", "KillTasks"} <= written


class Cluster:
    """Stands for a testbed, its workload and its API.

    Jobs end at once, and the jobmgr dies in one of them.
    """

    def __init__(self, folder: Path, dies_in: str = "") -> None:
        self.folder = folder
        self.dies_in = dies_in
        self.jobs: list[str] = []
        self.api = self

    def trigger(self, role: str, point: str, trigger: Trigger) -> Path:
        return set_trigger(self.folder, role, point, trigger)

    def ended(self, job_id: str) -> bool:
        return True


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def strike(cluster: Cluster) -> AtPoint:
    def work(at: FaultContext, begins: Callable[[str], None]) -> None:
        job_id = f"job {len(cluster.jobs)}"
        cluster.jobs.append(job_id)
        begins(job_id)
        if job_id == cluster.dies_in:
            file_of(cluster.folder, "jobmgr", "write_all PENDING").unlink()

    return AtPoint(work, [("jobmgr", "write_all PENDING")])


def fire_trigger(cluster: Cluster) -> None:
    testbed = cast(Any, cluster)
    at = FaultContext(testbed, random.Random(1), quick=True, workload=testbed)
    strike(cluster)._wait_until_fired(at, "jobmgr", "write_all PENDING", Trigger())


def test_another_job_follows_one_that_missed_the_point(cluster: Cluster) -> None:
    cluster.dies_in = "job 2"
    fire_trigger(cluster)
    assert cluster.jobs == ["job 0", "job 1", "job 2"]


def test_a_point_that_is_never_reached_is_reported_and_leaves_no_trigger(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match="jobmgr was in no write_all PENDING of 5 jobs"):
        fire_trigger(cluster)
    assert len(cluster.jobs) == crash_points.TRIES
    assert list(cluster.folder.iterdir()) == []
