"""Job specs for the core's tests."""

from __future__ import annotations

from typing import Any

from peloton.api.v0.job import job_pb2
from peloton.model.job import JobSpec
from peloton.wire.job import job_spec

JOB = "0f3f5c2a-0000-4000-8000-000000000001"
POOL = "b3f1c2de-0000-4000-8000-000000000001"


def spec(instances: int = 1, version: int = 1, max_failures: int = 0, **sla: Any) -> JobSpec:
    """A batch job of `instances` that ask for one cpu each."""
    return job_spec(config(instances, max_failures, **sla), version)


def config(instances: int = 1, max_failures: int = 0, **sla: Any) -> job_pb2.JobConfig:
    wire = job_pb2.JobConfig(name="job", instanceCount=instances, sla=job_pb2.SlaConfig(**sla))
    wire.respoolID.value = POOL
    wire.defaultConfig.command.value = "true"
    wire.defaultConfig.resource.cpuLimit = 1.0
    wire.defaultConfig.resource.memLimitMb = 100.0
    wire.defaultConfig.restartPolicy.maxFailures = max_failures
    return wire
