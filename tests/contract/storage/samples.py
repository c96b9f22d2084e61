"""Model objects with every field filled, for writing and reading back."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.host import HostInfo
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.states import HealthState, HostState, JobState, TaskState, TerminationReason
from peloton.model.task import PodEvent, TaskRuntime, Termination
from peloton.wire.job import job_spec

POOL_ID = "5a3c1ed0-0000-4000-8000-000000000001"
HOUR = 3_600_000_000_000


def job_id(number: int) -> str:
    return str(UUID(int=number, version=4))


def spec(
    version: int = 1,
    name: str = "wordcount",
    *,
    team: str = "ann",
    pool_id: str = POOL_ID,
    labels: tuple[tuple[str, str], ...] = (("team", "maps"),),
    command: str = "echo Hello; sleep 1",
) -> JobSpec:
    """Of three instances, of which the second has a command of its own."""
    config = job_pb2.JobConfig(
        name=name,
        type=job_pb2.BATCH,
        owner="maintainer",
        owningTeam=team,
        description="Counts words",
        labels=[peloton_pb2.Label(key=key, value=value) for key, value in labels],
        instanceCount=3,
        sla=job_pb2.SlaConfig(priority=7, preemptible=True, maximumRunningInstances=2),
        defaultConfig=task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=64),
            ports=[task_pb2.PortConfig(name="http", envName="HTTP_PORT")],
        ),
        respoolID=peloton_pb2.ResourcePoolID(value=pool_id),
    )
    config.defaultConfig.command.value = command
    config.instanceConfig[1].command.value = "echo Second"
    return job_spec(config, version)


def job_runtime(state: JobState = JobState.RUNNING, created: int = HOUR, completed: int = 0) -> JobRuntime:
    return JobRuntime(
        state=state,
        goal=JobState.SUCCEEDED,
        config_version=1,
        creation_time=created,
        start_time=created + 1,
        completion_time=completed,
        task_counts={TaskState.RUNNING: 2, TaskState.PENDING: 1},
        config_counts={1: 3},
        workflow_version=2,
        state_version=3,
        desired_state_version=4,
        update_id="an update",
        resource_usage={"cpu": 1.25, "memory": 0.1},
        revision=5,
        updated_at=created + 2,
    )


def task_runtime(run: int = 1, state: TaskState = TaskState.FAILED) -> TaskRuntime:
    return TaskRuntime(
        state=state,
        goal=TaskState.SUCCEEDED,
        run=run,
        config_version=1,
        desired_config_version=2,
        desired_run=run + 1,
        previous_run=run - 1,
        host="host-1",
        agent_id="agent-S1",
        ports={"http": 31000},
        start_time=HOUR,
        completion_time=2 * HOUR,
        message='Command exited with status 3, said "no"\n—',
        reason="COMMAND_EXECUTOR_FAILED",
        failure_count=2,
        health=HealthState.UNHEALTHY,
        termination=Termination(TerminationReason.FAILED, 3, "SIGABRT"),
        desired_host="host-2",
        volume_id="a volume",
        resource_usage={"cpu": 0.3},
        revision=9,
        created_at=HOUR,
        updated_at=2 * HOUR + 1,
    )


def event(
    job: str, instance: int = 0, run: int = 1, state: TaskState = TaskState.RUNNING, timestamp: int = HOUR
) -> PodEvent:
    return PodEvent(
        job_id=job,
        instance=instance,
        run=run,
        state=state,
        goal=TaskState.SUCCEEDED,
        timestamp=timestamp,
        config_version=1,
        desired_config_version=2,
        previous_run=run - 1,
        desired_run=run,
        agent_id="agent-S1",
        hostname="host-1",
        message='it\'s "on"',
        reason="A_REASON",
        health=HealthState.HEALTHY,
        termination=Termination(TerminationReason.KILLED_FOR_SLA_AWARE_RESTART, 0, "Terminated"),
    )


def pool(pool_id: str = POOL_ID, name: str = "maps") -> PoolConfig:
    return PoolConfig(
        id=pool_id,
        name=name,
        parent="root",
        kinds={
            "cpu": KindConfig(4000, 8000, 2.5, ReservationType.STATIC),
            "memory": KindConfig(1, 2, 0.0),
        },
        owning_team="maps-team",
        ldap_groups=("maps", "ops"),
        description="of the maps team",
        controller_limit_percent=50.0,
        slack_limit_percent=None,
        version=3,
        created_at=HOUR,
        updated_at=HOUR + 1,
        updated_by="ann",
    )


def host(hostname: str = "host-1") -> HostInfo:
    return HostInfo(
        hostname=hostname,
        ip="10.0.0.1",
        state=HostState.DRAINING,
        goal=HostState.DOWN,
        labels=(("rack", "r1"), ("zone", "z1")),
        current_pool="default",
        desired_pool="shared",
        since=1_700_000_000_123_456_789,
    )


def with_state(runtime: JobRuntime, state: JobState, revision: int) -> JobRuntime:
    return replace(runtime, state=state, revision=revision)
