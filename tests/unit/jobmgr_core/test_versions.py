"""An instance runs with the spec of its own version of the config."""

from __future__ import annotations

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.ports import ports_needed, shares
from jobmgr.engine.engine import Engine
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.wire.job import job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, config, spec
from tests.unit.jobmgr_core.steps import archived, ended, failing, next_leader, reach
from tests.unit.jobmgr_core.test_interrupted_leaders import WALL, Leader
from tests.unit.jobmgr_core.world import Running, World

S = TaskState
SECOND = 1_000_000_000
HOUR = 3600


def first(instances: int = 1) -> JobSpec:
    return spec(instances)


def second(instances: int = 2) -> JobSpec:
    """A version with other resources, retries, ports, grace period, preemption and time limit."""
    wire = config(instances, max_failures=3, maxRunningTime=HOUR, preemptible=True)
    wire.defaultConfig.resource.cpuLimit = 2.0
    wire.defaultConfig.killGracePeriodSeconds = 60
    wire.defaultConfig.preemptionPolicy.killOnPreempt = True
    wire.defaultConfig.ports.add(name="http", envName="HTTP")
    return job_spec(wire, 2)


def row(state: TaskState, version: int, desired: int = 0) -> TaskRuntime:
    return TaskRuntime(
        state, S.SUCCEEDED, 1, version, desired or version, 1, start_time=WALL, updated_at=WALL
    )


def leader(*rows: TaskRuntime) -> Leader:
    """A leader of a job of two versions, with these instances."""
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 2, 1)
    led = Leader(second(len(rows)), runtime, dict(enumerate(rows)), older=(first(len(rows)),))
    led.run_cycle()
    return led


def task(led: Leader, instance: int) -> TaskRuntime:
    return led.core.active.jobs[JOB].job.tasks[instance]


def status(instance: int, state: TaskState, run: int = 1) -> ev.Statuses:
    reported = TaskStatus(mesos_task_id(JOB, instance, run), state, WALL + 10 * SECOND)
    return ev.Statuses([(Run(JOB, instance, run), reported)])


async def test_instances_of_two_versions_are_enqueued_launched_and_retried_by_their_own(store: Store) -> None:
    world = failing(times=9)
    async with Running(Engine(store), world) as running:
        world.hold = True
        await running.engine.create_job(JOB, first())
        await reach(running.engine, S.PENDING, 1)
        await running.engine.update_job(JOB, second())
        await reach(running.engine, S.PENDING, 2)
        world.hold = False
        await ended(running.engine)
        job = await running.engine.load(JOB)
    check_both(world)
    assert [task.failure_count for task in job.tasks] == [1, 3]
    assert [task.config_version for task in job.tasks] == [1, 2]


def check_both(world: World) -> None:
    """Instance 0 is of the first version, instance 1 of the second."""
    enqueued = [task for call in world.called("EnqueueGangs") for gang in call.gangs for task in gang.tasks]
    assert {(task.id.value[-1], task.resource.cpuLimit, task.numPorts) for task in enqueued} == {
        ("0", 1.0, 0),
        ("1", 2.0, 1),
    }
    launched = [task for call in world.called("LaunchTasks") for task in call.tasks]
    assert {
        (task.id.value[-1], task.config.killGracePeriodSeconds, dict(task.ports).keys() == {"http"})
        for task in launched
    } == {("0", 0, False), ("1", 60, True)}
    assert sorted(task.taskId.value for task in launched) == [
        f"{JOB}-0-1",
        f"{JOB}-1-1",
        f"{JOB}-1-2",
        f"{JOB}-1-3",
    ]


async def test_a_new_leader_reads_all_versions_in_use_before_it_decides(store: Store) -> None:
    world = failing(times=9)
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, first())
        await reach(running.engine, S.PENDING, 1)
        await running.engine.update_job(JOB, second())
        await reach(running.engine, S.PENDING, 2)
    world.queued.clear()
    world.hold = False
    engine = await next_leader(store)
    async with Running(engine, world):
        await archived(store)
    check_both(world)


def test_a_preempted_instance_is_restarted_or_stays_killed_by_its_own_version() -> None:
    led = leader(row(S.RUNNING, 1), row(S.RUNNING, 2))
    led.run_cycle(ev.Preempted([(Run(JOB, instance, 1), "make room") for instance in (0, 1)]))
    assert [task(led, instance).goal for instance in (0, 1)] == [S.SUCCEEDED, S.PREEMPTING]
    led.run_cycle(status(0, S.KILLED))
    assert (task(led, 0).run, task(led, 0).state) == (2, S.INITIALIZED)


def test_an_instance_is_killed_for_the_time_limit_of_its_own_version() -> None:
    led = leader(row(S.RUNNING, 1), row(S.RUNNING, 2))
    led.at += 2 * HOUR * SECOND
    led.core.active.actions.deadlines.set((JOB, 0), 0.0)
    led.run_cycle()
    ends = [task(led, instance).termination for instance in (0, 1)]
    assert ends[0] is None
    assert ends[1] is not None
    assert ends[1].reason is TerminationReason.DEADLINE_TIMEOUT_EXCEEDED


def test_the_next_run_has_the_desired_version_and_unused_versions_are_dropped() -> None:
    led = leader(row(S.RUNNING, 1, desired=2), row(S.RUNNING, 2))
    job = led.core.active.jobs[JOB].job
    assert job.spec_of(0).version == 1
    led.run_cycle(ev.RestartRequested(JOB, [0]), status(0, S.KILLED))
    assert (task(led, 0).run, task(led, 0).config_version) == (2, 2)
    assert job.spec_of(0).version == 2
    assert job.runtime.config_counts == {2: 2}
    assert job.desired_versions == {2: 2}
    assert set(job.specs) == {2}


def test_ports_are_dealt_by_the_version_of_each_run() -> None:
    led = leader(row(S.PENDING, 1), row(S.PENDING, 2))
    runs = tuple(Run(JOB, instance, 1) for instance in (1, 0))
    led.run_cycle(ev.Placed([ev.Placement("host", "agent", "offer", (31000,), runs)]))
    assert [dict(task(led, instance).ports) for instance in (0, 1)] == [{}, {"http": 31000}]


def test_the_ports_of_a_run_of_an_unknown_version_are_unknown_where_versions_differ() -> None:
    specs = {1: first(), 2: second()}
    current = row(S.PENDING, 2)
    assert ports_needed(Run(JOB, 0, 1), current, specs) == 1
    assert ports_needed(Run(JOB, 0, 7), current, specs) is None
    assert ports_needed(Run(JOB, 0, 7), current, {2: second()}) == 1
    assert ports_needed(Run(JOB, 0, 1), None, {1: first()}) == 0


@pytest.mark.parametrize(
    ("ports", "needs", "expected"),
    [
        ((1, 2, 3), (1, 2), [(1,), (2, 3)]),
        ((1, 2, 3), (1, None), [(1,), (2, 3)]),
        ((1, 2, 3), (1, None, 2), [(1,), (), (2, 3)]),
        ((1, 2, 3), (None, None, 1, 0), [(), (), None, ()]),
        ((1,), (1, None, None), [(1,), (), ()]),
        ((), (1, 0), [None, ()]),
    ],
)
def test_a_flat_list_of_ports_is_dealt_to_runs(
    ports: tuple[int, ...], needs: tuple[int | None, ...], expected: list[tuple[int, ...] | None]
) -> None:
    assert shares(ports, needs) == expected
