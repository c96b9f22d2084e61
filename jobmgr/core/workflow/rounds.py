"""Carries the plans of workflows out in the core: one round of each in a cycle that concerns it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.requests import stop_service
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.core.task.creation import come_back, first_runtime
from jobmgr.core.task.usage import NANOSECONDS
from jobmgr.core.task.volumes import home_for_next_run, volume_host
from jobmgr.core.workflow.moves import event_of, moved
from jobmgr.core.workflow.planner import (
    SILENT_NANOSECONDS,
    Instances,
    Plan,
    plan,
    silence,
    waits_for_throttled_only,
)
from jobmgr.core.workflow.rollback import roll_back, rolls_back
from jobmgr.core.workflow.stages import Aim, Stage
from jobmgr.core.workflow.states import WorkflowCause
from peloton.model.ids import JobId
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    Workflow,
    WorkflowState,
    WorkflowStatus,
    WorkflowType,
)


class Rollouts:
    """The instances of each job with a workflow that runs, by stage."""

    def __init__(self) -> None:
        self.instances: dict[JobId, Instances] = {}
        self.pending: dict[JobId, None] = {}
        """Jobs whose workflow has a round in the next cycle, whatever happens."""
        self.reasons: dict[JobId, str] = {}
        """What each workflow waits for."""
        self.silent: set[JobId] = set()
        """Jobs whose workflow has made no progress for long."""

    def wake(self, job_id: JobId) -> None:
        """Give the job's workflow a round in the next cycle."""
        self.pending[job_id] = None

    def status(self, workflow: Workflow) -> WorkflowStatus:
        """Return a job's workflow with the instances that are in flight."""
        held = self.instances.get(workflow.job_id)
        if held is None or held.aim.workflow.id != workflow.id:
            return WorkflowStatus(workflow)
        by_stage = held.by_stage
        return WorkflowStatus(
            replace(workflow, reason=self.reasons.get(workflow.job_id) or workflow.reason),
            current=tuple(sorted(by_stage[Stage.CURRENT])),
            failed=tuple(sorted(by_stage[Stage.FAILED])),
            done=tuple(sorted(by_stage[Stage.DONE])),
        )

    def forget(self, job_id: JobId) -> None:
        """Let go of a job, or of a workflow that has ended."""
        self.instances.pop(job_id, None)
        self.pending.pop(job_id, None)
        self.reasons.pop(job_id, None)
        self.silent.discard(job_id)


def advance(active: ActiveJobs, rollouts: Rollouts, cycle: Cycle) -> None:
    """Give a round to each workflow that this cycle has to do with."""
    concerned = [job_id for job_id, change in cycle.changes.items() if change.workflow is not None]
    for job_id in dict.fromkeys([*rollouts.pending, *concerned]):
        rollouts.pending.pop(job_id, None)
        change = active.change(cycle, job_id)
        if change is not None:
            _round(active, rollouts, cycle, change)
    cycle.more = cycle.more or bool(rollouts.pending)


def _round(active: ActiveJobs, rollouts: Rollouts, cycle: Cycle, change: Change) -> None:
    workflow, now = change.workflow, cycle.now.wall
    if workflow is None or workflow.state.terminal:
        rollouts.forget(change.job_id)
        return
    stored = change.job.workflow
    if stored is None or stored.id != workflow.id:
        # It began in this cycle: nothing is done for it before it is stored.
        rollouts.wake(change.job_id)
        return
    if workflow.state is WorkflowState.INITIALIZED:
        paused = workflow.options.start_paused
        workflow = moved(change, workflow, WorkflowCause.PAUSE if paused else WorkflowCause.BEGIN, now)
    _Round(active, rollouts, change, workflow, now).run()
    if change.workflow is not None and not change.workflow.state.terminal:
        _report_silence(active, rollouts, cycle, change.workflow)


def _report_silence(active: ActiveJobs, rollouts: Rollouts, cycle: Cycle, workflow: Workflow) -> None:
    """Report a workflow without progress, and once more each SILENT_NANOSECONDS while that lasts.

    One that a user has paused waits for the user, and one of throttled instances for the user's program:
    they are not reported.
    """
    job_id, deadlines = workflow.job_id, active.actions.deadlines
    left = SILENT_NANOSECONDS - silence(workflow, cycle.now.wall)
    if workflow.state is WorkflowState.PAUSED or left > 0 or _crashes(rollouts, job_id, cycle.now.wall):
        rollouts.silent.discard(job_id)
    elif deadlines.get((job_id, WHOLE_WORKFLOW)) is None:
        rollouts.silent.add(job_id)
        cycle.silent.append((workflow.id, job_id, rollouts.reasons.get(job_id, "")))
    if deadlines.get((job_id, WHOLE_WORKFLOW)) is None:
        seconds = (left if left > 0 else SILENT_NANOSECONDS) / NANOSECONDS
        deadlines.set((job_id, WHOLE_WORKFLOW), active.actions.time_after(seconds))


