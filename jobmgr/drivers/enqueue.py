"""Enqueues gangs in resmgr and withdraws runs, many of one pool in a call."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import Enqueued, EnqueueRefused, Event, RunOf, Withdrawn
from jobmgr.core.state.instructions import Enqueue, Withdraw
from jobmgr.drivers.retry import until_answered
from jobmgr.engine.outbox import Queue
from peloton.api.v0 import peloton_pb2
from peloton.daemon.tracing import TRACES
from peloton.errors import PelotonError
from peloton.model.ids import JobId, PoolId, Run, parse_task_id, task_id
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.rpc.client import Caller
from peloton.wire.resmgr import resmgr_task

GANGS_PER_CALL = 1000
TASKS_PER_WITHDRAWAL = 1000
INSTRUCTIONS_AT_ONCE = 256
_KNOWN = resmgrsvc_pb2.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_ALREADY_EXIST
log = logging.getLogger(__name__)

Jobs = Callable[[JobId], CachedJob | None]
Post = Callable[[Event], None]
Gang = tuple[JobId, tuple[RunOf, ...]]


class Enqueuer:
    """Carries out Enqueue and Withdraw."""

    def __init__(self, resmgr: Caller, jobs: Jobs, post: Post) -> None:
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
        request = resmgrsvc_pb2.EnqueueGangsRequest(resPool=peloton_pb2.ResourcePoolID(value=pool))
        sent = [gang for gang in gangs if self._add(request, *gang)]
        if not sent:
            return
        begun = TRACES.now()
        try:
            answer = await until_answered(self._resmgr, "EnqueueGangs", request)
        except PelotonError as error:
            refused = dict.fromkeys(range(len(sent)), str(error))
        else:
            refused = _refusals(answer, sent)
        if begun:
            _trace(sent, refused, begun)
        self._post_results(sent, refused)

    def _add(
        self, request: resmgrsvc_pb2.EnqueueGangsRequest, job_id: JobId, gang: tuple[RunOf, ...]
    ) -> bool:
        """Add a gang; return False where the job has ended meanwhile, or none of the runs is current."""
        job = self._jobs(job_id)
        if job is None:
            return False
        tasks = []
        for instance, run in gang:
            task = job.task(instance)
            if task is not None and task.run == run:
                tasks.append(resmgr_task(job_id, job.spec_of(instance), instance, task))
        if tasks:
            request.gangs.add().tasks.extend(tasks)
        return bool(tasks)

    def _post_results(self, gangs: list[Gang], refused: dict[int, str]) -> None:
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
        tasks = [peloton_pb2.TaskID(value=task_id(job_id, run[0])) for job_id, run in runs]
        request = resmgrsvc_pb2.KillTasksRequest(tasks=tasks)
        answer = await until_answered(self._resmgr, "KillTasks", request, transient=(PelotonError,))
        kept = {e.killError.task.value: e.killError.message for e in answer.error if e.HasField("killError")}
        gone: dict[JobId, list[RunOf]] = defaultdict(list)
        for job_id, run in runs:
            message = kept.get(task_id(job_id, run[0]))
            if message is not None:
                log.warning("resmgr does not withdraw %s: %s", task_id(job_id, run[0]), message)
            gone[job_id].append(run)
        for job_id, withdrawn in gone.items():
            self._post(Withdrawn(job_id, withdrawn))


def _trace(gangs: list[Gang], refused: dict[int, str], begun: int) -> None:
    for at, (job_id, gang) in enumerate(gangs):
        for run in gang if TRACES.follows_job(job_id) else ():
            if TRACES.follows(Run(job_id, *run)):
                TRACES.part(Run(job_id, *run), "enqueue", begun, TRACES.now(), {}, refused.get(at, ""))


def _refusals(answer: resmgrsvc_pb2.EnqueueGangsResponse, gangs: list[Gang]) -> dict[int, str]:
    """Return messages by position of the gang. A run that resmgr knows is not refused."""
    if not answer.HasField("error"):
        return {}
    error = answer.error
    if error.HasField("notFound") or error.HasField("noPermission"):
        message = error.notFound.message or error.noPermission.message or "the pool takes no jobs"
        return dict.fromkeys(range(len(gangs)), message)
    failed = {
        parse_task_id(each.task.id.value): each.message
        for each in error.failure.failed
        if each.errorcode != _KNOWN
    }
    return {at: text for at, gang in enumerate(gangs) if (text := _first(failed, _tasks(gang)))}


def _tasks(gang: Gang) -> Iterable[tuple[JobId, int]]:
    return ((gang[0], instance) for instance, _ in gang[1])


def _first(failed: dict[tuple[JobId, int], str], tasks: Iterable[tuple[JobId, int]]) -> str:
    """Return the message of the first refused task of a gang; empty where there is none."""
    return next((failed[task] or "refused" for task in tasks if task in failed), "")
