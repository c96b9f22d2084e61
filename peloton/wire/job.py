"""Translate job configs and runtimes between the v0 wire and the model."""

from __future__ import annotations

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.clock import rfc3339
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec, JobSummary, Sla
from peloton.model.payload import ApiVersion, Payload, SecretRef
from peloton.model.states import JobType, PlacementStrategy
from peloton.wire.constraint import labels_from, labels_to
from peloton.wire.overrides import merged
from peloton.wire.schedule import schedule_from, status_to
from peloton.wire.scheduling import dependencies
from peloton.wire.task import task_spec
from peloton.wire.workload import job_workload


def job_spec(config: job_pb2.JobConfig, version: int, payload: Payload | None = None) -> JobSpec:
    """Decode a config. `payload` is what it was made of, where that is of another API.

    Raises InvalidArgument for an incomplete constraint.
    """
    sla = config.sla
    payload = config_payload(config) if payload is None else payload
    secrets, compared = payload.secrets, config.type != job_pb2.BATCH
    default = task_spec(config.defaultConfig, "defaultConfig", secrets, compared)
    overrides = {
        instance: task_spec(
            merged(config.defaultConfig, override), f"instanceConfig[{instance}]", secrets, compared
        )
        for instance, override in config.instanceConfig.items()
    }
    return JobSpec(
        version=version,
        name=config.name,
        type=JobType(config.type),
        pool_id=config.respoolID.value,
        instance_count=0 if config.type == job_pb2.DAEMON else config.instanceCount,
        sla=Sla(
            priority=sla.priority,
            preemptible=sla.preemptible,
            revocable=sla.revocable,
            maximum_running_instances=sla.maximumRunningInstances,
            minimum_running_instances=sla.minimumRunningInstances,
            max_running_time=sla.maxRunningTime,
            maximum_unavailable_instances=sla.maximumUnavailableInstances,
            priority_class=sla.priorityClass,
        ),
        default=default,
        overrides=overrides,
        owning_team=config.owningTeam,
        owner=config.owner,
        labels=labels_from(config.labels),
        placement_strategy=PlacementStrategy(config.placementStrategy),
        workload=job_workload(config),
        depends_on=dependencies(config),
        schedule=schedule_from(config),
        has_peers=any(task.workload.peer is not None for task in (default, *overrides.values())),
        payload=payload,
    )


def config_payload(config: job_pb2.JobConfig, secrets: tuple[SecretRef, ...] = ()) -> Payload:
    """Return the payload that keeps a config as it was given, with its references to secrets."""
    return Payload(ApiVersion.V0, config.SerializeToString(deterministic=True), secrets)


def sla_to(sla: Sla) -> job_pb2.SlaConfig:
    """Encode an SLA."""
    return job_pb2.SlaConfig(
        priority=sla.priority,
        preemptible=sla.preemptible,
        revocable=sla.revocable,
        maximumRunningInstances=sla.maximum_running_instances,
        minimumRunningInstances=sla.minimum_running_instances,
        maxRunningTime=sla.max_running_time,
        maximumUnavailableInstances=sla.maximum_unavailable_instances,
        priorityClass=sla.priority_class,
    )


def job_runtime_to(runtime: JobRuntime) -> job_pb2.RuntimeInfo:
    """Encode the runtime of a job."""
    wire = job_pb2.RuntimeInfo(
        state=job_pb2.JobState.ValueType(runtime.state),
        goalState=job_pb2.JobState.ValueType(runtime.goal),
        creationTime=rfc3339(runtime.creation_time),
        startTime=rfc3339(runtime.start_time),
        completionTime=rfc3339(runtime.completion_time),
        taskStats={state.name: count for state, count in runtime.task_counts.items()},
        configurationVersion=runtime.config_version,
        configVersion=runtime.config_version,
        resourceUsage=runtime.resource_usage,
        workflowVersion=runtime.workflow_version,
        stateVersion=runtime.state_version,
        desiredStateVersion=runtime.desired_state_version,
        taskConfigVersionStats=runtime.config_counts,
        releasedInstances=runtime.released,
        revision=peloton_pb2.ChangeLog(
            version=runtime.revision, createdAt=runtime.creation_time, updatedAt=runtime.updated_at
        ),
    )
    if runtime.update_id:
        wire.updateID.value = runtime.update_id
    if loop := runtime.crash_loop:
        wire.nextTryTime, wire.throttledInstances = rfc3339(loop.next_try), loop.throttled
        wire.reason = loop.told(wire.nextTryTime)
    if runtime.suspended and not runtime.state.terminal:
        wire.suspendedSince = rfc3339(runtime.suspended)
    if runtime.waits:
        wire.reason = runtime.waits
    if runtime.follows:
        wire.schedule.CopyFrom(status_to(*runtime.follows, runtime.schedule_state))
    gang = runtime.gang_restart or runtime.gang_members
    if gang is not None:
        wire.reason = gang.told()
    return wire


def job_summary_to(job: JobSummary) -> job_pb2.JobSummary:
    """Encode a job summary."""
    spec = job.spec
    return job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=job.job_id),
        name=spec.name,
        type=job_pb2.JobType.ValueType(spec.type),
        owner=spec.owning_team,
        owningTeam=spec.owning_team,
        labels=labels_to(spec.labels),
        instanceCount=job.instance_count,
        respoolID=peloton_pb2.ResourcePoolID(value=spec.pool_id),
        runtime=job_runtime_to(job.runtime),
        sla=sla_to(spec.sla),
    )


def job_info_to(job_id: JobId, config: job_pb2.JobConfig, runtime: JobRuntime) -> job_pb2.JobInfo:
    """Encode a job's config and runtime."""
    return job_pb2.JobInfo(id=peloton_pb2.JobID(value=job_id), config=config, runtime=job_runtime_to(runtime))