def _crashes(rollouts: Rollouts, job_id: JobId, now: int) -> bool:
    """Return whether all that a workflow waits for is that the user's program stops failing."""
    held = rollouts.instances.get(job_id)
    return held is not None and waits_for_throttled_only(held, now)


class _Round:
    """One round of one workflow."""

    def __init__(
        self, active: ActiveJobs, rollouts: Rollouts, change: Change, workflow: Workflow, now: int
    ) -> None:
        self._active = active
        self._rollouts = rollouts
        self._change = change
        self._workflow = workflow
        self._now = now
        self._stopped = change.goal in ENDING_JOB_GOALS
        self._instances = self._current_instances()

    def run(self) -> None:
        limit = self._active.actions.limits.rows_per_cycle
        next_ = plan(self._workflow, self._instances, self._now, limit)
        self._apply(next_)
        if next_.too_many_failed:
            self._fail(next_)
        elif next_.ends:
            self._end(next_)
        else:
            self._count(next_)
            self._rollouts.reasons[self._change.job_id] = next_.reason
            if next_.more or not next_.idle:
                self._rollouts.wake(self._change.job_id)
            elif next_.due:
                self._look_again(next_.due / NANOSECONDS)

    def _look_again(self, seconds: float) -> None:
        actions, key = self._active.actions, (self._change.job_id, WHOLE_WORKFLOW)
        when, known = actions.time_after(seconds), actions.deadlines.get(key)
        if known is None or when < known:
            actions.deadlines.set(key, when)

    def _current_instances(self) -> Instances:
        """Return the instances by stage as they are in this cycle, made anew where the aim is another one."""
        change, workflow = self._change, self._workflow
        if change.spec.version != workflow.target_version:  # the last leader fell in the middle of its write
            change.grow(change.specs[workflow.target_version])
        held = self._rollouts.instances.get(change.job_id)
        if held is None or _key(held.aim) != (workflow.id, workflow.rolling_back, change.goal):
            # As they are stored: what this cycle changes about them is an event of the workflow.
            stored = change.job.tasks
            tasks = ((i, stored[i] if i < len(stored) else NOT_CREATED) for i in range(change.size))
            aim = Aim(workflow, change.specs, change.goal)
            held = self._rollouts.instances[change.job_id] = Instances(aim, tasks)
        held.aim = Aim(workflow, change.specs, change.goal)
        for instance in change.tasks:
            self._take(held, instance)
        return held

    def _take(self, instances: Instances, instance: int) -> None:
        before, after = instances.take(instance, self._change.task(instance))
        if before is after or before in (None, Stage.ADOPT):
            return
        if after is Stage.DONE:
            back = self._workflow.rolling_back
            self._note(instance, WorkflowState.ROLLED_BACK if back else WorkflowState.SUCCEEDED)
        elif after is Stage.FAILED:
            self._note(instance, WorkflowState.FAILED)

    def _note(self, instance: int, state: WorkflowState) -> None:
        event = event_of(self._workflow, instance, state, self._change.timestamp())
        self._change.workflow_events.append(event)

    def _apply(self, next_: Plan) -> None:
        self._each(next_.adopts, self._adopt, told=False)
        self._each(next_.holds, self._hold)
        self._add(next_.adds)
        self._each(next_.updates, self._stop if self._stops else self._update)
        self._each(next_.removes, self._remove)

    @property
    def _stops(self) -> bool:
        return self._workflow.type is WorkflowType.STOP

    def _each(
        self, instances: Iterable[int], act: Callable[[int, TaskRuntime], None], told: bool = True
    ) -> None:
        back = self._workflow.rolling_back
        state = WorkflowState.ROLLING_BACKWARD if back else WorkflowState.ROLLING_FORWARD
        for instance in instances:
            if told:
                self._note(instance, state)
            act(instance, self._change.task(instance))
            self._take(self._instances, instance)

    def _add(self, instances: tuple[int, ...]) -> None:
        change = self._change
        fresh = [i for i in instances if change.task(i) is NOT_CREATED]
        if fresh:
            change.create(fresh, first_runtime(change, fresh[0], self._stopped))
        self._each(instances, self._begin)

    def _begin(self, instance: int, task: TaskRuntime) -> None:
        """Give an instance that was removed its next run; let an added one wait to be enqueued."""
        if task.state is TaskState.DELETED:
            version = self._workflow.target_version
            home = home_for_next_run(self._change, instance, task, version)
            come_back(
                self._change,
                instance,
                task,
                version,
                stopped=self._stopped,
                desired_host=home.host,
                volume_id=home.volume_id,
            )
        if not self._stopped:
            self._change.in_flight.mark_ready(instance)

    def _update(self, instance: int, task: TaskRuntime) -> None:
        self._change.revise(
            instance,
            goal=TaskState.RUNNING,
            desired_run=task.run + 1,
            desired_config_version=self._workflow.target_version,
            failure_count=0,
            desired_host=self._change.next_host(task, self._host_for(task)),
        )
        self._active.actions.evaluate(self._change, instance)

    def _host_for(self, task: TaskRuntime) -> str:
        """Return the host that the next run is to go to; empty: any.

        An instance that is on its way back to a host has none, but goes on to the same one.
        """
        return volume_host(task) or (
            (task.host or task.desired_host) if self._workflow.options.in_place else ""
        )

    def _stop(self, instance: int, task: TaskRuntime) -> None:
        version = self._workflow.target_version
        self._change.revise(
            instance, goal=TaskState.KILLED, desired_run=task.run, desired_config_version=version
        )
        self._active.actions.evaluate(self._change, instance)

    def _adopt(self, instance: int, task: TaskRuntime) -> None:
        version = self._workflow.target_version
        desired_run = task.run if self._stops else task.desired_run
        self._change.revise(
            instance,
            config_version=version,
            desired_config_version=version,
            desired_run=desired_run,
            failure_count=0,
        )

    def _hold(self, instance: int, task: TaskRuntime) -> None:
        self._change.revise(instance, goal=TaskState.KILLED, desired_run=task.run + 1, failure_count=0)
        self._active.actions.evaluate(self._change, instance)

    def _remove(self, instance: int, task: TaskRuntime) -> None:
        self._change.revise(instance, goal=TaskState.DELETED, desired_run=task.run)
        self._active.actions.evaluate(self._change, instance)

    def _count(self, next_: Plan) -> None:
        """Store how far the workflow is, where that has changed."""
        instances, workflow = self._instances, self._workflow
        done, failed = instances.count(Stage.DONE), instances.count(Stage.FAILED)
        remaining = instances.remaining
        if (done, failed, remaining) == (workflow.done, workflow.failed, workflow.remaining) and next_.idle:
            return
        self._workflow = replace(
            workflow,
            done=done,
            failed=failed,
            remaining=remaining,
            revision=workflow.revision + 1,
            updated_at=self._now,
        )
        self._change.put_workflow(self._workflow)

    def _fail(self, next_: Plan) -> None:
        self._count(next_)
        workflow, change = self._workflow, self._change
        if rolls_back(workflow):
            roll_back(change, workflow, self._now, next_.reason)
            self._rollouts.wake(change.job_id)
        elif workflow.state is WorkflowState.PAUSED:
            self._rollouts.reasons[change.job_id] = f"paused: {next_.reason}"
        else:
            moved(change, workflow, WorkflowCause.FAIL, self._now, next_.reason)
            self._rollouts.forget(change.job_id)

    def _end(self, next_: Plan) -> None:
        if self._stops_job():
            # It ends once the goal is stored.
            stop_service(self._active, self._change, JobState.KILLED, self._workflow.by)
            self._rollouts.wake(self._change.job_id)
            return
        self._count(next_)
        workflow, change = self._workflow, self._change
        if workflow.aborting and next_.remaining:
            moved(change, workflow, WorkflowCause.ABORT, self._now, "aborted after what was in flight")
        else:
            moved(change, workflow, WorkflowCause.DONE, self._now, workflow.reason)
        self._rollouts.forget(change.job_id)

    def _stops_job(self) -> bool:
        """Return whether a STOP has stopped all instances of a job whose goal is another one."""
        change = self._change
        if not self._stops or change.goal in ENDING_JOB_GOALS:
            return False
        tasks = [change.task(i) for i in range(change.size)]
        there = [task for task in tasks if task.state not in (TaskState.UNKNOWN, TaskState.DELETED)]
        return bool(there) and all(task.goal is TaskState.KILLED for task in there)


def _key(aim: Aim) -> tuple[str, bool, JobState]:
    return aim.workflow.id, aim.workflow.rolling_back, aim.job_goal
