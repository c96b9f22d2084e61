"""Services under random requests: hosts are held for instances that come back, and for no others."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.task.returns import returns_to
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import WorkflowType
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

INSTANCES = 3
instances = st.integers(0, INSTANCES - 1)
in_place = st.booleans()
ENDS = (TaskState.FAILED, TaskState.LOST, TaskState.KILLED, TaskState.SUCCEEDED)


class HeldService(RuleBasedStateMachine):
    """A service whose host manager holds what it is asked to hold, until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.it = Service(service(INSTANCES))
        self.number = 0

    @rule()
    def everything_goes_on(self) -> None:
        self.it.step()

    @rule()
    def a_cycle_runs(self) -> None:
        self.it.cycle()

    @rule()
    def instructions_are_carried_out(self) -> None:
        self.it.act()

    @rule(host=st.sampled_from(["host", "other"]))
    def what_waits_is_placed(self, host: str) -> None:
        self.it.host = host
        self.it.place()

    @rule()
    def the_leader_falls(self) -> None:
        """The next one compares the holds there are with what it has read."""
        self.it.fall()
        tasks, goal = self.it.rows, self.it.runtime.goal
        self.it.held = {i: host for i, host in self.it.held.items() if returns_to(goal, tasks[i]) == host}

    @rule(seconds=st.sampled_from([1.0, 40.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.it.wait(seconds)

    @rule(instance=instances, end=st.sampled_from(ENDS))
    def a_run_ends(self, instance: int, end: TaskState) -> None:
        if sum(key[0] == instance for key in self.it.alive) == 1:
            self.it.end(instance, end)

    @rule()
    def launches_are_refused(self) -> None:
        launches = [each for each in self.it.todo if isinstance(each, ins.Launch)]
        self.it.todo = [each for each in self.it.todo if each not in launches]
        for launch in launches:
            self.it.cycle(ev.LaunchRefused(launch.runs, "invalid offers", faulty=False))

    @rule(count=st.integers(1, INSTANCES), in_place=in_place, batch=st.integers(0, 2))
    def the_service_is_updated(self, count: int, in_place: bool, batch: int) -> None:
        self.number += 1
        self.it.update(service(count, command=f"run {self.number}"), in_place=in_place, batch_size=batch)

    @rule(in_place=in_place)
    def it_is_restarted(self, in_place: bool) -> None:
        self.it.begin(WorkflowType.RESTART, in_place=in_place)

    @rule()
    def the_workflow_is_aborted(self) -> None:
        workflow = self.it.workflow
        if workflow is not None and not workflow.state.terminal:
            self.it.steer(ev.WorkflowAction.ABORT)

    @rule(goal=st.sampled_from([JobState.RUNNING, JobState.KILLED]))
    def its_goal_is_set(self, goal: JobState) -> None:
        self.it.ask(ev.JobGoalRequested(JOB, goal))

    @rule(instance=instances)
    def an_instance_is_stopped(self, instance: int) -> None:
        self.it.ask(ev.StopRequested(JOB, [instance]))

    @rule(instance=instances)
    def an_instance_is_started(self, instance: int) -> None:
        self.it.ask(ev.StartRequested(JOB, [instance]))

    @rule(instance=instances)
    def an_instance_is_restarted(self, instance: int) -> None:
        self.it.ask(ev.RestartRequested(JOB, [instance]))

    @invariant()
    def nothing_is_held_for_others(self) -> None:
        """What is still held for others has a release on its way."""
        released = {
            int(each.rpartition("-")[2])
            for instruction in self.it.todo
            if isinstance(instruction, ins.ReleaseHolds)
            for each in instruction.instances
        }
        goal = self.it.runtime.goal
        for instance, host in self.it.held.items():
            task = self.it.rows[instance]
            comes_back = returns_to(goal, task) == host or task.state is TaskState.LAUNCHED
            assert comes_back or instance in released, f"{instance} holds {host}: {task}"

    def teardown(self) -> None:
        self.it.ask(ev.JobGoalRequested(JOB, JobState.DELETED))
        self.it.settle()
        assert not self.it.held, self.it.held


TestHeldService = HeldService.TestCase
TestHeldService.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
