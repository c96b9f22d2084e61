"""Tasks that have to give way: on the core alone, and through the drivers."""

from __future__ import annotations

import functools
from collections import deque

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.engine.engine import Engine
from peloton.errors import Unavailable
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.task import TaskStatus, Termination
from peloton.wire.job import job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, config, spec
from tests.unit.jobmgr_core.steps import reach
from tests.unit.jobmgr_core.test_deadlines import Time
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState
WHY = "/a was over its entitlement in 5 checks in a row; /b waits for its share"
PREEMPTED = TerminationReason.PREEMPTED_RESOURCES


def stays_killed() -> JobSpec:
    wire = config(preemptible=True)
    wire.defaultConfig.preemptionPolicy.killOnPreempt = True
    return job_spec(wire, 1)


def running(job: JobSpec) -> Time:
    time = Time(job)
    time.launch()
    time.say(S.RUNNING)
    return time


def preempt(time: Time, run: int = 1) -> list[ins.Instruction]:
    return list(time.run_cycle(ev.Preempted([(Run(JOB, 0, run), WHY)])))


def test_a_preempted_task_runs_again_without_a_failure() -> None:
    time = running(spec(preemptible=True))
    assert preempt(time) == [ins.Kill((Run(JOB, 0, 1),))]
    killing = time.task()
    assert (killing.state, killing.message) == (S.KILLING, f"preempted: {WHY}")
    assert killing.termination is not None
    assert killing.termination.reason is PREEMPTED
    [enqueue] = time.say(S.KILLED)
    assert enqueue == ins.Enqueue(JOB, (((0, 2),),))
    again = time.task()
    assert (again.state, again.run, again.failure_count) == (S.INITIALIZED, 2, 0)
    assert again.message.startswith(f"run 1 KILLED: preempted: {WHY}")


def test_kill_on_preempt_stays_killed() -> None:
    time = running(stays_killed())
    preempt(time)
    time.say(S.RUNNING)
    job = time.core.active.jobs[JOB].job
    time.say(S.KILLED)
    [task] = job.tasks
    assert (task.state, task.goal, task.run) == (S.KILLED, S.PREEMPTING, 1), "Spark's drivers read it"
    assert task.termination is not None
    assert task.termination.reason is PREEMPTED
    assert task.message == f"preempted: {WHY}"


def test_a_preempted_task_that_stays_killed_may_be_started_again() -> None:
    wire = config(2, preemptible=True)
    wire.defaultConfig.preemptionPolicy.killOnPreempt = True
    time = running(job_spec(wire, 1))
    preempt(time)
    assert (time.task().state, time.task().goal) == (S.KILLING, S.PREEMPTING)
    assert ins.Kill((Run(JOB, 0, 1),)) in time.after(60.0)
    time.say(S.KILLED)
    time.after(3600.0)
    assert (time.task().state, time.task().run) == (S.KILLED, 1)
    time.run_cycle(ev.StartRequested(JOB, [0]))
    assert (time.task().goal, time.task().run) == (S.SUCCEEDED, 2)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("end", [S.FAILED, S.SUCCEEDED, S.KILLED])
def test_the_health_of_an_ended_task_is_invalid_where_it_had_a_check(checked: bool, end: TaskState) -> None:
    wire = config(2)
    wire.defaultConfig.healthCheck.enabled = checked
    time = running(job_spec(wire, 1))
    sick = TaskStatus(mesos_task_id(JOB, 0, 1), S.RUNNING, 0, healthy=not checked)
    time.run_cycle(ev.Statuses([(Run(JOB, 0, 1), sick)]))
    if end is S.KILLED:
        time.run_cycle(ev.StopRequested(JOB, [0]))
    time.say(end)
    assert time.task().state is end
    assert time.task().health is (HealthState.INVALID if checked else HealthState.DISABLED)


@pytest.mark.parametrize("end", [S.FAILED, S.LOST])
def test_a_preempted_run_is_followed_by_the_next_however_it_ends(end: TaskState) -> None:
    time = running(spec(preemptible=True))
    preempt(time)
    time.say(end)
    assert (time.task().run, time.task().failure_count) == (2, 0)


def test_a_preempted_run_that_finished_meanwhile_has_succeeded() -> None:
    time = running(spec(2, preemptible=True))
    preempt(time)
    time.say(S.SUCCEEDED)
    assert (time.task().state, time.task().run) == (S.SUCCEEDED, 1)
    time.after(3600.0)
    assert time.task().run == 1


def test_a_run_that_is_over_or_being_stopped_is_left_alone() -> None:
    time = running(spec(preemptible=True))
    assert preempt(time, run=7) == []
    time.run_cycle(ev.StopRequested(JOB, None))
    assert preempt(time) == []
    assert time.task().termination == Termination(TerminationReason.KILLED_ON_REQUEST)
    assert time.run_cycle(ev.Preempted([(Run("unknown", 0, 1), WHY)])) == []


async def test_runs_that_resmgr_preempts_are_killed(store: Store) -> None:
    world, engine = World(runs_on), Engine(store)
    world.failures["GetReasons"] = deque([Unavailable("resmgr is down")])
    async with Running(engine, world):
        await engine.create_job(JOB, spec(2, preemptible=True))
        await reach(engine, S.RUNNING, 2)
        for instance, why in enumerate(("its resources are needed elsewhere", "/a is over; /b waits")):
            world.preempted, following = [mesos_task_id(JOB, instance, 1)], mesos_task_id(JOB, instance, 2)
            await until(functools.partial(world.alive.__contains__, following), "the next run is launched")
            history = await store.pod_events.list(JOB, instance, 1)
            assert f"preempted: {why}" in [event.message for event in history]
    assert world.twice == []
