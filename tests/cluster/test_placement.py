"""Where tasks go, on a whole cluster of real processes: each strategy and each rule about hosts and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from minicluster.settings import Agent
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, OrConstraint
from peloton.wire.constraint import constraint_to

from .conftest import Harness, harness_of, wait_for

SECONDS = 90
PLAIN = [f"plain{i}" for i in range(4)]
SLEEP = "exec sleep 600"
_MEMORY = "mem:2048;disk:20000"


def _agents() -> tuple[Agent, ...]:
    plain = [
        Agent(
            hostname=name,
            resources=f"cpus:4;{_MEMORY};ports:[{31000 + 1000 * i}-{31999 + 1000 * i}]",
            attributes="rack:r1" if i < 2 else "rack:r2",
        )
        for i, name in enumerate(PLAIN)
    ]
    gpu = Agent(hostname="gpu", resources=f"cpus:4;{_MEMORY};gpus:2;ports:[35000-35999]")
    own = Agent(
        hostname="exclusive",
        resources=f"cpus:4;{_MEMORY};ports:[36000-36999]",
        attributes="peloton/exclusive:team",
    )
    return (*plain, gpu, own)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, agents=_agents()) as held:
        yield held


def config(
    harness: Harness,
    instances: int,
    constraint: Constraint | None = None,
    labels: tuple[tuple[str, str], ...] = (),
    strategy: int = job_pb2.PLACEMENT_STRATEGY_PACK_HOST,
) -> job_pb2.JobConfig:
    made = harness.config(SLEEP, instances)
    made.placementStrategy = strategy  # type: ignore[assignment]
    task = made.defaultConfig
    task.labels.extend(peloton_pb2.Label(key=key, value=value) for key, value in labels)
    if constraint is not None:
        task.constraint.CopyFrom(constraint_to(constraint))
    return made


def hosts_of(harness: Harness, job_id: str) -> Counter[str]:
    tasks = harness.tasks(job_id).values()
    return Counter(task.runtime.host for task in tasks if task.runtime.state == task_pb2.RUNNING)


def running(harness: Harness, job_id: str, count: int) -> Counter[str]:
    """Wait until so many tasks run; return how many run on each host."""
    wait_for(
        lambda: hosts_of(harness, job_id).total() == count,
        SECONDS,
        lambda: str([task.runtime for task in harness.tasks(job_id).values()]),
    )
    return hosts_of(harness, job_id)


def refused(harness: Harness, job_id: str, *parts: str) -> None:
    """Wait until the reason of a task that waits has all these parts."""

    def told() -> list[str]:
        return [task.runtime.reason for task in harness.tasks(job_id).values()]

    def named() -> bool:
        return any(all(part in text for part in parts) for text in told())

    wait_for(named, SECONDS, lambda: str(told()))


@pytest.fixture
def stop(harness: Harness) -> Iterator[list[str]]:
    """Jobs that are ended after the test, so that the next one finds empty hosts."""
    jobs: list[str] = []
    yield jobs
    for job_id in jobs:
        request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id))
        harness.client.task_svc.Stop(request, timeout=30)
    wait_for(lambda: not any(hosts_of(harness, job_id) for job_id in jobs), SECONDS)


def create(harness: Harness, stop: list[str], made: job_pb2.JobConfig) -> str:
    job_id = harness.create(made)
    stop.append(job_id)
    return job_id


def leaf(kind: Kind, condition: Condition, key: str, value: str, count: int) -> LabelConstraint:
    return LabelConstraint(kind, condition, (key, value), count)


def test_pack_fills_a_host_and_spread_uses_a_host_for_each_task(harness: Harness, stop: list[str]) -> None:
    packed = create(harness, stop, config(harness, 6))
    assert len(running(harness, packed, 6)) == 1
    spread = create(harness, stop, config(harness, 4, strategy=job_pb2.PLACEMENT_STRATEGY_SPREAD_JOB))
    assert running(harness, spread, 4) == dict.fromkeys(PLAIN, 1)


def test_a_host_limit_holds_within_a_job(harness: Harness, stop: list[str]) -> None:
    limit = leaf(Kind.TASK, Condition.LESS_THAN, "app", "limited", 2)
    job_id = create(harness, stop, config(harness, 8, limit, (("app", "limited"),)))
    assert running(harness, job_id, 8) == dict.fromkeys(PLAIN, 2)
    one_more = create(harness, stop, config(harness, 1, limit, (("app", "limited"),)))
    refused(
        harness,
        one_more,
        "4 with tasks that its constraint refuses",
        "needs a host where task app=limited < 2 holds",
    )


def test_two_jobs_that_repel_each_other_share_no_host(harness: Harness, stop: list[str]) -> None:
    """Both are created at a time, so that they are placed by families that compete for the hosts."""
    jobs = []
    for own, other in (("red", "blue"), ("blue", "red")):
        away = leaf(Kind.TASK, Condition.LESS_THAN, "color", other, 1)
        rack = leaf(Kind.HOST, Condition.EQUAL, "rack", "r1" if own == "red" else "r2", 1)
        either = OrConstraint((rack, leaf(Kind.TASK, Condition.LESS_THAN, "color", own, 2)))
        made = config(harness, 3, AndConstraint((away, either)), (("color", own),))
        jobs.append(create(harness, stop, made))
    first, second = (running(harness, job_id, 3) for job_id in jobs)
    assert not first.keys() & second.keys()


def test_a_task_goes_where_its_companion_is(harness: Harness, stop: list[str]) -> None:
    beside = leaf(Kind.TASK, Condition.GREATER_THAN, "app", "cache", 0)
    waiting = create(harness, stop, config(harness, 2, beside))
    refused(harness, waiting, "needs a host where task app=cache > 0 holds")
    only = leaf(Kind.HOST, Condition.EQUAL, "hostname", PLAIN[2], 1)
    cache = create(harness, stop, config(harness, 1, only, (("app", "cache"),)))
    assert running(harness, cache, 1) == {PLAIN[2]: 1}
    assert running(harness, waiting, 2) == {PLAIN[2]: 2}


def test_gpu_hosts_and_exclusive_hosts_take_only_their_own(harness: Harness, stop: list[str]) -> None:
    """Each plain host has half a cpu left; the others stay empty."""
    full = config(harness, 4)
    full.defaultConfig.resource.cpuLimit = 3.5
    plain = create(harness, stop, full)
    assert set(running(harness, plain, 4)) == set(PLAIN)
    larger = config(harness, 1)
    larger.defaultConfig.resource.cpuLimit = 1
    refused(
        harness,
        create(harness, stop, larger),
        "1 that its constraint excludes",
        "1 with GPUs, kept for tasks that request some",
        "4 with too little free",
    )
    gpu = config(harness, 2)
    gpu.defaultConfig.resource.gpuLimit = 1
    assert running(harness, create(harness, stop, gpu), 2) == {"gpu": 2}
    team = leaf(Kind.HOST, Condition.EQUAL, "peloton/exclusive", "team", 1)
    assert running(harness, create(harness, stop, config(harness, 1, team)), 1) == {"exclusive": 1}


def test_a_fixed_port_is_taken_once_on_a_host(harness: Harness, stop: list[str]) -> None:
    made = config(harness, 5)
    made.defaultConfig.ports.add(name="http", value=48080, envName="HTTP")
    made.defaultConfig.ports.add(name="debug", envName="DEBUG")
    job_id = create(harness, stop, made)
    assert running(harness, job_id, 4) == dict.fromkeys(PLAIN, 1)
    refused(harness, job_id, "4 hosts where a task has the fixed port 48080: needs a host where it is free")


def test_a_gang_is_placed_whole_or_holds_nothing(harness: Harness, stop: list[str]) -> None:
    blocker = config(harness, 1)
    blocker.defaultConfig.resource.cpuLimit = 4
    blocking = create(harness, stop, blocker)
    running(harness, blocking, 1)
    gang = config(harness, 4)
    gang.defaultConfig.resource.cpuLimit = 3
    gang.sla.minimumRunningInstances = 4
    waiting = create(harness, stop, gang)
    refused(harness, waiting, "room for 3 of 4 tasks that belong together")
    small = config(harness, 2)
    small.defaultConfig.resource.cpuLimit = 0.5
    running(harness, create(harness, stop, small), 2)
    assert not hosts_of(harness, waiting), "none of it runs, and what it had claimed was given free"
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=blocking)), timeout=30)
    assert running(harness, waiting, 4) == dict.fromkeys(PLAIN, 1)
