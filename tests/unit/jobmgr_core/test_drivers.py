"""Drivers: answers of other daemons, and repeated calls."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import Enqueued, EnqueueRefused, Event, Withdrawn
from jobmgr.core.state.instructions import Enqueue, Withdraw
from jobmgr.drivers.enqueue import Enqueuer
from jobmgr.drivers.retry import Bucket, until_answered
from jobmgr.drivers.spawn import expire
from jobmgr.engine.outbox import Outbox, Queue
from peloton.clock import NANOSECONDS, ManualClock
from peloton.errors import NotFound, ResourceExhausted, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.private.resmgrsvc import resmgrsvc_pb2
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.world import until

ALREADY = resmgrsvc_pb2.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_ALREADY_EXIST


class Script:
    """Answers calls in order."""

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.requests: list[Any] = []

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        self.requests.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


def job(instances: int) -> CachedJob:
    made = CachedJob(JOB, spec(instances), JobRuntime(JobState.PENDING, JobState.SUCCEEDED, 1, 1))
    for instance in range(instances):
        made.put(instance, TaskRuntime(TaskState.INITIALIZED, TaskState.SUCCEEDED, 1, 1, 1, 1))
    return made


async def outcome(resmgr: Script, known: CachedJob, item: Enqueue | Withdraw, events: int) -> list[Event]:
    """What the enqueuer posts for one instruction."""
    posted: list[Event] = []
    jobs: dict[JobId, CachedJob] = {known.job_id: known}
    enqueuer, outbox = Enqueuer(resmgr, jobs.get, posted.append), Outbox()
    outbox.send([item])
    work = enqueuer.enqueue(outbox.enqueue) if outbox.enqueue else enqueuer.withdraw(outbox.withdraw)
    running = asyncio.create_task(work)
    try:
        await until(lambda: len(posted) >= events or running.done(), f"{events} events are posted")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return posted


ONE_BY_ONE = Enqueue(JOB, (((0, 1),), ((1, 1),)))


async def test_a_pool_that_is_gone_refuses_all() -> None:
    answer = resmgrsvc_pb2.EnqueueGangsResponse()
    answer.error.notFound.message = "no pool x"
    assert await outcome(Script(answer), job(2), ONE_BY_ONE, 2) == [
        EnqueueRefused(JOB, ((0, 1),), "no pool x"),
        EnqueueRefused(JOB, ((1, 1),), "no pool x"),
    ]


async def test_a_refused_gang_does_not_affect_known_runs() -> None:
    answer = resmgrsvc_pb2.EnqueueGangsResponse()
    for instance, code in ((0, ALREADY), (1, 0)):
        failed = answer.error.failure.failed.add(message=f"no {instance}", errorcode=code)
        failed.task.id.value = f"{JOB}-{instance}"
    assert await outcome(Script(answer), job(2), ONE_BY_ONE, 2) == [
        EnqueueRefused(JOB, ((1, 1),), "no 1"),
        Enqueued(JOB, [(0, 1)]),
    ]


async def test_a_permanent_failure_refuses_each_gang() -> None:
    posted = await outcome(Script(NotFound("what pool?")), job(2), ONE_BY_ONE, 2)
    assert {type(event) for event in posted} == {EnqueueRefused}


async def test_a_transient_failure_is_retried() -> None:
    resmgr = Script(Unavailable("x"), ResourceExhausted("y"), resmgrsvc_pb2.EnqueueGangsResponse())
    assert await outcome(resmgr, job(2), ONE_BY_ONE, 1) == [Enqueued(JOB, [(0, 1), (1, 1)])]
    assert resmgr.requests[0] == resmgr.requests[2]


async def test_runs_that_are_no_longer_current_are_not_sent() -> None:
    resmgr = Script(resmgrsvc_pb2.EnqueueGangsResponse())
    item = Enqueue(JOB, (((0, 7),), ((1, 1),)))
    assert await outcome(resmgr, job(2), item, 1) == [Enqueued(JOB, [(1, 1)])]
    assert [task.taskId.value for gang in resmgr.requests[0].gangs for task in gang.tasks] == [f"{JOB}-1-1"]


async def test_runs_unknown_to_resmgr_are_withdrawn() -> None:
    answer = resmgrsvc_pb2.KillTasksResponse()
    answer.error.add().notFound.task.value = f"{JOB}-0"
    answer.error.add().killError.task.value = f"{JOB}-1"
    posted = await outcome(Script(answer), job(2), Withdraw(JOB, ((0, 1), (1, 1))), 1)
    assert posted == [Withdrawn(JOB, [(0, 1), (1, 1)])]


async def test_a_permanent_failure_ends_the_retries() -> None:
    with pytest.raises(NotFound):
        await until_answered(Script(Unavailable("x"), NotFound("y")), "Method", None)


async def test_a_queue_gives_batches_in_order() -> None:
    queue: Queue[int] = Queue()
    waiting = asyncio.create_task(queue.take(10))
    await asyncio.sleep(0)
    queue.put(range(5))
    assert await waiting == [0, 1, 2, 3, 4]
    queue.put(range(5))
    assert await queue.take(3) == [0, 1, 2]
    assert len(queue) == 2


async def test_a_rate_limit_delays_calls_beyond_it() -> None:
    loop = asyncio.get_running_loop()
    bucket, begun = Bucket(rate=100, burst=10), loop.time()
    assert bucket.share(1000) == 10
    for _ in range(3):
        await bucket.pay(10)
    assert loop.time() - begun >= 0.19
    free = Bucket(rate=0, burst=1)
    assert free.share(1000) == 1000
    await free.pay(10**9)


class OldEvents:
    """The events of a store, which is unavailable at the first call."""

    def __init__(self) -> None:
        self.pod_events = self
        self.calls: asyncio.Queue[int] = asyncio.Queue()

    async def expire(self, before: int) -> int:
        await self.calls.put(before)
        if self.calls.qsize() == 1:
            raise Unavailable("the store does not answer")
        return 3


async def test_old_events_are_dropped_periodically() -> None:
    store: Any = OldEvents()
    clock = ManualClock()
    working = asyncio.create_task(expire(store, clock, days=90.0, every=0.001, first=0.0))
    async with asyncio.timeout(10):
        while store.calls.qsize() < 3:  # noqa: ASYNC110 - the loop under test has no event
            await asyncio.sleep(0.001)
    working.cancel()
    assert store.calls.get_nowait() == clock.wall() - 90 * 86400 * NANOSECONDS
