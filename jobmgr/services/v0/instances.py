"""InstanceService: batch jobs give instances back (docs/behaviour/jobs.md, Released instances)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.services.common.ranges import chosen
from jobmgr.services.common.view import JobView, view
from peloton.api.v0.job.instances import instances_pb2 as pb
from peloton.api.v0.job.instances import instances_pb2_grpc
from peloton.errors import InvalidArgument, Refused, StaleVersion
from peloton.model.states import JobType


class InstanceService(instances_pb2_grpc.InstanceServiceServicer):
    """Releases instances. Failures are gRPC statuses."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ReleaseInstances(
        self, request: pb.ReleaseInstancesRequest, context: Any
    ) -> pb.ReleaseInstancesResponse:
        """Release the instances of ranges, or those with the highest numbers.

        Raises NotFound, InvalidArgument, Refused where the job has ended, and StaleVersion.
        """
        job = await view(self._engine, request.job_id.value)
        _check(job, request)
        wanted = (
            _by_count(job, request.instance_count) if request.instance_count else _by_ranges(job, request)
        )
        released = await self._engine.release(job.job_id, wanted) if wanted else []
        done = set(released)
        job = await view(self._engine, request.job_id.value)
        return pb.ReleaseInstancesResponse(
            released_instances=released,
            already_released_instances=[instance for instance in wanted if instance not in done],
            instance_count=job.instance_count,
            resource_version=job.runtime.config_version,
        )


def _check(job: JobView, request: pb.ReleaseInstancesRequest) -> None:
    """Raise what a request is refused for, whatever the instances are."""
    if bool(request.ranges) == bool(request.instance_count):
        given = "both" if request.ranges else "neither"
        raise InvalidArgument("ranges, instance_count", given, "one of them")
    if job.spec.type is not JobType.BATCH:
        hosts = job.spec.type is JobType.DAEMON
        other = "its hosts decide how many a daemon job has" if hosts else "a service shrinks by an update"
        raise InvalidArgument("job_id", job.spec.type.name, f"a batch job: {other}")
    held, expected = job.runtime.config_version, request.resource_version
    if expected and expected != held:
        raise StaleVersion(f"resource_version {expected} is stale: the job is at {held}")
    if job.cached is None:
        raise Refused(f"the job has ended ({job.runtime.state.name}): it has no instance to release")


def _by_ranges(job: JobView, request: pb.ReleaseInstancesRequest) -> list[int]:
    named = chosen(request.ranges, job.size)
    return list(range(job.size)) if named is None else named


def _by_count(job: JobView, count: int) -> list[int]:
    """Return the instances with the highest numbers that are more than `count`; none where there are none."""
    more = job.instance_count - count
    return sorted(number for number, _ in zip(_from_the_top(job), range(more), strict=False))


def _from_the_top(job: JobView) -> Iterator[int]:
    """Yield the numbers of instances that are not released, the highest first."""
    return (number for number in reversed(range(job.size)) if not job.is_released(number))
