"""What agents told last of a job and its instances, beside what these hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from peloton.client.rpcs import RPCS
from peloton.clock import NANOSECONDS
from peloton.errors import PelotonError
from peloton.model.amounts import plain
from peloton.model.usage import BYTES_PER_MB
from peloton.present.times import rfc3339, short_time

if TYPE_CHECKING:
    from peloton.cli.session import Session
    from peloton.private.jobmgr.usage.usage_pb2 import InstanceUsage

PATIENCE_SECONDS = 3.0
HEADS = ("Cores", "Used Cores", "MB", "Used MB", "Peak MB")
Told = Mapping[int, "InstanceUsage"]


def read_told(session: Session, job_id: str, instances: Iterable[int]) -> Told:
    """Return what agents told last of instances that run; nothing where the job manager does not tell."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.private.jobmgr.usage import usage_pb2

    request = usage_pb2.GetUsageRequest(
        job_id=peloton_pb2.JobID(value=job_id), instances=instances, told_last=True
    )
    if not request.instances:
        return {}
    try:
        answer = session.call(RPCS.usage_svc.GetUsage, request, timeout=PATIENCE_SECONDS)
    except PelotonError:
        return {}
    return {each.instance: each for each in answer.usages if each.told_at}


def told_cells(usage: InstanceUsage | None) -> tuple[str, ...]:
    """Return the cells of an instance: what it holds and uses."""
    if usage is None:
        return ("",) * len(HEADS)
    memory = (usage.memory_limit_bytes, usage.memory_bytes, usage.memory_peak_bytes)
    return (
        plain(usage.cpu_limit),
        f"{usage.cores:.2f}",
        *(f"{count / BYTES_PER_MB:.0f}" if count else "" for count in memory),
    )


def told_of_instance(session: Session, job_id: str, instance: int) -> Mapping[str, Any]:
    """Return `used`, what agents told last of an instance; nothing where that is not known."""
    usage = read_told(session, job_id, [instance]).get(instance)
    if usage is None:
        return {}
    return {
        "used": {
            "cores": _rounded(usage.cores),
            "cores_asked": _rounded(usage.cpu_limit),
            "memory_mb": _mb(usage.memory_bytes),
            "memory_peak_mb": _mb(usage.memory_peak_bytes),
            "memory_asked_mb": _mb(usage.memory_limit_bytes),
            "told_at": short_time(rfc3339(int(usage.told_at * NANOSECONDS))),
        }
    }


def told_of_job(session: Session, job_id: str) -> Mapping[str, Any]:
    """Return `used`, what agents told last of a job's runs together; nothing where that is not known."""
    from peloton.private.jobmgr.usage import usage_pb2

    request = usage_pb2.ListUsedRequest(job_id=job_id)
    try:
        answer = session.call(RPCS.usage_svc.ListUsed, request, timeout=PATIENCE_SECONDS)
    except PelotonError:
        return {}
    used = next((each for each in answer.jobs if each.job_id == job_id), None)
    if used is None:
        return {}
    return {
        "used": {
            "runs": used.runs,
            "cores": _rounded(used.cores),
            "cores_asked_by_each": _rounded(used.cores_asked),
            "memory_mb": _mb(used.memory_bytes),
            "memory_peak_mb_of_one": _rounded(used.memory_peak_mb),
            "memory_asked_mb_by_each": _rounded(used.memory_asked_mb),
        }
    }


def _mb(count: int) -> float:
    return _rounded(count / BYTES_PER_MB)


def _rounded(value: float) -> float:
    return round(value, 3)
