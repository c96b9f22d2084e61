"""Faults at moments cover each state, and wait for the moment that they are set for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from jobmgr.core.task.status_rules import PROGRESS
from tests.faults import crash_points
from tests.faults.crash_points import STATES, AtMoment
from tests.faults.fault import Strike
from tests.faults.triggers import Trap, file_of, set_trap


def test_no_state_that_is_stored_is_left_out() -> None:
    written = {moment.partition(" ")[2] for _, several in STATES.values() for moment in several}
    assert {state.name for state in PROGRESS} <= written
    assert {"LaunchTasks", "KillTasks"} <= written


class Cluster:
    """Stands for a world, its workload and its API: jobs end at once, and the jobmgr dies in one of them."""

    def __init__(self, folder: Path, dies_in: str = "") -> None:
        self.folder = folder
        self.dies_in = dies_in
        self.jobs: list[str] = []
        self.api = self

    def trap(self, role: str, moment: str, trap: Trap) -> Path:
        return set_trap(self.folder, role, moment, trap)

    def ended(self, job_id: str) -> bool:
        return True


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def strike(cluster: Cluster) -> AtMoment:
    def work(at: Strike, begins: Callable[[str], None]) -> None:
        job_id = f"job {len(cluster.jobs)}"
        cluster.jobs.append(job_id)
        begins(job_id)
        if job_id == cluster.dies_in:
            file_of(cluster.folder, "jobmgr", "write_all PENDING").unlink()

    return AtMoment(work, [("jobmgr", "write_all PENDING")])


def spring(cluster: Cluster) -> None:
    world = cast(Any, cluster)
    at = Strike(world, random.Random(1), quick=True, workload=world)
    strike(cluster)._spring(at, "jobmgr", "write_all PENDING", Trap())


def test_a_job_that_passed_over_the_moment_is_followed_by_another(cluster: Cluster) -> None:
    cluster.dies_in = "job 2"
    spring(cluster)
    assert cluster.jobs == ["job 0", "job 1", "job 2"]


def test_a_moment_that_never_comes_is_told_and_leaves_no_trap(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match="jobmgr was in no write_all PENDING of 5 jobs"):
        spring(cluster)
    assert len(cluster.jobs) == crash_points.TRIES
    assert list(cluster.folder.iterdir()) == []
