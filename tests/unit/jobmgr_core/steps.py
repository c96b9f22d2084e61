"""Steps that the engine's tests share."""

from __future__ import annotations

import asyncio
import itertools

from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from mesos.v1 import mesos_pb2
from peloton.membership.interface import Role
from peloton.model.ids import parse_mesos_task_id
from peloton.model.states import TaskState
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.world import World, runs_on, runs_well
from tests.waiting import until

PATIENCE_SECONDS = 60.0
FAST = Limits(kill_again_after=0.05, kill_again_most=0.2, confirm_after=0.05, ask_after=0.05)
_TERMS = itertools.count(1)


def failing(times: int, state: int = mesos_pb2.TASK_FAILED) -> World:
    """A world in which the first runs of an instance fail, that many."""

    def behaviour(run: str) -> list[tuple[int, str]]:
        if parse_mesos_task_id(run).run > times:
            return runs_well(run)
        return [*runs_on(run), (state, "Command exited with status 3")]

    return World(behaviour)


async def begin_term(store: Store) -> None:
    """Begin the next leader's term, before it reads: after all writes that the last leader had begun."""
    await store.begin_term(Role.JOBMGR.value, next(_TERMS))


async def next_leader(store: Store, limits: Limits = FAST) -> Engine:
    """A leader that knows the list of active jobs, in a term of its own."""
    await begin_term(store)
    engine = Engine(store, limits=limits)
    await engine.recovery.begin()
    return engine


async def ended(engine: Engine, job: str = JOB) -> None:
    await until(lambda: engine.job(job) is None, f"job {job} has ended")


async def archived(store: Store) -> None:
    """The store holds no job for active any more, which follows a job's end in memory."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await store.jobs.active():
            pass


def count(engine: Engine, state: TaskState) -> int:
    job = engine.job(JOB)
    return 0 if job is None else job.counts.get(state, 0)


async def reach(engine: Engine, state: TaskState, tasks: int) -> None:
    await until(lambda: count(engine, state) == tasks, f"{tasks} tasks are {state.name}")
