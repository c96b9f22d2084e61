"""Translate workloads between the wire and the model. Both APIs have the same messages."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.workload import (
    GROWTH_INTERVAL_SECONDS,
    NO_JOB_WORKLOAD,
    NO_TASK_WORKLOAD,
    Framework,
    GangPolicy,
    JobWorkload,
    TaskWorkload,
)

Named = TypeVar("Named", bound=IntEnum)


def job_workload(config: job_pb2.JobConfig) -> JobWorkload:
    """Decode the workload of a job. Raises InvalidArgument for a framework or policy that is not known."""
    if not config.HasField("workload"):
        return NO_JOB_WORKLOAD
    wire = config.workload
    return JobWorkload(
        framework=_member(Framework, wire.framework, "workload.framework"),
        rendezvous=wire.rendezvous,
        gang_policy=_member(GangPolicy, wire.gang_policy, "workload.gang_policy"),
        growth_interval=(wire.elastic.growth_interval_seconds or GROWTH_INTERVAL_SECONDS)
        if wire.HasField("elastic")
        else 0,
    )


def _member(kind: type[Named], number: int, path: str) -> Named:
    try:
        return kind(number)
    except ValueError:
        known = ", ".join(f"{each.name} ({each})" for each in kind)
        raise InvalidArgument(path, number, f"one of {known}") from None


def task_workload(config: task_pb2.TaskConfig) -> TaskWorkload:
    """Decode the workload of a task, whose config is merged."""
    if not config.HasField("workload"):
        return NO_TASK_WORKLOAD
    wire = config.workload
    return TaskWorkload(
        rendezvous_port=wire.rendezvous_port,
        role=wire.role,
        peer=wire.peer.instance if wire.HasField("peer") else None,
        stop_signal=wire.stop_signal,
        grace_seconds=wire.grace_seconds,
        checkpoint_file=wire.checkpoint_file,
        token=wire.token,
    )
