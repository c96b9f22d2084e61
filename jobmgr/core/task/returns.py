"""Instances that come back to their host, which is held for them meanwhile.

A kill for an update or a restart in place holds room of the host until the instance's next run is launched.
As soon as an instance is to end, or to go elsewhere, what is held for it is released.
"""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.instructions import Instruction, ReleaseHolds, RenewHolds
from jobmgr.core.task.goal import Goal, goal_of
from peloton.model.cluster import cluster_of
from peloton.model.ids import TaskId, task_id
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime

_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})
_LAUNCHED = frozenset({TaskState.STARTING, TaskState.RUNNING})
"""States after a launch, which has ended the hold."""


def returns_to(goal: JobState, task: TaskRuntime) -> str:
    """Return the host that may be held for an instance's next run; empty: none. `goal` is the job's."""
    wanted = goal_of(goal, task)
    if wanted is Goal.RESTART or (wanted is Goal.RUN and task.state in _WAITS):
        return task.desired_host
    return ""


def hold_instructions(change: Change) -> list[Instruction]:
    """Return what is to be done about holds after a change: release those that have lost their purpose.

    One is renewed where its instance still comes back, but with another config than before.
    """
    released: dict[str, list[TaskId]] = {}
    renewed: dict[str, list[tuple[int, str]]] = {}
    before = change.job.tasks
    for instance, task in change.tasks.items():
        old = before[instance] if instance < len(before) else task
        if not old.desired_host or old is task:
            continue
        host = _held(old)
        if not host:
            continue
        if not _keeps(change.goal, task, host):
            released.setdefault(cluster_of(host), []).append(task_id(change.job_id, instance))
        elif task.desired_config_version != old.desired_config_version:
            renewed.setdefault(cluster_of(host), []).append((instance, host))
    made: list[Instruction] = [ReleaseHolds(tuple(ids), cluster) for cluster, ids in released.items()]
    return made + [RenewHolds(change.job_id, tuple(some), name) for name, some in renewed.items()]


def _held(task: TaskRuntime) -> str:
    """Return the host that may be held for an instance, whatever the goal of its job is by now."""
    # The launch of a run ends its hold, but it may have been refused.
    return task.desired_host if task.state is TaskState.LAUNCHED else returns_to(JobState.RUNNING, task)


def _keeps(goal: JobState, task: TaskRuntime, host: str) -> bool:
    """Return whether a host stays held for an instance, or was used by it."""
    if task.state in _LAUNCHED:
        return True
    if task.state is TaskState.LAUNCHED:
        # A launch ends the hold where it was made at the same host manager; where it is refused, the instance
        # comes back to its host.
        comes_back = task.desired_host == host and goal_of(goal, task) is not Goal.STOP
        return comes_back and cluster_of(task.host) == cluster_of(host)
    return returns_to(goal, task) == host
