"""Leaders that crash between two writes or within one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.instructions import Compare, Enqueue, Launch, Settle
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec, stored_job
from tests.unit.jobmgr_core.steps import ended
from tests.unit.jobmgr_core.world import Running, World

S = TaskState
WALL = 1_700_000_000_000_000_000


class Leader:
    """A core whose cycles are stored at once, over a resmgr that holds nothing.

    A comparison in one cycle is answered in the next.
    """

    def __init__(
        self,
        made: JobSpec,
        runtime: JobRuntime,
        rows: dict[int, TaskRuntime],
        older: Sequence[JobSpec] = (),
        **limits: int,
    ) -> None:
        self.core = Core(Limits(**limits))
        self.core.active.recover(stored_job(runtime, rows, made, *older))
        self.at = 0
        self._answers: list[ev.Event] = []

    def run_cycle(self, *events: ev.Event) -> Cycle:
        self.at += 1
        cycle = self.core.run_cycle([*self._answers, *events], ev.Now(WALL + self.at, float(self.at)))
        self.core.commit(cycle)
        self._answers = [
            ev.Compared(each.job_id, [(i, run) for first, end, run in each.spans for i in range(first, end)])
            for each in cycle.instructions
            if isinstance(each, Compare)
        ]
        return cycle

    def task(self, instance: int) -> TaskRuntime:
        return self.core.active.jobs[JOB].job.tasks[instance]


def runtime(version: int = 1) -> JobRuntime:
    return JobRuntime(JobState.PENDING, JobState.SUCCEEDED, version, 1)


def row(state: TaskState, run: int = 1, start_time: int = 0, **usage: float) -> TaskRuntime:
    return TaskRuntime(state, S.SUCCEEDED, run, 1, 1, run, start_time=start_time, resource_usage=usage)


def statuses(state: TaskState, *instances: int, run: int = 1) -> ev.Statuses:
    runs = [Run(JOB, instance, run) for instance in instances]
    return ev.Statuses([(each, TaskStatus(mesos_task_id(*each), state, WALL)) for each in runs])


def placed(*instances: int) -> ev.Placed:
    runs = tuple(Run(JOB, instance, 1) for instance in instances)
    return ev.Placed([ev.Placement("host", "agent", "offer", (), runs)])


def launched(cycle: Cycle) -> list[int]:
    return [run.instance for each in cycle.instructions if isinstance(each, Launch) for run in each.runs]


def settled(cycle: Cycle) -> list[tuple[int, TaskState]]:
    return [
        (run.instance, state)
        for each in cycle.instructions
        if isinstance(each, Settle)
        for run, state in each.runs
    ]


def test_job_sums_are_computed_from_rows_that_were_stored_without_them() -> None:
    """Of a write over several partitions the rows may be there and the job's own runtime not."""
    rows = {0: row(S.SUCCEEDED, start_time=WALL - 7, cpu=2.0), 1: row(S.RUNNING, start_time=WALL - 5)}
    leader = Leader(spec(2), runtime(), rows)
    leader.run_cycle()
    change = leader.run_cycle(statuses(S.SUCCEEDED, 1)).changes[JOB]
    assert change.runtime is not None
    assert change.runtime.state is JobState.SUCCEEDED
    assert change.runtime.start_time == WALL - 7
    assert change.runtime.config_counts == {1: 2}
    assert change.runtime.task_counts == {S.SUCCEEDED: 2}
    assert change.runtime.resource_usage["cpu"] > 2.0


def test_a_job_starts_when_a_killing_run_is_reported_running() -> None:
    leader = Leader(spec(1), runtime(), {0: row(S.LAUNCHED)})
    leader.run_cycle(ev.StopRequested(JOB, None))
    change = leader.run_cycle(statuses(S.RUNNING, 0)).changes[JOB]
    assert change.runtime is not None
    assert change.runtime.start_time


def test_runs_enqueued_by_an_earlier_leader_stay_within_the_maximum() -> None:
    """The earlier leader had enqueued instance 2; this one has enqueued 0 and 1."""
    made = spec(3, maximumRunningInstances=2)
    leader = Leader(made, runtime(), dict.fromkeys(range(3), row(S.INITIALIZED)))
    leader.run_cycle()
    cycle = leader.run_cycle(placed(0, 1, 2))
    assert launched(cycle) == [0, 1]
    assert settled(cycle) == [(2, S.LOST)]
    assert (leader.task(2).state, leader.task(2).run) == (S.INITIALIZED, 2)
    assert "maximumRunningInstances of 2" in leader.task(2).message


