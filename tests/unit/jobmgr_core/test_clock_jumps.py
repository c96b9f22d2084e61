"""The clocks of agents and of the machine jump: nothing stalls, and times that cannot be are not taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from jobmgr.core.task.deadlines import TaskDeadlines
from jobmgr.core.task.status_rules import SKEW_NANOSECONDS, moment
from jobmgr.core.workflow.planner import silence
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from peloton.model.workflow import Workflow, WorkflowOptions, WorkflowState, WorkflowType
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_availability import task
from tests.unit.jobmgr_core.test_deadlines import SECOND

S = TaskState
HOUR, DAY = 3600, 86400
UNEVEN = 1000.1
"""A monotonic time to which half a minute cannot be added without rounding."""
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR, 30 * DAY, -30 * DAY])


class Jumping(Service):
    """A service whose leader's clock may be wrong by `ahead` seconds."""

    ahead = 0.0

    @property
    def wall(self) -> int:
        return 1_700_000_000 * SECOND + round((self.monotonic + self.ahead) * SECOND)

    def restart_after(self, jump: float) -> None:
        """The machine's clock jumps; the next leader is a process that begins with it."""
        self.ahead += jump
        self.fall()
        self.cycle()

    def restart_at(self, monotonic: float, jump: float) -> None:
        """As `restart_after`, at a time."""
        self.monotonic = monotonic
        self.restart_after(jump)

    def pass_to_deadlines(self, seconds: float) -> None:
        """Let time pass to each deadline in turn, and no further: a cycle takes none."""
        end = self.monotonic + seconds
        for _ in range(20):
            due = self.core.idle_until()
            if due is None or due > end:
                return
            self.monotonic = max(self.monotonic, due)
            self.cycle()
        raise AssertionError(f"20 cycles by deadlines, the last at {self.monotonic!r} s")

    def agent_says(self, state: TaskState, at: float, run: int = 1) -> None:
        """An agent says something, with its own clock."""
        stamp = 1_700_000_000 * SECOND + round(at * SECOND)
        status = TaskStatus(mesos_task_id(JOB, 0, run), state, stamp, "agent", uuid=b"%d" % state)
        self.cycle(ev.Statuses([(Run(JOB, 0, run), status)]))


def launched() -> Jumping:
    it = Jumping(service(1))
    it.cycle()
    it.act()
    it.place()
    it.act()
    return it


@JUMPS
def test_a_throttled_instance_runs_again_within_its_delay(jump: int) -> None:
    it = Jumping(service(1))
    it.settle()
    it.end(0, S.FAILED)
    it.cycle()
    assert it.rows[0].state is S.FAILED
    it.restart_after(jump)
    it.wait(31)
    it.settle()
    assert (it.rows[0].state, it.rows[0].run) == (S.RUNNING, 2)


def test_a_throttled_instance_runs_again_where_rounding_takes_the_rest_of_its_delay() -> None:
    """Found by the simulator: cycle followed cycle, each to wait for less than the clock can tell."""
    it = Jumping(service(1))
    it.settle()
    it.end(0, S.FAILED)
    it.cycle()
    it.restart_at(UNEVEN, -HOUR)
    it.pass_to_deadlines(31)
    assert it.rows[0].run == 2


def test_a_run_is_ended_where_rounding_takes_the_rest_of_its_longest_time() -> None:
    it = Jumping(spec(1, maxRunningTime=30))
    it.settle()
    it.restart_at(UNEVEN, -HOUR)
    it.say(0, 1, S.RUNNING)
    it.pass_to_deadlines(31)
    assert it.rows[0].goal is S.KILLED


def test_a_wait_ends_later_than_now_however_short_it_is() -> None:
    at = TaskDeadlines(Limits())
    due = UNEVEN + 30
    at.set_now(ev.Now(0, due))
    left = 30 - (due - UNEVEN)
    assert left > 0 and due + left == due
    assert due < at.time_after(left) < due + 1e-9
    assert at.time_after(20) == due + 20
    assert at.time_after(0) == at.time_after(-1) == due


