"""Where one instance stands in a workflow.

It follows from the instance's runtime alone: nothing but the rows and the workflow has to be stored, and a
new leader goes on where the last one was.

An instance has been taken up by the workflow when its desired version is the target. It is done when it runs
that version and is healthy, or has ended as it should.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.model.availability import is_serving
from peloton.model.job import JobSpec
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import Workflow, WorkflowType

_NO_ROW = frozenset({TaskState.UNKNOWN, TaskState.DELETED})


class Stage(Enum):
    """Where an instance stands."""

    NONE = "none"
    """The workflow is not about it."""
    ADD = "add"
    UPDATE = "update"
    """It is to get the target version with a new run, or, in a STOP, to be stopped."""
    ADOPT = "adopt"
    """It is to get the target version as it is: its config is the same, or it is stopped."""
    REMOVE = "remove"
    CURRENT = "current"
    """In flight: taken up by the workflow, and not done."""
    ENDING = "ending"
    """Not taken up yet, for it is being stopped by somebody else."""
    DONE = "done"
    FAILED = "failed"
    """Taken up, and out of attempts."""


_TURNED = frozenset({Stage.UPDATE, Stage.REMOVE})
"""Stages of instances that a rollback may find in flight."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a workflow brings instances to, in its present direction."""

    workflow: Workflow
    specs: Mapping[int, JobSpec]
    """The versions in use."""
    job_goal: JobState

    @property
    def target(self) -> int:
        """Return the version that the instances are brought to."""
        return self.workflow.target_version

    @property
    def count(self) -> int:
        """Return how many instances the job has with the target version."""
        return self.specs[self.target].instance_count

    @property
    def follows_hosts(self) -> bool:
        """Return whether hosts decide which instances there are, in place of the workflow."""
        return self.specs[self.target].type is JobType.DAEMON


def is_held(task: TaskRuntime) -> bool:
    """Return whether a workflow has stopped the instance, to start it later: nobody else wants it stopped."""
    return task.goal is TaskState.KILLED and task.desired_run > task.run


def is_underway(aim: Aim, stage: Stage, task: TaskRuntime) -> bool:
    """Return whether an instance that is not taken up yet has its part of the batch already.

    That is one which will be in flight as soon as it is adopted, and one that a rollback finds in flight.
    """
    serves = is_serving(task) and task.desired_run <= task.run
    if stage is Stage.ADOPT:
        return task.goal is TaskState.RUNNING and not serves
    if stage not in _TURNED or not aim.workflow.rolling_back or is_held(task):
        return False
    if task.goal is TaskState.DELETED:
        return True
    return task.desired_config_version == aim.workflow.config_version and not serves


def stage_of(aim: Aim, instance: int, task: TaskRuntime) -> Stage:
    """Return where an instance stands. `task` in UNKNOWN: it has no row."""
    workflow = aim.workflow
    if workflow.type is WorkflowType.UPDATE:
        return _updated(aim, instance, task)
    concerned = not workflow.ranges or any(instance in some for some in workflow.ranges)
    if not concerned or task.state in _NO_ROW or task.goal is TaskState.DELETED:
        return Stage.NONE
    if workflow.type is WorkflowType.STOP:
        return _stopped(aim, task)
    return _renewed(aim, instance, task)


def _updated(aim: Aim, instance: int, task: TaskRuntime) -> Stage:
    if aim.follows_hosts:
        if task.state in _NO_ROW or task.goal is TaskState.DELETED:
            return Stage.NONE
    elif instance >= aim.count:
        if task.state in _NO_ROW:
            mine = any(instance in some for some in aim.workflow.removed)
            return Stage.DONE if mine and task.state is TaskState.DELETED else Stage.NONE
        return Stage.CURRENT if task.goal is TaskState.DELETED else Stage.REMOVE
    if task.state in _NO_ROW:
        return Stage.ADD
    if task.goal is TaskState.DELETED:
        # Where the job is stopped, it is added again, stopped, once it is gone.
        return Stage.ENDING if aim.job_goal in ENDING_JOB_GOALS else Stage.UPDATE
    if aim.workflow.rolling_back and not _is_touched(aim, task):
        return Stage.DONE
    return _renewed(aim, instance, task)


def _is_touched(aim: Aim, task: TaskRuntime) -> bool:
    """Return whether a rollback is about the instance. One of another version was not updated: it stays."""
    versions = (aim.workflow.config_version, aim.target)
    return task.desired_config_version in versions or is_held(task)


def _renewed(aim: Aim, instance: int, task: TaskRuntime) -> Stage:
    """Return the stage of an instance that gets the target version with a new run, unless it is stopped."""
    taken = task.desired_config_version == aim.target
    if aim.job_goal in ENDING_JOB_GOALS or (task.goal is TaskState.KILLED and not _starts(aim, task, taken)):
        return _resting(task, aim.target)
    if taken and not is_held(task):
        return _taken(aim, task)
    return Stage.ADOPT if _is_same(aim, instance, task) else Stage.UPDATE


def _starts(aim: Aim, task: TaskRuntime, taken: bool) -> bool:
    """Return whether the workflow starts a stopped instance. One taken up was stopped again since."""
    if is_held(task):
        return True
    return aim.workflow.starts_stopped and not taken and not aim.workflow.rolling_back


def _resting(task: TaskRuntime, target: int) -> Stage:
    """Return the stage of an instance that shall not run."""
    if not task.state.terminal:
        return Stage.ENDING
    same = task.config_version == task.desired_config_version == target
    return Stage.DONE if same else Stage.ADOPT


def _taken(aim: Aim, task: TaskRuntime) -> Stage:
    current = task.config_version == aim.target and task.desired_run <= task.run
    if current and is_serving(task):
        return Stage.DONE
    most = aim.workflow.options.max_instance_attempts
    return Stage.FAILED if most and task.failure_count >= most else Stage.CURRENT


def _is_same(aim: Aim, instance: int, task: TaskRuntime) -> bool:
    """Return whether the instance may get the target version without a new run."""
    if aim.workflow.type is WorkflowType.RESTART or is_held(task) or task.goal is TaskState.KILLED:
        return False
    if task.desired_run > task.run or task.config_version != task.desired_config_version:
        return False
    if aim.workflow.type is WorkflowType.START:
        return True
    return not is_changed(aim, instance, task)


def is_changed(aim: Aim, instance: int, task: TaskRuntime) -> bool:
    """Return whether the target version has another config for the instance than it has now."""
    old, new = aim.specs[task.config_version].task(instance), aim.specs[aim.target].task(instance)
    return old.fingerprint != new.fingerprint


def _stopped(aim: Aim, task: TaskRuntime) -> Stage:
    """Return the stage of an instance that a STOP stops."""
    if task.goal is TaskState.KILLED or aim.job_goal in ENDING_JOB_GOALS:
        stage = _resting(task, aim.target)
        mine = task.desired_config_version == aim.target
        return Stage.CURRENT if stage is Stage.ENDING and mine else stage
    taken = task.desired_config_version == aim.target
    return Stage.DONE if taken else Stage.UPDATE
