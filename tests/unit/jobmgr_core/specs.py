"""Job specs for the core's tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobmgr.core.state.cache import CachedJob
from peloton.api.v0.job import job_pb2
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskRuntime
from peloton.model.workflow import Workflow
from peloton.wire.job import job_spec

JOB = "0f3f5c2a-0000-4000-8000-000000000001"
POOL = "b3f1c2de-0000-4000-8000-000000000001"


def spec(instances: int = 1, version: int = 1, max_failures: int = 0, **sla: Any) -> JobSpec:
    """A batch job of `instances` of one cpu each."""
    return job_spec(config(instances, max_failures, **sla), version)


def config(instances: int = 1, max_failures: int = 0, **sla: Any) -> job_pb2.JobConfig:
    wire = job_pb2.JobConfig(name="job", instanceCount=instances, sla=job_pb2.SlaConfig(**sla))
    wire.respoolID.value = POOL
    wire.defaultConfig.command.value = "true"
    wire.defaultConfig.resource.cpuLimit = 1.0
    wire.defaultConfig.resource.memLimitMb = 100.0
    wire.defaultConfig.restartPolicy.maxFailures = max_failures
    return wire


def stored_job(
    runtime: JobRuntime,
    rows: Mapping[int, TaskRuntime],
    newest: JobSpec,
    *older: JobSpec,
    workflow: Workflow | None = None,
) -> CachedJob:
    """Return a job as recovery reads it from the store."""
    job = CachedJob(JOB, newest, runtime, workflow)
    job.fill(rows)
    used = job.versions()
    job.specs.update({each.version: each for each in older if each.version in used})
    return job