@JUMPS
def test_a_run_is_held_to_its_longest_time(jump: int) -> None:
    job = spec(1, maxRunningTime=60)
    it = Jumping(job)
    it.settle()
    assert it.rows[0].state is S.RUNNING
    it.restart_after(jump)
    it.wait(61)
    it.settle()
    assert it.rows[0].goal is S.KILLED


@JUMPS
def test_the_times_of_an_agent_whose_clock_jumps_are_not_taken(jump: int) -> None:
    it = launched()
    it.monotonic += 5
    it.agent_says(S.RUNNING, it.monotonic)
    begun = it.rows[0].start_time
    assert begun == it.wall
    it.monotonic += 20
    it.agent_says(S.FAILED, it.monotonic + jump)
    assert (it.rows[0].completion_time - begun) / SECOND == 20


@JUMPS
def test_a_start_is_not_before_the_launch_nor_after_now(jump: int) -> None:
    it = launched()
    it.monotonic += 5
    it.agent_says(S.RUNNING, it.monotonic + jump)
    assert it.rows[0].start_time == it.wall


def test_small_differences_of_clocks_are_the_agents() -> None:
    now = 1000 * SECOND + SKEW_NANOSECONDS
    run = replace(task(S.RUNNING), start_time=900 * SECOND + SKEW_NANOSECONDS)
    for seconds, taken in ((1000, True), (1059, True), (1061, False), (841, True), (839, False), (0, False)):
        stamp = seconds * SECOND + SKEW_NANOSECONDS if seconds else 0
        status = TaskStatus(mesos_task_id(JOB, 0, 1), S.FAILED, stamp)
        assert (moment(status, run, now) == stamp) is taken, seconds


def test_a_workflow_of_a_later_clock_is_not_silent_for_less_than_nothing() -> None:
    going = WorkflowType.UPDATE, WorkflowState.ROLLING_FORWARD
    made = Workflow("w", JOB, *going, WorkflowOptions(), 2, 1, created_at=50, updated_at=90)
    assert silence(made, 100) == 10
    assert silence(made, 40) == 0


def test_a_run_that_starts_after_the_clock_is_set_back_is_not_silent_since_the_leader_began() -> None:
    """Found by the simulator: it was given up at once, again and again, until the clock had caught up."""
    it = Jumping(spec(1))
    it.cycle()
    it.monotonic += it.limits.stuck_after + 60
    it.act()
    it.ahead -= HOUR
    it.place()
    it.act()
    it.say(0, 1, S.STARTING)
    it.wait(60)
    assert (it.rows[0].state, it.rows[0].run) == (S.STARTING, 1)
    it.wait(it.limits.stuck_after + HOUR)
    assert it.rows[0].run == 2, "it is given up late by the jump at most"


def test_times_of_before_and_after_a_step_back_of_the_clock_are_as_long_ago_as_they_are() -> None:
    at = TaskDeadlines(Limits())
    begin, hour = 1_700_000_000 * SECOND, HOUR * SECOND
    at.set_now(ev.Now(begin, 0.0))
    at.set_now(ev.Now(begin + 5 * hour, 5.0 * HOUR))
    before = at.stamp
    at.set_now(ev.Now(begin + 4 * hour, 5.0 * HOUR))
    at.set_now(ev.Now(begin + 4 * hour + 50 * SECOND, 5.0 * HOUR + 50))
    after = at.stamp
    assert (at.seconds_since(before), after - before) == (50, 50 * SECOND)
    at.set_now(ev.Now(begin + 4 * hour + 70 * SECOND, 5.0 * HOUR + 70))
    assert (at.seconds_since(before), at.seconds_since(after)) == (70, 20)
    assert at.seconds_since(begin + 20 * hour) == 5 * HOUR + 70, "an earlier leader has stored it"
    at.set_now(ev.Now(begin + 9 * hour, 8.0 * HOUR))
    assert at.stamp == begin + 9 * hour, "the clock has caught up"
