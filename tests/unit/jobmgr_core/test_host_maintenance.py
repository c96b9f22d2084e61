"""Tasks on hosts whose maintenance begins: on the core alone, and through the drivers."""

from __future__ import annotations

import functools

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.engine.engine import Engine
from mesos.v1 import mesos_pb2
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import TaskState, TerminationReason
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.job import job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.services import Service
from tests.unit.jobmgr_core.specs import JOB, config, spec
from tests.unit.jobmgr_core.steps import reach
from tests.unit.jobmgr_core.test_availability import limited
from tests.unit.jobmgr_core.test_deadlines import Time
from tests.unit.jobmgr_core.test_foreign_pods import foreign_job
from tests.unit.jobmgr_core.test_preemption import running
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState


def drain(time: Time, run: int = 1) -> list[ins.Instruction]:
    return list(time.run_cycle(ev.Draining([Run(JOB, 0, run)])))


def test_a_task_runs_again_without_a_failure() -> None:
    time = running(spec())
    host = time.task().host
    assert drain(time) == [ins.Kill((Run(JOB, 0, 1),))]
    killing = time.task()
    assert (killing.state, killing.message) == (S.KILLING, f"maintenance of {host}")
    assert killing.termination is not None
    assert killing.termination.reason is TerminationReason.KILLED_HOST_MAINTENANCE
    assert drain(time) == [], "it is being killed"
    [enqueue] = time.say(S.KILLED)
    assert enqueue == ins.Enqueue(JOB, (((0, 2),),))
    again = time.task()
    assert (again.state, again.run, again.failure_count, again.desired_host) == (S.INITIALIZED, 2, 0, "")
    assert again.message.startswith(f"run 1 KILLED: maintenance of {host}")


def test_a_task_that_stays_killed_when_preempted_runs_again() -> None:
    wire = config(preemptible=True)
    wire.defaultConfig.preemptionPolicy.killOnPreempt = True
    time = running(job_spec(wire, 1))
    drain(time)
    time.say(S.KILLED)
    assert (time.task().state, time.task().run) == (S.INITIALIZED, 2)


def test_a_run_that_finished_meanwhile_has_succeeded() -> None:
    time = running(spec(2))
    drain(time)
    time.say(S.SUCCEEDED)
    assert (time.task().state, time.task().run) == (S.SUCCEEDED, 1)


@pytest.mark.parametrize("end", [S.FAILED, S.LOST])
def test_the_next_run_follows_however_the_run_ends(end: TaskState) -> None:
    time = running(spec())
    drain(time)
    time.say(end)
    assert (time.task().run, time.task().failure_count) == (2, 0)


def test_a_run_that_was_launched_and_has_not_started_is_moved_too() -> None:
    time = Time(spec())
    time.launch()
    assert drain(time) == [ins.Kill((Run(JOB, 0, 1),))]


def test_runs_that_nobody_knows_are_killed() -> None:
    time = running(spec())
    unknown = Run("6f3c4b62-9d4e-4cf5-a9ce-0d1d63ed5ee6", 0, 1)
    assert time.run_cycle(ev.Draining([unknown])) == [ins.Kill((unknown,))]
    time.run_cycle(ev.StopRequested(JOB, None))
    assert drain(time) == [], "it is being stopped"


def test_a_service_is_held_to_its_sla_and_says_so() -> None:
    it = Service(limited(1))
    it.settle()
    runs = [Run(JOB, i, it.rows[i].run) for i in range(4)]
    it.cycle(ev.Draining(runs))
    assert it.states() == ["KILLING", "RUNNING", "RUNNING", "RUNNING"]
    assert it.rows[1].message == (
        f"to be moved for the maintenance of {it.rows[1].host}, but the SLA would break: 1 instance is "
        "unavailable, 1 more would be, and maximumUnavailableInstances is 1"
    )
    before = dict(it.rows)
    it.cycle(ev.Draining(runs))
    assert it.rows == before, "nothing is stored again"
    it.settle()
    it.cycle(ev.Draining(runs[1:]))
    assert it.states() == ["RUNNING", "KILLING", "RUNNING", "RUNNING"] and it.rows[0].run == 2


@pytest.mark.parametrize("job", [spec(1), foreign_job()], ids=["a task", "a pod of somebody else"])
async def test_a_kill_is_for_maintenance_until_the_job_is_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch, job: JobSpec
) -> None:
    """The cluster may keep a run that is to be moved, but not one that a user stops meanwhile.

    A pod of somebody else does not run again; budgets keep it likewise.
    """
    world, engine = World(runs_on), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, job)
        await reach(engine, S.RUNNING, 1)
        monkeypatch.setattr(world, "_kill", lambda request: hostsvc_pb2.KillTasksResponse())
        world.draining = {*world.alive.values()}
        await until(lambda: world.called("KillTasks"), "it is killed")
        assert {each.maintenance for each in world.called("KillTasks")} == {True}
        world.draining = set()
        kept = len(world.called("KillTasks"))
        await engine.stop(JOB, None)
        await until(lambda: len(world.called("KillTasks")) > kept, "it is killed again")
        assert not world.called("KillTasks")[-1].maintenance
        monkeypatch.undo()
        world.status(mesos_task_id(JOB, 0, 1), mesos_pb2.TASK_KILLED)


async def test_draining_hosts_become_empty(store: Store) -> None:
    world, engine = World(runs_on), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, spec(2))
        await reach(engine, S.RUNNING, 2)
        world.draining = {world.alive[mesos_task_id(JOB, 0, 1)]}
        for instance in (0, 1):
            following = mesos_task_id(JOB, instance, 2)
            await until(functools.partial(world.alive.__contains__, following), "the next run is launched")
        assert world.draining.isdisjoint(world.alive.values())
    assert world.twice == []
