"""Many tiny tasks at once on agents that start a few executors a second, as real ones do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.settings import Agent
from peloton.api.v0.job import job_pb2

from .conftest import Harness, harness_of

TASKS = 1000
STARTS_PER_SECOND = 8.0
"""Of an agent: twice as many as a real one, to be done in a minute."""
TIMEOUT = 60.0
"""Of an executor's registration, as a real agent's. One agent would need 125 s for all tasks."""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    agents = tuple(
        Agent(hostname=f"agent{i}", resources=f"cpus:12;mem:4096;disk:20000;ports:[{31000 + i}-{31000 + i}]")
        for i in range(3)
    )
    with harness_of(
        tmp_path_factory,
        agents=agents,
        executor_starts_per_second=STARTS_PER_SECOND,
        executor_registration_timeout=TIMEOUT,
    ) as held:
        yield held


@pytest.mark.extended
def test_all_of_a_thousand_tiny_tasks_succeed_at_the_first_try(harness: Harness) -> None:
    config = harness.config("true", TASKS)
    resource = config.defaultConfig.resource
    resource.cpuLimit, resource.memLimitMb, resource.diskLimitMb = 0.01, 1, 1
    job_id = harness.create(config)
    assert harness.ended(job_id, 280).state == job_pb2.SUCCEEDED
    tasks = harness.tasks(job_id).values()
    failed = [task.runtime for task in tasks if task.runtime.failureCount]
    assert not failed, f"{len(failed)} failed first, such as {failed[0]}"
    assert {task.runtime.host for task in tasks} == {f"agent{i}" for i in range(3)}
