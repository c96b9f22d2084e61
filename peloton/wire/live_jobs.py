"""Translate active jobs, as far as scheduling depends on them, between the model and the wire.

What a job runs is left out, and so are ports and volumes.
"""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.workload import workload_pb2
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.live_state import LiveJob, seconds_of_runs
from peloton.model.states import ON_HOST_TASK_STATES, JobType, TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.wire.constraint import constraint_to, labels_to
from peloton.wire.job import job_spec, sla_to
from peloton.wire.task import resources_to

MOST_DURATIONS = 200
"""Durations of ended instances that a job tells."""
_VERSION = 1


# To the wire.


def live_job_to(
    job_id: JobId, spec: JobSpec, created: int, tasks: Iterable[tuple[int, TaskRuntime]]
) -> forecast_pb2.LiveJob:
    """Encode a job, whose tasks come in the order of their instances."""
    wire = forecast_pb2.LiveJob(
        id=peloton_pb2.JobID(value=job_id), config=scheduling_config(spec), created=created
    )
    positions: dict[str, int] = {}
    last = -2
    for instance, task in tasks:
        if task.state.terminal and task.goal.terminal:
            if instance == last + 1:
                wire.ended[-1] += 1
            else:
                wire.ended.extend((instance, 1))
            last = instance
            wire.seconds.extend(seconds_of_runs((task,)))
            continue
        _add_task(wire, instance, task, positions)
    wire.hostnames.extend(positions)
    del wire.seconds[:-MOST_DURATIONS]
    return wire


def _add_task(
    wire: forecast_pb2.LiveJob, instance: int, task: TaskRuntime, positions: dict[str, int]
) -> None:
    wire.instances.append(instance)
    wire.states.append(task.state)
    wire.goals.append(task.goal)
    wire.runs.append(task.run)
    wire.started.append(task.start_time)
    wire.updated.append(task.updated_at)
    on_host = task.host if task.state in ON_HOST_TASK_STATES else ""
    wire.hosts.append(positions.setdefault(on_host, len(positions) + 1) if on_host else 0)


def scheduling_config(spec: JobSpec) -> job_pb2.JobConfig:
    """Return the part of a job's config that scheduling depends on."""
    config = job_pb2.JobConfig(
        name=spec.name,
        type=job_pb2.JobType.ValueType(spec.type),
        owner=spec.owner,
        owningTeam=spec.owning_team,
        instanceCount=spec.instance_count,
        sla=sla_to(spec.sla),
        respoolID=peloton_pb2.ResourcePoolID(value=spec.pool_id),
        placementStrategy=job_pb2.PlacementStrategy.ValueType(spec.placement_strategy),
        defaultConfig=_task_config(spec.default),
        instanceConfig={instance: _task_config(task) for instance, task in spec.overrides.items()},
    )
    if spec.workload.elastic:
        config.workload.elastic.growth_interval_seconds = spec.workload.growth_interval
        config.workload.gang_policy = workload_pb2.GangPolicy.ValueType(spec.workload.gang_policy)
    return config


def _task_config(spec: TaskSpec) -> task_pb2.TaskConfig:
    config = task_pb2.TaskConfig(
        resource=resources_to(spec.resources),
        labels=labels_to(spec.labels),
        restartPolicy=task_pb2.RestartPolicy(maxFailures=spec.max_failures),
        controller=spec.controller,
        revocable=spec.revocable,
    )
    if spec.constraint is not None:
        config.constraint.CopyFrom(constraint_to(spec.constraint))
    if spec.preemptible is not None:
        policy = task_pb2.PreemptionPolicy
        config.preemptionPolicy.type = (
            policy.TYPE_PREEMPTIBLE if spec.preemptible else policy.TYPE_NON_PREEMPTIBLE
        )
    return config


# From the wire.


def live_job_from(wire: forecast_pb2.LiveJob) -> LiveJob:
    """Decode a job. Raises InvalidArgument for an incomplete constraint."""
    spec = job_spec(wire.config, _VERSION)
    tasks: dict[int, TaskRuntime] = {}
    rows = zip(
        wire.instances,
        wire.states,
        wire.goals,
        wire.runs,
        wire.started,
        wire.updated,
        wire.hosts,
        strict=True,
    )
    for instance, state, goal, run, started, updated, host in rows:
        tasks[instance] = TaskRuntime(
            state=TaskState(state),
            goal=TaskState(goal),
            run=run,
            config_version=_VERSION,
            desired_config_version=_VERSION,
            desired_run=run,
            host=wire.hostnames[host - 1] if host else "",
            start_time=started,
            created_at=wire.created,
            updated_at=updated,
        )
    end = TaskState.SUCCEEDED if spec.type is JobType.BATCH else TaskState.KILLED
    ended = TaskRuntime(
        state=end,
        goal=end,
        run=1,
        config_version=_VERSION,
        desired_config_version=_VERSION,
        desired_run=1,
        created_at=wire.created,
        updated_at=wire.created,
    )
    for first, count in zip(wire.ended[::2], wire.ended[1::2], strict=True):
        tasks.update(dict.fromkeys(range(first, first + count), ended))
    return LiveJob(wire.id.value, spec, wire.created, tasks, tuple(wire.seconds))
