"""Any one process is killed in the middle of a job and comes back: every instance runs, the job succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2

from .conftest import Harness, wait_for

TASKS = 200
PROCESSES = ["jobmgr0", "resmgr0", "hostmgr0", "placement0", "mesos-master", "mesos-agent0"]


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Path]:
    """Where each run leaves a file with its id."""
    folder = tmp_path / "marks"
    folder.mkdir()
    yield folder


@pytest.mark.parametrize("name", PROCESSES)
def test_the_job_succeeds_when_one_is_killed(harness: Harness, marks: Path, name: str) -> None:
    killed = marks.parent / "killed"
    command = f'touch "{marks}/$PELOTON_INSTANCE_ID"; until [ -e "{killed}" ]; do sleep 1; done'
    job_id = harness.create(harness.config(command, TASKS))
    wait_for(lambda: len(list(marks.iterdir())) >= TASKS // 5, 60)
    harness.cluster.kill([name])
    killed.touch()
    harness.cluster.start([name])
    runtime = harness.ended(job_id, 150)
    assert runtime.state == job_pb2.SUCCEEDED, runtime
    assert runtime.taskStats["SUCCEEDED"] == TASKS
    assert {int(mark.name) for mark in marks.iterdir()} == set(range(TASKS))
