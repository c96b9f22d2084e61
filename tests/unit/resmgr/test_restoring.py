"""How the scheduler is brought to what is stored: without a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.clock import NANOSECONDS
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core import restoring
from resmgr.core.restoring import Moment
from resmgr.core.state.needs import NewTask
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, needs

S = TaskState
WALL = 1_700_000_000 * NANOSECONDS


def new(instance: int = 0, run: int = 1) -> NewTask:
    return NewTask(JOB, instance, run, needs(10))


def take_in(
    world: World, state: TaskState, instance: int = 0, run: int = 1, start_time: int = 0, saved_at: int = 0
) -> bool:
    runtime = replace(stored(state, run), host="h1", start_time=start_time, saved_at=saved_at)
    return restoring.take_in(
        world.scheduler, world.pool(), new(instance, run), runtime, Moment(world.now, WALL)
    )


def stored(state: TaskState, run: int = 1) -> TaskRuntime:
    return TaskRuntime(
        state=state, goal=S.SUCCEEDED, run=run, desired_run=run, config_version=1, desired_config_version=1
    )


def ago(seconds: float) -> int:
    """Nanoseconds since 1970 of a moment, given by how many seconds ago it was."""
    return WALL - round(seconds * NANOSECONDS)


@pytest.mark.parametrize("state", [S.LAUNCHED, S.STARTING, S.RUNNING, S.KILLING])
def test_a_run_on_a_host_is_charged_once(state: TaskState) -> None:
    world = World()
    assert take_in(world, state)
    assert (world.state(0), world.cpu()) == (state, 10)
    assert not take_in(world, state), "it is known"
    assert world.cpu() == 10


def test_a_run_that_waits_here_and_is_on_a_host_leaves_its_queue() -> None:
    world = World()
    world.enqueue(0, of=needs(10))
    assert take_in(world, S.RUNNING)
    assert (world.state(0), world.cpu(), len(world.queues())) == (S.RUNNING, 10, 0)


def test_a_stored_earlier_run_changes_nothing() -> None:
    world = World()
    world.enqueue(0, of=needs(10), run=2)
    assert not take_in(world, S.RUNNING, run=1)
    assert (world.state(0), world.cpu()) == (S.PENDING, 0)


def test_a_later_run_replaces_one_that_is_known() -> None:
    world = World()
    take_in(world, S.RUNNING)
    assert take_in(world, S.LAUNCHED, run=2)
    assert (world.task(0).run, world.state(0)) == (2, S.LAUNCHED)


def test_a_run_has_run_since_it_started_and_has_saved_its_work_when_it_did() -> None:
    world = World()
    take_in(world, S.RUNNING, 0, start_time=ago(100), saved_at=ago(30))
    take_in(world, S.RUNNING, 1, start_time=ago(50))
    take_in(world, S.RUNNING, 2)  # stored by a release that did not tell
    take_in(world, S.LAUNCHED, 3, start_time=ago(50))  # of its previous run
    take_in(world, S.RUNNING, 4, start_time=ago(-5), saved_at=ago(-5))  # by a clock that is ahead
    since = {instance: world.task(instance).since - world.now for instance in range(5)}
    assert since == pytest.approx({0: -100, 1: -50, 2: 0, 3: 0, 4: 0})
    saved = {task.instance: at - world.now for task, at in world.scheduler.registry.saved.items()}
    assert saved == pytest.approx({0: -30, 4: 0})


def test_what_is_stored_of_a_known_run_adds_when_it_has_saved_its_work() -> None:
    world = World()
    take_in(world, S.RUNNING, start_time=ago(100))
    assert not take_in(world, S.RUNNING, start_time=ago(100), saved_at=ago(40))
    world.scheduler.note_saved(Run(JOB, 0, 1), world.now - 10)
    take_in(world, S.RUNNING, start_time=ago(100), saved_at=ago(40))
    assert [world.now - at for at in world.scheduler.registry.saved.values()] == pytest.approx([10])


def test_ended_and_replaced_runs_are_forgotten() -> None:
    world = World()
    for instance in range(4):
        take_in(world, S.RUNNING, instance)
    ended = {0: stored(S.SUCCEEDED), 1: stored(S.INITIALIZED, run=2), 2: stored(S.RUNNING), 9: stored(S.LOST)}
    assert restoring.forget_ended(world.scheduler, JOB, ended, world.now) == 2
    assert [task.instance for task in world.scheduler.registry] == [2, 3]
    assert world.cpu() == 20


def test_a_later_run_that_waits_is_not_forgotten_for_an_earlier_one() -> None:
    world = World()
    world.enqueue(0, run=2)
    restoring.forget_ended(world.scheduler, JOB, {0: stored(S.FAILED, run=1)}, world.now)
    assert world.state(0) is S.PENDING


def test_what_the_store_does_not_list_and_orphans_are_forgotten() -> None:
    world = World()
    for instance in range(3):
        take_in(world, S.RUNNING, instance)
    world.enqueue(0, of=needs(10), run=2)
    before = restoring.held(world.scheduler)
    assert set(before) == {Run(JOB, 0, 1), Run(JOB, 1, 1), Run(JOB, 2, 1)}
    listed = {JOB: {0, 1}, OTHER_JOB: {2}}
    assert restoring.forget_absent(world.scheduler, before, listed, world.now) == 2
    assert not world.scheduler.registry.orphans
    assert sorted(task.instance for task in world.scheduler.registry) == [0, 1]
