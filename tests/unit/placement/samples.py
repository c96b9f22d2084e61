"""Gangs and hosts in few words."""

from __future__ import annotations

from itertools import count

from peloton.model.ids import mesos_task_id, task_id
from peloton.model.resources import Resources
from peloton.model.states import PlacementStrategy
from placement.core.model import Gang, Host, HostClass, Needs, Task

JOB = "00000000-0000-4000-8000-000000000001"
SPREAD = PlacementStrategy.SPREAD_JOB
_instances = count()


def needs(
    cpu: float = 1,
    memory: float = 0,
    gpu: float = 0,
    ports: int = 0,
    revocable: bool = False,
    where: str = "",
) -> Needs:
    return Needs(Resources.of(cpu, memory, 0, gpu), ports, revocable, HostClass(where.encode(), gpu > 0))


def gang(*of: Needs, strategy: PlacementStrategy = PlacementStrategy.PACK_HOST, job: str = JOB) -> Gang:
    """A task for each of the needs; one that asks for 1 CPU where none is given."""
    return Gang(job, tuple(task(one, job) for one in of or (needs(),)), strategy)


def task(of: Needs, job: str = JOB, desired_host: str = "") -> Task:
    instance = next(_instances)
    return Task(task_id(job, instance), mesos_task_id(job, instance, 1), of, desired_host)


def returning(host: str, of: Needs | None = None) -> Gang:
    """A gang of one task that returns to a host."""
    return Gang(JOB, (task(of or needs(), desired_host=host),))


def host(
    number: int = 0,
    cpu: float = 4,
    memory: float = 1000,
    gpu: float = 0,
    slack_cpu: int = 0,
    ports: tuple[tuple[int, int], ...] = ((31000, 31009),),
    where: str = "",
) -> Host:
    return Host(
        f"host-{number}",
        f"agent-{number}",
        f"offer-{number}",
        HostClass(where.encode(), gpu > 0),
        Resources.of(cpu, memory, 1000, gpu),
        slack_cpu,
        ports,
    )
