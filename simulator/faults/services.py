"""What must hold for services: their SLA, the batches of updates, and that updates are kept and end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from jobmgr.core.state.change import Change
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.model.availability import Availability, availability_of
from peloton.model.ids import JobId
from peloton.model.states import JobType, TaskState, TerminationReason
from peloton.model.task import TaskRuntime
from peloton.model.workflow import Workflow, WorkflowId, WorkflowState
from simulator.faults.violation import Violation
from simulator.world.kernel import Kernel
from simulator.world.store import Store, StoredJob

_HELD_TO_SLA = frozenset(
    {
        TerminationReason.KILLED_HOST_MAINTENANCE,
        TerminationReason.PREEMPTED_RESOURCES,
        TerminationReason.KILLED_FOR_SLA_AWARE_RESTART,
    }
)
"""Why a run ends within the SLA only. Updates are not held to it."""
_NOT_THERE = frozenset({Availability.INVALID, Availability.DELETED})
"""Classes of instances that only an update makes wanted."""
QUIET_SECONDS = 150.0
"""After so long without a change of an instance an update waits: longer than the pause after a first failure,
and than all of a batch wait before what is to be removed makes room."""
IsPlaceable = Callable[[JobId, int], bool]
"""Tells whether an instance is admitted, and there has been room for it for a while."""


class AskedUpdate(NamedTuple):
    """An update that a client has asked for."""

    job_id: JobId
    batch: int
    """How many instances may be in flight."""


class ServiceChecks:
    """The invariants of services."""

    def __init__(self, store: Store, kernel: Kernel) -> None:
        self._store = store
        self._kernel = kernel
        self._moved: dict[JobId, float] = {}
        """When an instance of each job changed last."""
        self.asked: dict[WorkflowId, AskedUpdate] = {}
        self.acknowledged: set[WorkflowId] = set()

    def on_write(self, job_id: JobId, job: StoredJob, change: Change) -> None:
        """Check what is stored next."""
        if change.tasks:
            self._moved[job_id] = self._kernel.now
        for workflow in change.workflows.values():
            held = job.workflows.get(workflow.id)
            if held is not None and held.state.terminal and workflow != held:
                raise Violation(
                    f"update {workflow.id} is {held.state.name}, and is stored as {workflow.state.name}"
                )
        if change.spec.type is JobType.BATCH or change.goal in ENDING_JOB_GOALS:
            return
        before = {i: job.tasks.get(i) for i in job.tasks.keys() | change.tasks.keys()}
        after = {**before, **change.tasks}
        down = {i for i in after if _is_down(after[i])}
        up = _came_up(change)
        fallen = {i for i in down if i in up or availability_of(before[i]) is Availability.AVAILABLE}
        # Workflows add instances at the end of a cycle, when its evictions and restarts are decided.
        added = {i for i in down if availability_of(before[i]) in _NOT_THERE}
        limit = job.specs[change.spec.version].sla.maximum_unavailable_instances
        self._check_sla(job_id, limit, change, fallen, down - added)
        self._check_batch(job_id, change, before, fallen, down)

    def _check_sla(self, job_id: JobId, limit: int, change: Change, fallen: set[int], down: set[int]) -> None:
        """Check that nobody was evicted or restarted whom the SLA protects.

        What is lost, or added or taken down by an update, at the same moment is excused.
        """
        held = {i for i in fallen if _reason(change.tasks[i]) in _HELD_TO_SLA}
        unavailable = len(down - fallen | held)
        if limit and held and unavailable > limit:
            raise Violation(
                f"instances {sorted(held)} of {job_id} are killed, {unavailable} are unavailable, "
                f"and the SLA allows {limit}"
            )

    def _check_batch(
        self,
        job_id: JobId,
        change: Change,
        before: dict[int, TaskRuntime | None],
        fallen: set[int],
        down: set[int],
    ) -> None:
        """Check that an update which takes instances down has no more of them down than its batch has."""
        workflow = change.workflow
        asked = self.asked.get(workflow.id) if workflow is not None else None
        if workflow is None or asked is None:
            return
        target = workflow.target_version
        taken = {i for i in fallen if change.tasks[i].desired_config_version == target != _desired(before[i])}
        under_way = {i for i in down - fallen if _desired(change.task(i)) == target}
        if taken and len(taken | under_way) > asked.batch:
            raise Violation(
                f"update {workflow.id} of {job_id} takes down {sorted(taken)} beside {sorted(under_way)}, "
                f"and its batch is {asked.batch}"
            )

    def step(self) -> None:
        """Check that no acknowledged update is forgotten."""
        for workflow_id in self.acknowledged:
            job = self._store.jobs.get(self.asked[workflow_id].job_id)
            if job is None or workflow_id not in job.workflows:
                raise Violation(f"update {workflow_id} was acknowledged and is not stored")

    def stopping(self, job_id: JobId, is_placeable: IsPlaceable) -> None:
        """Check before a service is stopped that no update of it waits for nothing: the stop would end it.

        It may wait for room that others have, and for a program that fails to be run again.
        """
        job = self._store.jobs.get(job_id)
        if job is None or self._kernel.now - self._moved.get(job_id, 0.0) < QUIET_SECONDS:
            return
        for workflow in job.workflows.values():
            if workflow.state.terminal or workflow.state is WorkflowState.PAUSED:
                continue
            fault = _waits_in_vain(job_id, job, workflow, is_placeable)
            if fault:
                raise Violation(f"update {workflow.id} waits in vain before its service is stopped: {fault}")

    def end(self, jobs: Collection[JobId]) -> None:
        """Check that every update has ended."""
        for job_id in sorted(jobs):
            for workflow in self._store.jobs[job_id].workflows.values():
                if not workflow.state.terminal:
                    raise Violation(f"update {workflow.id} is {workflow.state.name} at the end")


def _waits_in_vain(job_id: JobId, job: StoredJob, workflow: Workflow, is_placeable: IsPlaceable) -> str:
    """Return why an update need not wait; empty: it has to."""
    target, tasks = workflow.target_version, job.tasks
    if any(task.failure_count for task in tasks.values()):
        return ""
    waiting = {
        i
        for i, task in tasks.items()
        if task.state is TaskState.PENDING and task.desired_config_version == target
    }
    if not waiting:
        return "no instance waits for room"
    count = job.specs[target].instance_count
    left = [i for i, task in tasks.items() if i >= count and not task.state.terminal]
    if left and not workflow.aborting:
        return f"instances {sorted(left)} are to be removed, and may have the room"
    placeable = sorted(i for i in waiting if is_placeable(job_id, i))
    return f"instances {placeable} have room, and are not placed" if placeable else ""


def _is_down(task: TaskRuntime | None) -> bool:
    return availability_of(task) is Availability.UNAVAILABLE


def _came_up(change: Change) -> set[int]:
    """Return the instances that began to serve, though they may be down again in the same cycle."""
    events = (event for event in change.events if event.state is TaskState.RUNNING)
    return {event.instance for event in events if event.desired_run <= event.run}


def _desired(task: TaskRuntime | None) -> int:
    return 0 if task is None else task.desired_config_version


def _reason(task: TaskRuntime) -> TerminationReason | None:
    return None if task.termination is None else task.termination.reason
