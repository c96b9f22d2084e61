"""Enqueues gangs in resmgr and withdraws runs, many of one pool in a call."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import Enqueued, EnqueueRefused, Event, RunOf, Withdrawn
from jobmgr.core.state.instructions import Enqueue, Withdraw
from jobmgr.engine.outbox import Queue
from jobmgr.ports.resmgr import PoolQueues, WaitingTask
from peloton.daemon.tracing import TRACES
from peloton.errors import PelotonError
from peloton.model.ids import JobId, PoolId, Run, task_id

GANGS_PER_CALL = 1000
TASKS_PER_WITHDRAWAL = 1000
INSTRUCTIONS_AT_ONCE = 256
log = logging.getLogger(__name__)

Jobs = Callable[[JobId], CachedJob | None]
Post = Callable[[Event], None]
Gang = tuple[JobId, tuple[RunOf, ...]]


class Enqueuer:
    """Carries out Enqueue and Withdraw."""

    def __init__(self, resmgr: PoolQueues, jobs: Jobs, post: Post) -> None:
        self._resmgr = resmgr
        self._jobs = jobs
        self._post = post

    async def enqueue(self, queue: Queue[Enqueue]) -> None:
        """Enqueue gangs; run for ever."""
        while True:
            pools: dict[PoolId, list[Gang]] = defaultdict(list)
            for item in await queue.take(INSTRUCTIONS_AT_ONCE):
                job = self._jobs(item.job_id)
                if job is not None:
                    pools[job.spec.pool_id] += ((item.job_id, gang) for gang in item.gangs)
            await asyncio.gather(*(self._one_pool(pool, gangs) for pool, gangs in pools.items()))

    async def withdraw(self, queue: Queue[Withdraw]) -> None:
        """Withdraw runs; run for ever."""
        while True:
            items = await queue.take(INSTRUCTIONS_AT_ONCE)
            runs = [(item.job_id, run) for item in items for run in item.runs]
            for at in range(0, len(runs), TASKS_PER_WITHDRAWAL):
                await self._withdraw(runs[at : at + TASKS_PER_WITHDRAWAL])

    async def _one_pool(self, pool: PoolId, gangs: list[Gang]) -> None:
        for at in range(0, len(gangs), GANGS_PER_CALL):
            await self._send(pool, gangs[at : at + GANGS_PER_CALL])

    async def _send(self, pool: PoolId, gangs: list[Gang]) -> None:
        sent: list[Gang] = []
        waiting: list[list[WaitingTask]] = []
        for gang in gangs:
            if tasks := self._waiting(*gang):
                sent.append(gang)
                waiting.append(tasks)
        if not sent:
            return
        begun = TRACES.now()
        refused: Mapping[int, str]
        try:
            refused = await self._resmgr.enqueue(pool, waiting)
        except PelotonError as error:
            refused = dict.fromkeys(range(len(sent)), str(error))
        if begun:
            _trace(sent, refused, begun)
        self._post_results(sent, refused)

    def _waiting(self, job_id: JobId, gang: tuple[RunOf, ...]) -> list[WaitingTask]:
        """Return the tasks of a gang; none where the job has ended meanwhile, or no run is current."""
        job = self._jobs(job_id)
        if job is None:
            return []
        tasks = []
        for instance, run in gang:
            task = job.task(instance)
            if task is not None and task.run == run:
                tasks.append(WaitingTask(job_id, job.spec_of(instance), instance, task))
        return tasks

    def _post_results(self, gangs: list[Gang], refused: Mapping[int, str]) -> None:
        """Post the results of a call; `refused` has messages by position of the gang."""
        taken: dict[JobId, list[RunOf]] = defaultdict(list)
        for at, (job_id, gang) in enumerate(gangs):
            if at in refused:
                self._post(EnqueueRefused(job_id, gang, refused[at]))
            else:
                taken[job_id] += gang
        for job_id, runs in taken.items():
            self._post(Enqueued(job_id, runs))

    async def _withdraw(self, runs: list[tuple[JobId, RunOf]]) -> None:
        kept = await self._resmgr.withdraw([Run(job_id, *run) for job_id, run in runs])
        gone: dict[JobId, list[RunOf]] = defaultdict(list)
        for job_id, run in runs:
            task = task_id(job_id, run[0])
            if task in kept:
                log.warning("resmgr does not withdraw %s: %s", task, kept[task])
            gone[job_id].append(run)
        for job_id, withdrawn in gone.items():
            self._post(Withdrawn(job_id, withdrawn))


def _trace(gangs: list[Gang], refused: Mapping[int, str], begun: int) -> None:
    for at, (job_id, gang) in enumerate(gangs):
        for run in gang if TRACES.follows_job(job_id) else ():
            if TRACES.follows(Run(job_id, *run)):
                TRACES.part(Run(job_id, *run), "enqueue", begun, TRACES.now(), {}, refused.get(at, ""))
