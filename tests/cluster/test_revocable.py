"""Revocable tasks run on top of what the agents have: on revocable cpu, with normal memory and disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minicluster.settings import Agent
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, harness_of, wait_for

AGENTS, CPUS, REVOCABLE = 3, 4, 4
SLEEP = "sleep 600"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Each agent has as much revocable cpu as normal."""
    agents = tuple(
        Agent(
            hostname=f"revocable{i}",
            resources=f"cpus:{CPUS};mem:2048;disk:20000;ports:[{34000 + 1000 * i}-{34999 + 1000 * i}]",
            revocable=f"cpus:{REVOCABLE}",
        )
        for i in range(AGENTS)
    )
    with harness_of(tmp_path_factory, agents=agents) as held:
        yield held


def job(harness: Harness, instances: int, **sla: Any) -> job_pb2.JobConfig:
    """Each instance asks for a whole cpu."""
    config = harness.config(SLEEP, instances, sla=job_pb2.SlaConfig(**sla))
    config.defaultConfig.resource.cpuLimit = 1
    return config


def count_running(harness: Harness, job_id: str) -> int:
    return sum(each.runtime.state == task_pb2.RUNNING for each in harness.tasks(job_id).values())


def stop(harness: Harness, job_id: str) -> None:
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)
    harness.ended(job_id)


def usage(harness: Harness) -> dict[str, respool_pb2.ResourceUsage]:
    request = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=harness.pool))
    answer = harness.client.respool_svc.GetResourcePool(request, timeout=30)
    return {each.kind: each for each in answer.poolinfo.usage}


@pytest.mark.parametrize("by_task", [False, True], ids=["whole job", "by task"])
def test_revocable_tasks_oversubscribe_the_agents(harness: Harness, by_task: bool) -> None:
    firm_id = harness.create(job(harness, AGENTS * CPUS, preemptible=True))
    wait_for(
        lambda: count_running(harness, firm_id) == AGENTS * CPUS, 60, lambda: str(harness.waiting(firm_id))
    )
    config = job(harness, AGENTS * REVOCABLE, preemptible=True, revocable=not by_task)
    config.defaultConfig.revocable = by_task
    loose_id = harness.create(config)
    wait_for(
        lambda: count_running(harness, loose_id) == AGENTS * REVOCABLE,
        60,
        lambda: str(harness.waiting(loose_id)),
    )
    assert count_running(harness, firm_id) == AGENTS * CPUS, "nobody had to make room"
    cpu = usage(harness)["cpu"]
    assert (cpu.allocation, cpu.slack) == (AGENTS * CPUS, AGENTS * REVOCABLE)
    stop(harness, loose_id)
    stop(harness, firm_id)
    wait_for(lambda: usage(harness)["cpu"].allocation == 0, 60, lambda: str(usage(harness)))


def test_a_revocable_task_over_the_slack_waits_with_a_reason(harness: Harness) -> None:
    job_id = harness.create(job(harness, AGENTS * REVOCABLE + 1, preemptible=True, revocable=True))
    wait_for(
        lambda: count_running(harness, job_id) == AGENTS * REVOCABLE, 60, lambda: str(harness.waiting(job_id))
    )

    def reason() -> str:
        waits = [each for each in harness.tasks(job_id).values() if each.runtime.state != task_pb2.RUNNING]
        return str(waits[0].runtime.reason)

    wait_for(lambda: "slack" in reason(), 60, reason)
    assert count_running(harness, job_id) == AGENTS * REVOCABLE
    stop(harness, job_id)
