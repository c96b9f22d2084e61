"""What workflows promise, checked after each cycle from what is stored, not by the planner's own rules."""

from __future__ import annotations

from collections import Counter

from jobmgr.core.cycle import Core
from jobmgr.core.state.throttling import is_throttled
from jobmgr.core.workflow.planner import batch_size
from peloton.model.availability import is_serving
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workflow import WHOLE_WORKFLOW, Workflow, WorkflowEvent, WorkflowState, WorkflowType
from tests.property.jobmgr import invariants
from tests.unit.jobmgr_core.specs import JOB

S, W, T = TaskState, WorkflowState, WorkflowType


class Promises:
    """Follows one service."""

    def __init__(self) -> None:
        self.in_flight: set[int] = set()
        """Instances that the workflow took up in its present direction, and that are not done."""
        self.found: set[int] = set()
        """Those that were in flight when it turned back, and are not done."""
        self.beside: set[int] = set()
        """Those that are removed while all others in flight wait to be placed."""
        self.down: set[int] = set()
        """Instances that served when a workflow took them up, and have not served since."""
        self.touched: set[int] = set()
        """Instances that the events of this cycle may have taken down, before the workflow came to them."""
        self.ended: dict[str, WorkflowState] = {}
        self._rows: dict[int, TaskRuntime] = {}
        self._workflow = ""
        self._back = False
        self._seen = 0
        """Events that were looked at."""

    def check(
        self,
        rows: dict[int, TaskRuntime],
        decided: dict[int, TaskRuntime],
        workflows: dict[str, Workflow],
        history: list[WorkflowEvent],
        runtime: JobRuntime,
        specs: dict[int, JobSpec],
    ) -> None:
        """Check what one cycle has changed. `decided`: the rows with what was decided and not stored."""
        workflow = workflows.get(runtime.update_id)
        fresh, self._seen = history[self._seen :], len(history)
        for each in workflows.values():
            if each.state.terminal:
                assert self.ended.setdefault(each.id, each.state) is each.state, f"{each} went on"
        self._check_versions(rows, workflow)
        if workflow is not None:
            self._check_batch(decided, workflow, fresh, specs)
        self._rows = dict(rows)

    def _check_versions(self, rows: dict[int, TaskRuntime], workflow: Workflow | None) -> None:
        """An instance changes its version only from the old one to the target, or back in a rollback."""
        for instance, new in rows.items():
            old = self._rows.get(instance)
            if old is None or old is new or S.DELETED in (old.state, new.state):
                continue
            wanted = (old.desired_config_version, new.desired_config_version)
            assert new.config_version in (old.config_version, *wanted), f"{instance}: {old} -> {new}"
            kept = new.run == old.previous_run and old.state in (S.INITIALIZED, S.PENDING)
            assert new.run >= old.run or (kept and new.state is S.RUNNING), f"{instance}: {old} -> {new}"
            if wanted[0] == wanted[1]:
                continue
            assert workflow is not None, f"{instance}: {old} -> {new} without a workflow"
            assert wanted[1] == workflow.target_version, f"{instance}: {wanted} in {workflow}"
            if workflow.rolling_back:
                taken = wanted[0] == workflow.config_version or is_held(old) or old.goal is S.DELETED
                assert taken, f"{instance}: {wanted} in {workflow}"

    def _check_batch(
        self,
        rows: dict[int, TaskRuntime],
        workflow: Workflow,
        fresh: list[WorkflowEvent],
        specs: dict[int, JobSpec],
    ) -> None:
        """Never more than a batch is in flight, or down, by the workflow's doing.

        A rollback may find more in flight than its batch, and more that users or failures took down. It turns
        no more than a batch of them round at once, and takes up others only where there is room beside them.
        While all in flight waits to be placed, as many again may be removed.
        """
        self._turn(workflow)
        down, before = set(self.down), set(self.in_flight)
        others = self._take_up(workflow, fresh)
        if before and all(self._rows[i].state is S.PENDING for i in before):
            self.beside |= {i for i in self.in_flight - before if rows[i].goal is S.DELETED}
        self.in_flight, self.found, self.beside, self.down = (
            {i for i in some if not _is_over(workflow, rows[i])}
            for some in (self.in_flight, self.found, self.beside, self.down)
        )
        if workflow.state.terminal:
            self.in_flight, self.found, self.beside = set(), set(), set()
            return
        count = specs[workflow.target_version].instance_count
        most = batch_size(workflow, count)
        in_flight = self.in_flight - self.beside
        assert len(in_flight) <= most, f"{self.in_flight} in flight of {workflow}: {rows}"
        assert len(self.beside) <= most, f"{self.beside} are removed by {workflow}: {rows}"
        together = in_flight | self.found
        assert len(together) <= most or not others & in_flight, f"{together} in flight of {workflow}"
        if workflow.type is T.UPDATE:
            # One that an overtaken update took down, and that this one removes, is missed by nobody.
            missed = {i for i in self.down if i < count}
            assert len(missed) <= most or missed <= down, f"{missed} down by {workflow}: {rows}"

    def _turn(self, workflow: Workflow) -> None:
        """Note that another workflow is followed, or that it goes back from now on."""
        if workflow.id != self._workflow:
            self._workflow, self._back = workflow.id, False
            self.in_flight, self.found, self.beside = set(), set(), set()
        if workflow.rolling_back and not self._back:
            self._back = True
            self.in_flight, self.found, self.beside = set(), self.in_flight, set()

    def _take_up(self, workflow: Workflow, fresh: list[WorkflowEvent]) -> set[int]:
        """Note the instances that are taken up. Returns those that were not down already."""
        state = W.ROLLING_BACKWARD if workflow.rolling_back else W.ROLLING_FORWARD
        mine = [each for each in fresh if each.workflow_id == workflow.id and each.state is state]
        taken = {each.instance for each in mine} - {WHOLE_WORKFLOW}
        before = {i: self._rows[i] for i in taken if i in self._rows}
        added = {i for i in taken if i not in before or before[i].state is S.DELETED}
        served = {i for i, task in before.items() if is_serving(task)} - self.touched
        self.in_flight |= taken
        self.down |= served
        return added | served


