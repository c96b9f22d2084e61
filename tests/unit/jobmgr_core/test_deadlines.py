"""What time brings, on the core alone: no clock, no waiting."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.limits import Limits
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.wire.job import job_spec
from tests.unit.jobmgr_core.specs import JOB, config, spec

S = TaskState
SECOND = 1_000_000_000
HOUR = 3600.0


class Time:
    """A core whose cycles are stored at once."""

    def __init__(self, job: JobSpec, limits: Limits | None = None) -> None:
        self.core = Core(limits)
        self.now = 1000.0
        self.done: list[ins.Instruction] = []
        self.core.active.create(JOB, job, JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1))
        self.run_cycle()

    def run_cycle(self, *events: ev.Event) -> Sequence[ins.Instruction]:
        wall = 1_700_000_000 * SECOND + round(self.now * SECOND)
        cycle = self.core.run_cycle(events, ev.Now(wall, self.now))
        self.core.commit(cycle)
        self.done = cycle.instructions
        return cycle.instructions

    def after(self, seconds: float) -> Sequence[ins.Instruction]:
        self.now += seconds
        return self.run_cycle()

    def task(self, instance: int = 0) -> TaskRuntime:
        return self.core.active.jobs[JOB].job.tasks[instance]

    def place(self, *runs: Run, ports: tuple[int, ...] = ()) -> Sequence[ins.Instruction]:
        return self.run_cycle(ev.Placed([ev.Placement("host", "agent", "offer", ports, runs)]))

    def say(self, state: TaskState, run: int = 1, instance: int = 0) -> Sequence[ins.Instruction]:
        reported = TaskStatus(mesos_task_id(JOB, instance, run), state, 0)
        return self.run_cycle(ev.Statuses([(Run(JOB, instance, run), reported)]))

    def launch(self) -> None:
        self.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
        self.place(Run(JOB, 0, 1))
        self.run_cycle(ev.Launched([Run(JOB, 0, 1)]))


@pytest.mark.parametrize("state", [S.LAUNCHED, S.STARTING])
def test_a_silent_run_starts_over_after_three_hours(state: TaskState) -> None:
    time = Time(spec(1))
    time.launch()
    if state is S.STARTING:
        time.say(S.STARTING)
    for _ in range(40):
        time.after(4 * 60)
        time.run_cycle()
    assert (time.task().state, time.task().run) == (state, 1)
    time.after(3 * HOUR)
    assert (time.task().state, time.task().run) == (S.INITIALIZED, 2)
    assert ins.Kill((Run(JOB, 0, 1),)) in time.done
    assert ins.Enqueue(JOB, (((0, 2),),)) in time.done
    assert time.task().failure_count == 0
    assert time.say(S.RUNNING, run=1) == [ins.Kill((Run(JOB, 0, 1),))]


def test_a_launch_without_a_status_is_reconciled() -> None:
    time = Time(spec(1))
    time.launch()
    assert time.after(299) == []
    assert time.after(2) == [ins.Reconcile(((Run(JOB, 0, 1), "agent"),))]
    time.say(S.RUNNING)
    assert time.after(10 * HOUR) == []


def test_kills_are_repeated_with_growing_delays_until_the_executor_is_shut_down() -> None:
    time = Time(spec(1))
    time.launch()
    time.say(S.RUNNING)
    time.run_cycle(ev.StopRequested(JOB, [0]))
    kill = ins.Kill((Run(JOB, 0, 1),))
    assert time.done == [kill]
    assert time.task().message == "to be stopped"
    assert time.after(9) == []
    assert time.after(1) == [kill]
    assert time.after(19) == []
    assert time.after(1) == [kill]
    assert time.after(3 * HOUR) == [ins.ShutDown(((Run(JOB, 0, 1), "agent"),))]


def test_a_run_beyond_its_time_limit_is_killed_at_the_second() -> None:
    time = Time(spec(1, maxRunningTime=60))
    time.launch()
    time.say(S.RUNNING)
    assert time.after(59) == []
    assert time.after(1.1) == [ins.Kill((Run(JOB, 0, 1),))]
    termination = time.task().termination
    assert termination is not None
    assert termination.reason is TerminationReason.DEADLINE_TIMEOUT_EXCEEDED
    assert time.task().goal is S.KILLED


def test_a_refused_enqueue_is_retried_with_growing_delays() -> None:
    time = Time(spec(1))
    enqueue = ins.Enqueue(JOB, (((0, 1),),))
    for pause in (1, 2, 4, 8):
        time.run_cycle(ev.EnqueueRefused(JOB, [(0, 1)], "no"))
        assert time.task().reason == "no"
        assert time.after(pause - 0.1) == []
        assert time.after(0.1) == [enqueue]


def test_a_stop_does_not_wait_for_the_next_retry() -> None:
    time = Time(spec(1))
    for _ in range(8):
        time.run_cycle(ev.EnqueueRefused(JOB, [(0, 1)], "no"))
        time.after(500)
    time.run_cycle(ev.EnqueueRefused(JOB, [(0, 1)], "no"))
    assert ins.Retire(JOB) in time.run_cycle(ev.StopRequested(JOB, None))


def test_repeatedly_refused_launches_are_delayed() -> None:
    time = Time(spec(1))
    for run in (1, 2, 3):
        time.run_cycle(ev.Enqueued(JOB, [(0, run)]))
        time.place(Run(JOB, 0, run))
        time.run_cycle(ev.LaunchRefused([Run(JOB, 0, run)], "invalid offers", faulty=False))
        assert ins.Enqueue(JOB, (((0, run + 1),),)) in time.done
    time.run_cycle(ev.Enqueued(JOB, [(0, 4)]))
    time.place(Run(JOB, 0, 4))
    assert time.run_cycle(ev.LaunchRefused([Run(JOB, 0, 4)], "invalid offers", faulty=False)) == [
        ins.Settle(((Run(JOB, 0, 4), S.LOST),))
    ]
    assert time.after(1) == [ins.Enqueue(JOB, (((0, 5),),))]
    assert time.task().failure_count == 0


def test_a_task_that_cannot_be_launched_fails_after_four_attempts() -> None:
    time = Time(spec(2))
    for run in (1, 2, 3, 4):
        time.run_cycle(ev.Enqueued(JOB, [(0, run)]))
        time.place(Run(JOB, 0, run))
        time.run_cycle(ev.LaunchRefused([Run(JOB, 0, run)], "no such user", faulty=True))
    assert (time.task().state, time.task().message) == (S.FAILED, "no such user")


# Placements.


def test_a_run_is_not_launched_while_it_is_withdrawn() -> None:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    assert time.run_cycle(ev.StopRequested(JOB, [0])) == [ins.Withdraw(JOB, ((0, 1),))]
    assert time.place(Run(JOB, 0, 1)) == [ins.Release("host", "agent", "offer")]
    time.run_cycle(ev.Withdrawn(JOB, [(0, 1)]))
    assert JOB not in time.core.active.jobs


def test_a_repeated_placement() -> None:
    time = Time(spec(1))
    time.launch()
    assert list(time.place(Run(JOB, 0, 1))) == [
        ins.Release("host", "agent", "offer"),
        ins.Settle(((Run(JOB, 0, 1), S.LAUNCHED),)),
    ]


def test_a_placement_before_the_answer_to_its_enqueue() -> None:
    time = Time(spec(1))
    assert time.place(Run(JOB, 0, 1)) == [ins.Launch("host", "agent", "offer", (Run(JOB, 0, 1),))]
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    assert time.task().state is S.LAUNCHED


def with_ports(instances: int) -> JobSpec:
    wire = config(instances)
    wire.defaultConfig.ports.add(name="a", envName="A")
    wire.defaultConfig.ports.add(name="b", envName="B")
    return job_spec(wire, 1)


def test_the_ports_of_an_unknown_run_are_skipped() -> None:
    time = Time(with_ports(2))
    stranger = Run("0f3f5c2a-0000-4000-8000-00000000beef", 0, 1)
    time.place(Run(JOB, 0, 1), stranger, Run(JOB, 1, 1), ports=(1, 2, 3, 4, 5))
    assert time.task(0).ports == {"a": 1, "b": 2}
    assert time.task(1).ports == {"a": 4, "b": 5}
    assert ins.Settle(((stranger, S.KILLED),)) in time.done


def test_runs_whose_ports_cannot_be_told_apart_are_retried() -> None:
    time = Time(with_ports(1))
    time.place(Run(JOB, 0, 1), ports=(1,))
    assert ins.Release("host", "agent", "offer") in time.done
    assert ins.Settle(((Run(JOB, 0, 1), S.LOST),)) in time.done
    assert ins.Enqueue(JOB, (((0, 2),),)) in time.done


# Killing on request while something is under way.


def test_a_stop_during_a_launch_kills_after_its_answer() -> None:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    time.place(Run(JOB, 0, 1))
    assert time.run_cycle(ev.StopRequested(JOB, None)) == []
    time.run_cycle(ev.Launched([Run(JOB, 0, 1)]))
    assert ins.Kill((Run(JOB, 0, 1),)) in time.done
    assert time.task().state is S.KILLING


@pytest.mark.parametrize("reported", [[], [S.STARTING], [S.STARTING, S.RUNNING]])
def test_a_stop_during_a_launch_with_unknown_outcome_kills(reported: list[TaskState]) -> None:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    time.place(Run(JOB, 0, 1))
    for state in reported:
        time.say(state)
    assert time.run_cycle(ev.StopRequested(JOB, None)) == []
    time.run_cycle(ev.LaunchUncertain([Run(JOB, 0, 1)]))
    assert time.done == [ins.Kill((Run(JOB, 0, 1),))]
    assert time.task().state is S.KILLING


def test_a_stop_during_a_refused_launch() -> None:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    time.place(Run(JOB, 0, 1))
    time.run_cycle(ev.StopRequested(JOB, None))
    time.run_cycle(ev.LaunchRefused([Run(JOB, 0, 1)], "invalid offers", faulty=False))
    assert ins.Retire(JOB) in time.done


def test_an_orphan_is_killed_at_most_three_times() -> None:
    time = Time(spec(1))
    time.launch()
    kills = [time.say(S.RUNNING, run=7) for _ in range(5)]
    assert [len(kill) for kill in kills] == [1, 1, 1, 0, 0]
    time.say(S.KILLED, run=7)
    assert len(time.say(S.RUNNING, run=7)) == 1


def test_usage_is_limit_times_seconds() -> None:
    time = Time(spec(2))
    time.launch()
    time.say(S.RUNNING)
    time.now += 10
    time.say(S.SUCCEEDED)
    assert time.task().resource_usage == pytest.approx({"cpu": 10.0, "gpu": 0.0, "memory": 1000.0})
    job = time.core.active.jobs[JOB].job
    assert job.runtime.resource_usage == pytest.approx({"cpu": 10.0, "gpu": 0.0, "memory": 1000.0})
