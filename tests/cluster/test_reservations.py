"""Hosts that are reserved for tasks and gangs which a stream of small tasks would keep away for ever."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from minicluster.settings import Agent, DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, harness_of, wait_for

SECONDS = 120
LASTS = "sleep 1.$((PELOTON_INSTANCE_ID % 7))"
"""Tasks of a stream end at different times, so that no host is free by chance."""
NO_HOST = ("claimed or not in service", "until hosts can be reserved for it")
"""What the reason of a task says that was tried and may not have the reserved hosts."""
_MEMORY = "mem:2048;disk:20000"
AGENTS = (
    *(Agent(hostname=f"plain{i}", resources=f"cpus:2;{_MEMORY};ports:[3{i}000-3{i}999]") for i in range(2)),
    *(
        Agent(hostname=f"gpu{i}", resources=f"cpus:1;{_MEMORY};gpus:40;ports:[3{i + 2}000-3{i + 2}999]")
        for i in range(2)
    ),
    # Of both classes of hosts more is admitted than these can take, so that tasks always wait for them: no
    # task has room in the memory of the others.
    Agent(hostname="useless", resources="cpus:8;mem:16;disk:20000;ports:[34000-34999]"),
    Agent(hostname="useless-gpu", resources="cpus:8;mem:16;disk:20000;gpus:40;ports:[35000-35999]"),
)
SETTINGS = DaemonSettings(
    resmgr={
        "enable_preemption": False,
        "placement": {
            "tries": 1,
            "cycles": 1,
            "gang_patience": 0,
            "retry_first": 0.2,
            "retry_longest": 0.5,
        },
    },
    hostmgr={"reservations": {"backfill_margin": 1}},
    placement={"patience": 0.2},
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, agents=AGENTS, settings=SETTINGS) as held:
        yield held


def job(
    harness: Harness,
    command: str,
    instances: int,
    cpu: float,
    gpu: int = 0,
    longest: int = 0,
    gang: bool = False,
) -> str:
    """Create a job; a gang is of higher priority than the others."""
    config = harness.config(command, instances)
    config.defaultConfig.resource.cpuLimit, config.defaultConfig.resource.gpuLimit = cpu, gpu
    config.sla.maxRunningTime = longest
    if gang:
        config.sla.minimumRunningInstances = instances if instances > 1 else 0
        config.sla.priority = 5
    return harness.create(config)


def stop(harness: Harness, *jobs: str) -> None:
    for job_id in jobs:
        request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id))
        harness.client.task_svc.Stop(request, timeout=30)
    for job_id in jobs:
        harness.ended(job_id, SECONDS)


def states(harness: Harness, job_id: str) -> Counter[int]:
    return Counter(task.runtime.state for task in harness.tasks(job_id).values())


def metric(harness: Harness, kind: str, name: str) -> float:
    """The sum of a metric over the daemons of a kind; 0 for those that do not answer."""
    total = 0.0
    for part in harness.cluster.components():
        if part.kind == kind:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://{part.addresses['http']}/metrics", timeout=30) as answer,
            ):
                lines = [line.split() for line in answer.read().decode().splitlines()]
                total += sum(float(line[1]) for line in lines if line[0] == name)
    return total


def reserved(harness: Harness) -> float:
    """The number of tasks that got reserved hosts."""
    return metric(harness, "placement", "placement_tasks_reserved_total")


@pytest.mark.parametrize(
    ("instances", "cpu", "gpu"), [(1, 2, 0), (2, 1, 15)], ids=["a large task", "a gang of GPU tasks"]
)
def test_it_is_placed_among_a_stream_of_small_tasks(
    harness: Harness, instances: int, cpu: int, gpu: int
) -> None:
    before = reserved(harness)
    stream = job(harness, LASTS, 300, 0.5, min(gpu, 1))
    wait_for(lambda: states(harness, stream)[task_pb2.RUNNING] > 0, SECONDS)
    large = job(harness, "true", instances, cpu, gpu, gang=True)
    assert harness.ended(large, SECONDS).state == job_pb2.SUCCEEDED
    found = states(harness, stream)
    assert found[task_pb2.SUCCEEDED] < 300, "the stream has not ended"
    assert reserved(harness) >= before + instances, "small tasks may get reserved hosts too"
    stop(harness, stream)


def test_reserved_hosts_are_used_and_freed_and_survive_hostmgr(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A gang needs both GPU hosts, of which a task has one for ten minutes at most."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    long = job(harness, "exec sleep 600", 1, 1, 1, longest=600)
    harness.running(long)
    gang = job(harness, "exec sleep 600", 2, 1, 15, gang=True)

    def waits() -> bool:
        assert main(["job", "why", gang, "-j"]) == 0
        groups = json.loads(capfd.readouterr().out)["groups"]
        # One group when both tasks have come so far; until then each may be one.
        return [(group["state"], group["count"], text in group["cause"]) for group in groups] == [
            ("RESERVED", 2, True)
        ]

    text = "1 of the 2 hosts reserved for its 2 tasks has room; the next one has in about 10 min"
    wait_for(waits, SECONDS, lambda: str(harness.tasks(gang)))
    harness.cluster.kill(["hostmgr0"])
    # It is waiting for the host of the gang that has room when the new leader begins.
    unbounded = job(harness, "true", 1, 1, 1)
    harness.cluster.start(["hostmgr0"])
    # The new leader is asked again, and reads from the store when the long task ends.
    wait_for(lambda: metric(harness, "hostmgr", "hostmgr_reserved_hosts") == 2, SECONDS)
    wait_for(tells(harness, unbounded, *NO_HOST), SECONDS, lambda: str(harness.tasks(unbounded)))
    wait_for(waits, SECONDS, lambda: str(harness.tasks(gang)))
    bounded = job(harness, "true", 1, 1, 1, longest=60)
    assert harness.ended(bounded, SECONDS).state == job_pb2.SUCCEEDED
    assert states(harness, unbounded)[task_pb2.SUCCEEDED] == 0, "it might delay the gang"
    assert states(harness, gang)[task_pb2.RUNNING] == 0
    stop(harness, gang)
    assert harness.ended(unbounded, SECONDS).state == job_pb2.SUCCEEDED, "the gang's host is free again"
    stop(harness, long)


def tells(harness: Harness, job_id: str, *texts: str) -> Callable[[], bool]:
    """Return whether each task of the job has a reason with one of the texts."""

    def holds() -> bool:
        reasons: list[Any] = [task.runtime.reason for task in harness.tasks(job_id).values()]
        return bool(reasons) and all(any(text in reason for text in texts) for reason in reasons)

    return holds
