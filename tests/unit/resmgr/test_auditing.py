"""The audit's decisions: what differs counts where two audits in a row have found it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core import restoring
from resmgr.core.auditing import Audit, Missing
from resmgr.core.state.needs import NewTask
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, needs

S = TaskState


def stored(state: TaskState, run: int = 1) -> TaskRuntime:
    return TaskRuntime(
        state=state, goal=S.SUCCEEDED, run=run, desired_run=run, config_version=1, desired_config_version=1
    )


def run_once(audit: Audit, world: World, tasks: dict[int, TaskRuntime]) -> Missing:
    audit.begin(world.now)
    missing = audit.compare(JOB, tasks, world.now)
    audit.check_absent(JOB, tasks, world.now)
    audit.check_absent_jobs([JOB], world.now)
    audit.end()
    world.now += 1
    return missing


def running(world: World, instance: int, job: str = JOB) -> None:
    task = NewTask(job, instance, 1, needs(10))
    runtime = replace(stored(S.RUNNING), host="h1")
    restoring.take_in(world.scheduler, world.pool(), task, runtime, restoring.Moment(world.now, 0))
    world.now += 1


@pytest.mark.parametrize(
    ("state", "queue", "take_in"),
    [
        (S.PENDING, 1, 0),
        (S.READY, 1, 0),
        (S.LAUNCHED, 0, 1),
        (S.RUNNING, 0, 1),
        (S.KILLING, 0, 1),
        (S.INITIALIZED, 0, 0),
        (S.SUCCEEDED, 0, 0),
    ],
)
def test_a_task_that_is_not_held_is_missing_in_the_second_audit(
    state: TaskState, queue: int, take_in: int
) -> None:
    world = World()
    audit = Audit(world.scheduler)
    assert run_once(audit, world, {0: stored(state)}) == Missing({}, {})
    missing = run_once(audit, world, {0: stored(state)})
    assert (len(missing.queue), len(missing.take_in)) == (queue, take_in)


def test_an_orphan_whose_end_was_missed_is_forgotten_by_the_second_audit() -> None:
    """Found by the simulator: its pool was charged with it until the next leader."""
    world = World()
    audit = Audit(world.scheduler)
    running(world, 0)
    world.scheduler.enqueue(world.pool(), [NewTask(JOB, 0, 2, needs(10))], world.now)
    registry = world.scheduler.registry
    assert [run.run for run in registry.orphans] == [1]
    run_once(audit, world, {0: stored(S.PENDING, run=2)})
    assert len(registry.orphans) == 1
    run_once(audit, world, {0: stored(S.PENDING, run=2)})
    assert not registry.orphans
    assert audit.repaired == {"forgotten": 1}
    assert registry.find(Run(JOB, 0, 2)) is registry.current(JOB, 0) is not None


def test_a_difference_of_another_run_does_not_count_as_the_same() -> None:
    world = World()
    audit = Audit(world.scheduler)
    run_once(audit, world, {0: stored(S.RUNNING, run=1)})
    assert run_once(audit, world, {0: stored(S.RUNNING, run=2)}) == Missing({}, {})


def test_a_difference_that_one_audit_did_not_find_starts_again() -> None:
    world = World()
    audit = Audit(world.scheduler)
    run_once(audit, world, {0: stored(S.RUNNING)})
    run_once(audit, world, {})
    assert run_once(audit, world, {0: stored(S.RUNNING)}) == Missing({}, {})


@pytest.mark.parametrize("over", [stored(S.SUCCEEDED), stored(S.INITIALIZED, run=2)])
def test_what_is_over_is_forgotten_in_the_second_audit(over: TaskRuntime) -> None:
    world = World()
    audit = Audit(world.scheduler)
    running(world, 0)
    run_once(audit, world, {0: over})
    assert world.cpu() == 10
    run_once(audit, world, {0: over})
    assert (world.cpu(), audit.repaired["forgotten"]) == (0, 1)


def test_tasks_and_jobs_that_are_not_stored_are_forgotten_but_those_that_came_meanwhile() -> None:
    world = World()
    audit = Audit(world.scheduler)
    running(world, 0)
    running(world, 1)
    running(world, 0, OTHER_JOB)
    for _ in range(2):
        run_once(audit, world, {0: stored(S.RUNNING)})
    assert [(task.job.id, task.instance) for task in world.scheduler.registry] == [(JOB, 0)]
    audit.begin(world.now)
    world.now += 1
    running(world, 5)
    for _ in range(2):
        audit.check_absent(JOB, [0], world.now)
        audit.end()
    assert world.scheduler.registry.current(JOB, 5) is not None, "it came after the audit had begun"
