"""How an update adds instances to a batch job: by free numbers first, then by new ones.

Clients count instances; a stored config says where the numbers end. They differ by the released instances.
"""

from __future__ import annotations

from typing import NamedTuple

from jobmgr.services.common.view import JobView
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, Refused
from peloton.model.job import MAX_INSTANCES
from peloton.model.plural import plural
from peloton.model.states import JobState, JobType


class Growth(NamedTuple):
    """What an update adds."""

    config: job_pb2.JobConfig
    """The config that is asked for, `instanceCount` being one more than the highest number."""
    instances: int
    """How many are wanted in all."""
    reused: int
    """How many of them get free numbers."""


def growth(job: JobView, wanted: job_pb2.JobConfig) -> Growth:
    """Return what an update adds to a job.

    Raises InvalidArgument where it asks for fewer instances than there are, and Refused where too many
    numbers are not free yet.
    """
    count, held = wanted.instanceCount, job.instance_count
    if not job.runtime.released or job.cached is None or count > MAX_INSTANCES:
        return Growth(wanted, count, 0)
    if count < held:
        text = f"at least {held}: an update cannot shrink a job; ReleaseInstances does"
        raise InvalidArgument("instanceCount", count, text)
    reused = min(count - held, len(job.cached.free))
    size = job.size + count - held - reused
    if size > MAX_INSTANCES:
        missing = plural(size - MAX_INSTANCES, "released instance")
        raise Refused(
            f"instanceCount: {count}: numbers end at {MAX_INSTANCES - 1}, and those of {missing} are needed, "
            "which have not ended yet: try again when they have"
        )
    config = job_pb2.JobConfig()
    config.CopyFrom(wanted)
    config.instanceCount = size
    return Growth(config, count, reused)


def check_updatable(job: JobView) -> None:
    """Raise Refused for a job to which no instance can be added any more."""
    if job.spec.type is not JobType.BATCH:
        raise Refused(f"type: {job.spec.type.name}: only batch jobs can be updated with this call")
    if job.runtime.state.terminal:
        raise Refused(f"the job has ended ({job.runtime.state.name}): it cannot be updated any more")
    if job.runtime.goal is JobState.KILLED:
        raise Refused("the job is being stopped: it cannot be updated any more")


def shown_config(job: JobView) -> job_pb2.JobConfig:
    """Return the newest config as clients see it: without what it says of released instances."""
    config = job_pb2.JobConfig()
    config.CopyFrom(job.config)
    config.instanceCount = job.instance_count
    if job.runtime.released:
        for instance in [each for each in config.instanceConfig if job.is_released(each)]:
            del config.instanceConfig[instance]
    return config