def is_held(task: TaskRuntime) -> bool:
    """Return whether a workflow has stopped the instance before its update."""
    return task.goal is S.KILLED and task.desired_run > task.run


def _is_over(workflow: Workflow, task: TaskRuntime) -> bool:
    """Return whether an instance that was taken up is in flight no longer, or by a user's doing."""
    most = workflow.options.max_instance_attempts
    if task.state is S.DELETED or (
        is_serving(task) and task.desired_run <= task.run and task.goal is S.RUNNING
    ):
        return True
    if most and task.failure_count >= most:
        return True
    if workflow.type is T.STOP:
        return task.state.terminal or task.goal is not S.KILLED
    return task.goal is S.KILLED


def check_cache(core: Core, rows: dict[int, TaskRuntime], specs: dict[int, JobSpec]) -> None:
    """The cache is what is stored, and its sums are right."""
    invariants.check(core.active)
    held = core.active.jobs[JOB].job
    there = {i: task for i, task in rows.items() if task.state is not S.DELETED}
    assert dict(held.created()) == there
    assert held.runtime.config_counts == Counter(task.config_version for task in there.values())
    assert held.runtime.task_counts == Counter(task.state for task in there.values())
    assert held.throttled == {i for i, task in there.items() if is_throttled(task)}
    assert held.runtime.config_version in specs
    assert {task.desired_config_version for task in there.values()} <= specs.keys()


def check_job_state(runtime: JobRuntime, rows: dict[int, TaskRuntime]) -> None:
    """A service is KILLED where all have ended and it, or each of its instances, was stopped."""
    if runtime.state is not JobState.KILLED:
        return
    there = [task for task in rows.values() if task.state is not S.DELETED]
    assert all(task.state.terminal for task in there)
    stopped = all(task.goal is S.KILLED and task.desired_run <= task.run for task in there)
    assert runtime.goal in (JobState.KILLED, JobState.DELETED) or (there and stopped)


def check_reason(core: Core, workflow: Workflow) -> None:
    """A workflow that runs goes on at once, or says what it waits for."""
    if workflow.state.terminal or JOB in core.rollouts.pending:
        return
    reason = core.rollouts.status(workflow).workflow.reason
    assert reason and not reason.endswith(": "), f"silent: {workflow}"