def test_runs_enqueued_by_an_earlier_leader_are_launched_within_the_maximum() -> None:
    leader = Leader(spec(3), runtime(), dict.fromkeys(range(3), row(S.INITIALIZED)), rows_per_cycle=1)
    assert launched(leader.run_cycle(placed(2))) == [2]


def test_a_status_of_the_invalid_run_0_kills_that_run_only() -> None:
    leader = Leader(spec(2), runtime(), {0: row(S.PENDING)}, rows_per_cycle=1)
    cycle = leader.run_cycle(statuses(S.RUNNING, 1, run=0))
    assert cycle.orphans == {"": [Run(JOB, 1, 0)]}
    assert not leader.run_cycle(statuses(S.FAILED, 1, run=0)).orphans


def test_an_instance_stopped_before_its_creation_never_runs() -> None:
    leader = Leader(spec(5), runtime(), {}, rows_per_cycle=2)
    cycle = leader.run_cycle(ev.StopRequested(JOB, [3, 4, 9]))
    assert cycle.replies == [[3, 4]]
    for _ in range(3):
        leader.run_cycle()
    assert [leader.task(i).state for i in range(5)] == [S.INITIALIZED] * 3 + [S.KILLED] * 2
    leader.run_cycle(ev.StartRequested(JOB, [4]))
    assert (leader.task(4).state, leader.task(4).run) == (S.INITIALIZED, 2)


async def test_rows_of_an_interrupted_update_are_not_part_of_the_finished_job(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, spec(2))
        await ended(running.engine)
    await store.write_all(JOB, dict.fromkeys((2, 3), row(S.INITIALIZED)))
    job = await Engine(store).load(JOB)
    assert job.counts == {S.SUCCEEDED: 2}


def enqueued(cycle: Cycle) -> list[list[int]]:
    return [
        [instance for instance, _ in gang]
        for each in cycle.instructions
        if isinstance(each, Enqueue)
        for gang in each.gangs
    ]


@pytest.mark.parametrize(
    "states",
    [[S.INITIALIZED] * 5, [S.PENDING] * 5, [S.PENDING, S.INITIALIZED] * 2 + [S.PENDING]],
    ids=["not enqueued", "enqueued", "some enqueued"],
)
def test_a_gang_larger_than_the_share_of_a_cycle_is_enqueued_as_one(states: list[TaskState]) -> None:
    rows = {i: row(state) for i, state in enumerate([*states, S.INITIALIZED])}
    leader = Leader(spec(6, minimumRunningInstances=5), runtime(), rows, rows_per_cycle=2)
    gangs = [gang for _ in range(6) for gang in enqueued(leader.run_cycle())]
    assert sorted(gangs) == [[0, 1, 2, 3, 4], [5]]


def test_runs_refused_by_a_new_resmgr_are_retried() -> None:
    """It was PENDING at the one before: this one does not have it."""
    leader = Leader(spec(1), runtime(), {0: row(S.PENDING)})
    leader.run_cycle()
    assert enqueued(leader.run_cycle()) == [[0]]
    leader.run_cycle(ev.EnqueueRefused(JOB, [(0, 1)], "cpu: gang 9 cores > limit 5 cores of /a"))
    assert (leader.task(0).state, leader.task(0).reason) == (
        S.INITIALIZED,
        "cpu: gang 9 cores > limit 5 cores of /a",
    )
    leader.at += 3600
    assert enqueued(leader.run_cycle()) == [[0]]


def test_runs_enqueued_again_take_no_slots_from_others() -> None:
    rows = {**dict.fromkeys(range(3), row(S.PENDING)), 3: row(S.INITIALIZED), 4: row(S.INITIALIZED)}
    leader = Leader(spec(5, maximumRunningInstances=4), runtime(), rows)
    assert [*enqueued(leader.run_cycle()), *enqueued(leader.run_cycle())] == [[3], [0], [1], [2]]
    assert launched(leader.run_cycle(placed(3, 4))) == [3]
