"""States of jobs and pods as the v1alpha API names them."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.states import JobState, TaskState

POD_STATES: Mapping[TaskState, pod_pb2.PodState.ValueType] = {
    state: pod_pb2.PodState.Value(
        "POD_STATE_INVALID" if state is TaskState.UNKNOWN else f"POD_STATE_{state.name}"
    )
    for state in TaskState
}
TASK_STATES: Mapping[int, TaskState] = {number: state for state, number in POD_STATES.items()}

CONTAINER_STATES: Mapping[TaskState, pod_pb2.ContainerState.ValueType] = {
    TaskState.UNKNOWN: pod_pb2.CONTAINER_STATE_INVALID,
    TaskState.INITIALIZED: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.PENDING: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.READY: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.PLACING: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.PLACED: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.RESERVED: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.LAUNCHING: pod_pb2.CONTAINER_STATE_PENDING,
    TaskState.LAUNCHED: pod_pb2.CONTAINER_STATE_LAUNCHED,
    TaskState.STARTING: pod_pb2.CONTAINER_STATE_STARTING,
    TaskState.RUNNING: pod_pb2.CONTAINER_STATE_RUNNING,
    TaskState.PREEMPTING: pod_pb2.CONTAINER_STATE_RUNNING,
    TaskState.KILLING: pod_pb2.CONTAINER_STATE_KILLING,
    TaskState.SUCCEEDED: pod_pb2.CONTAINER_STATE_SUCCEEDED,
    TaskState.FAILED: pod_pb2.CONTAINER_STATE_FAILED,
    TaskState.LOST: pod_pb2.CONTAINER_STATE_FAILED,
    TaskState.KILLED: pod_pb2.CONTAINER_STATE_KILLED,
    TaskState.DELETED: pod_pb2.CONTAINER_STATE_KILLED,
}
"""The state of a pod's container by the state of its run."""


def pod_state_name(state: TaskState) -> str:
    """Return the name of a pod's state."""
    return pod_pb2.PodState.Name(POD_STATES[state])


def job_state(state: JobState) -> stateless_pb2.JobState.ValueType:
    """Return the state of a job; the numbers are those of the model."""
    return stateless_pb2.JobState.ValueType(state)


def config_entity_version(version: int) -> peloton_pb2.EntityVersion:
    """Return the version of a pod, which is that of its config."""
    return peloton_pb2.EntityVersion(value=f"{version}-0-0")
