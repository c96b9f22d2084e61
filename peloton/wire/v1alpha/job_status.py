"""Translate runtimes and summaries of jobs from the model into messages of the v1alpha API."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.clock import rfc3339
from peloton.model.job import JobRuntime, JobSummary, Sla
from peloton.model.states import TaskState
from peloton.model.workflow import EntityVersion
from peloton.wire.v1alpha.constraint import labels_to
from peloton.wire.v1alpha.states import config_entity_version, job_state, pod_state_name

VersionCounts = Mapping[int, Mapping[TaskState, int]]
"""Instances by state, by version of their config."""


def entity_version(runtime: JobRuntime) -> EntityVersion:
    """Return the version of a job for optimistic concurrency."""
    return EntityVersion(runtime.config_version, runtime.desired_state_version, runtime.workflow_version)


def version_to(version: EntityVersion) -> peloton_pb2.EntityVersion:
    """Encode an entity version."""
    return peloton_pb2.EntityVersion(value=str(version))


def job_status(runtime: JobRuntime, by_version: VersionCounts | None = None) -> stateless_pb2.JobStatus:
    """Encode the runtime of a job, without its workflow.

    `by_version` may be left out where it follows from the runtime: where all instances have one version.
    """
    versions = runtime.config_counts
    if by_version is None and len(versions) == 1:
        by_version = dict.fromkeys(versions, runtime.task_counts)
    status = stateless_pb2.JobStatus(
        revision=peloton_pb2.Revision(
            version=runtime.revision, created_at=runtime.creation_time, updated_at=runtime.updated_at
        ),
        state=job_state(runtime.state),
        creation_time=rfc3339(runtime.creation_time),
        pod_stats=_stats(runtime.task_counts),
        released_instances=runtime.released,
        desired_state=job_state(runtime.goal),
        version=version_to(entity_version(runtime)),
        pod_configuration_version_stats={
            config_entity_version(version).value: count for version, count in versions.items()
        },
    )
    if loop := runtime.crash_loop:
        status.next_try_time, status.throttled_pods = rfc3339(loop.next_try), loop.throttled
        status.reason = loop.told(status.next_try_time)
    if runtime.waits:
        status.reason = runtime.waits
    for version, counts in (by_version or {}).items():
        stats = status.pod_stats_by_configuration_version[config_entity_version(version).value]
        stats.state_stats.update(_stats(counts))
    return status


def job_summary(job: JobSummary) -> stateless_pb2.JobSummary:
    """Encode a job summary."""
    spec = job.spec
    return stateless_pb2.JobSummary(
        job_id=peloton_pb2.JobID(value=job.job_id),
        name=spec.name,
        owner=spec.owning_team,
        owning_team=spec.owning_team,
        labels=labels_to(spec.labels),
        instance_count=job.instance_count,
        respool_id=peloton_pb2.ResourcePoolID(value=spec.pool_id),
        status=job_status(job.runtime),
        sla=_sla(spec.sla),
    )


def _sla(sla: Sla) -> stateless_pb2.SlaSpec:
    return stateless_pb2.SlaSpec(
        priority=sla.priority,
        preemptible=sla.preemptible,
        revocable=sla.revocable,
        maximum_unavailable_instances=sla.maximum_unavailable_instances,
    )


def _stats(counts: Mapping[TaskState, int]) -> dict[str, int]:
    return {pod_state_name(state): count for state, count in counts.items()}
