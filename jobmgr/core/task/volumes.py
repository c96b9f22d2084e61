"""Persistent volumes of instances: from the placement of their first run to their deletion.

A volume is stored as INITIALIZED before the launch that creates it, and is CREATED when its run has started.
From then on its instance runs on its host only. One whose first run did not start is given up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from jobmgr.core.state.change import Change
from jobmgr.core.task.goal import Goal, goal_of
from jobmgr.core.task.retry import EndCause
from peloton.errors import PelotonError, Refused
from peloton.model.ids import Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.volume import Volume, VolumeState, volume_id

_BEFORE_START = frozenset({TaskState.INITIALIZED, TaskState.PENDING, TaskState.LAUNCHED})
_INVALID = "TASK_INVALID"
"""Mesos' reason of a task that its master refused, with its operations."""


class Home(NamedTuple):
    """The volume of an instance, and the host that it is on; both empty where there is none."""

    volume_id: str = ""
    host: str = ""


NO_HOME = Home()


def home_for_launch(change: Change, run: Run, task: TaskRuntime, hostname: str) -> Home:
    """Return the volume to launch a run with on a host: a new one where the instance has none yet."""
    spec = change.task_spec(run.instance).volume
    if spec is None or task.volume_id:
        return Home(task.volume_id, task.desired_host)
    new = volume_id(*run)
    now = change.timestamp()
    states = VolumeState.INITIALIZED, VolumeState.CREATED
    change.put_volume(
        Volume(new, run.job_id, run.instance, hostname, spec.size_mb, spec.container_path, *states, now, now)
    )
    return Home(new, hostname)


def home_for_next_run(change: Change, instance: int, task: TaskRuntime, version: int) -> Home:
    """Return the volume that the next run, of a version of the config, goes to.

    A volume whose first run did not start is given up: it has no data. One that the config no longer has
    stays, until it is deleted.
    """
    volume = change.volume(task.volume_id)
    if volume is not None and volume.state is VolumeState.INITIALIZED:
        _give_up(change, volume)
        return NO_HOME
    if not task.volume_id or change.specs[version].task(instance).volume is None:
        return NO_HOME
    return Home(task.volume_id, task.desired_host if volume is None else volume.hostname)


def volume_host(task: TaskRuntime) -> str:
    """Return the host of a task's volume; empty where it has none."""
    return task.desired_host if task.volume_id else ""


def give_up_unused(change: Change) -> None:
    """Give up volumes that a leader stored, and did not come to store the task that was to have them.

    One of the present run may still be used: its run is placed again.
    """
    for volume in list(change.job.volumes.values()):
        task = change.task(volume.instance)
        used = volume.id in (task.volume_id, volume_id(change.job_id, volume.instance, task.run))
        if volume.state is VolumeState.INITIALIZED and not used:
            _give_up(change, volume)
        elif volume.id == task.volume_id:
            give_up_unstarted(change, volume.instance)


def note_started(change: Change, task: TaskRuntime) -> None:
    """Note that a run has started: its volume exists."""
    volume = change.volume(task.volume_id)
    if volume is not None and volume.state is VolumeState.INITIALIZED:
        change.put_volume(replace(volume, state=VolumeState.CREATED, updated_at=change.timestamp()))


def note_ended(change: Change, task: TaskRuntime, cause: EndCause, status: TaskStatus) -> None:
    """Note that a run has ended, which may have started without a status of it."""
    unstarted = cause in (EndCause.NOT_STARTED, EndCause.SYSTEM) or status.reason == _INVALID
    if not (unstarted and task.state in _BEFORE_START):
        note_started(change, task)


def give_up_unstarted(change: Change, instance: int) -> None:
    """Give up the volume of an instance that has ended, where no run has started with it."""
    task = change.task(instance)
    volume = change.volume(task.volume_id)
    if task.state.terminal and volume is not None and volume.state is VolumeState.INITIALIZED:
        _give_up(change, volume)
        change.revise(instance, volume_id="", desired_host="")


def deletion_refused(change: Change, volume: Volume) -> PelotonError | None:
    """Return why a volume is not deleted; None where it may be."""
    task = change.task(volume.instance)
    if task.volume_id != volume.id or task.state not in ON_HOST_TASK_STATES:
        return None
    return Refused(
        f"volume {volume.id} is in use: run {task.run} of instance {volume.instance} is {task.state.name} on "
        f"{task.host}; stop the instance first"
    )


def delete(change: Change, volume: Volume) -> bool:
    """Delete a volume; return whether its instance must be enqueued again, to be placed anywhere."""
    _give_up(change, volume)
    task = change.task(volume.instance)
    if task.volume_id != volume.id:
        return False
    waits = not task.state.terminal and goal_of(change.goal, task) is Goal.RUN
    desired_run = task.run + 1 if waits else task.desired_run
    change.revise(volume.instance, volume_id="", desired_host="", desired_run=desired_run)
    return waits


def _give_up(change: Change, volume: Volume) -> None:
    change.put_volume(replace(volume, goal=VolumeState.DELETED, updated_at=change.timestamp()))
