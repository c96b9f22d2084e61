"""The job whose instances are the workers of a cluster.

There is one at a time, and none while the cluster has no workers: a batch job keeps one instance at least. So
the last ones are given back by stopping it, and the next ones begin another job.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import grpc

from dask_peloton.batches import Batches
from dask_peloton.errors import ClusterLost
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.client import AsyncPelotonClient, CallError
from peloton.client.failures import CODES, call_error, refusal
from peloton.client.watching import EventKind

R = TypeVar("R")
logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
ENDED_JOB = frozenset({job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED, job_pb2.DELETED})
RUNNING, LOST = "RUNNING", "LOST"
ENDED = frozenset({"SUCCEEDED", "FAILED", "KILLED", "DELETED"})
"""Of instances. A LOST run is followed by the next one, unless the job allows no failures."""


class Place(NamedTuple):
    """An instance of a job."""

    job: str
    instance: int


WAITING = (task_pb2.INITIALIZED, task_pb2.PENDING, task_pb2.READY, task_pb2.PLACING)
MOST_REASONS = 1000


@dataclass(slots=True)
class Seen:
    """What the watch has told of an instance last."""

    state: str
    reason: str
    since: float
    """When it left or entered RUNNING, on the monotonic clock."""


class WorkerJobs:
    """Adds and gives back instances, many by one call, and notices what becomes of them.

    `ended` is called with the instances that have ended and were not given back, and how (`RuntimeInfo`);
    `lost` with the reason why the job cannot go on.
    """

    def __init__(
        self,
        client: AsyncPelotonClient,
        pool: str,
        config: job_pb2.JobConfig,
        ended: Callable[[Mapping[int, task_pb2.RuntimeInfo]], Awaitable[None]],
        lost: Callable[[str], None],
    ) -> None:
        self.job_id = ""
        """The present job; empty where there is none."""
        self._client = client
        self._pool = pool
        self._config = config
        self._tell_ended = ended
        self._tell_lost = lost
        self._live: dict[int, Seen] = {}
        self._leaving: set[int] = set()
        self._early: dict[int, Seen] = {}
        """Told of instances that no answer has named yet."""
        self._suspects: set[int] = set()
        self._lock = asyncio.Lock()
        self._adds = Batches[str, Place](self._add)
        self._releases = Batches[Place, None](self._release)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._checking = False
        self._stopped: list[str] = []
        self._end: float | None = None
        """When calls are given up, on the monotonic clock; None while the cluster is not closing."""

    async def check(self) -> None:
        """Raise CallError where there is no such pool, or no cluster answers."""
        await self._client.jobs.pool_id(self._pool)

    async def add(self) -> Place:
        """Add an instance. Raises CallError where it is refused."""
        return await self._adds.want("")

    async def release(self, place: Place) -> None:
        """Give an instance back; live ones end. Those of a job that is over are back already."""
        await self._releases.want(place)

    def waiting(self, seconds: float = 0.0) -> dict[int, str]:
        """Return the instances that do not run, for some seconds at least, each with its state and reason."""
        now = time.monotonic()
        return {
            instance: _text(seen.state, seen.reason)
            for instance, seen in sorted(self._live.items())
            if seen.state != RUNNING and now - seen.since >= seconds
        }

    async def read_reasons(self) -> None:
        """Read why instances wait, which the watch does not tell: those of the first MOST_REASONS."""
        if not self.job_id:
            return
        request = task_pb2.QueryRequest(jobId=self._id())
        request.spec.taskStates.extend(WAITING)
        request.spec.pagination.limit = MOST_REASONS
        for task in (await _called(self._client.task_svc.Query, request)).records:
            seen = self._live.get(task.instanceId)
            if seen is not None and seen.state != RUNNING:
                seen.reason = task.runtime.reason or task.runtime.message

    async def close(self, seconds: float) -> bool:
        """Stop the job, and wait for its end; return whether it has ended within some seconds."""
        self._end = time.monotonic() + seconds
        async with self._lock:
            if self.job_id:
                await self._stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return all([await self._ends(job) for job in self._stopped])

    def give_up_adding(self) -> None:
        """Let calls that add instances fail instead of waiting for a leader: the cluster is closing."""
        self._end = time.monotonic()

    # Calls. One at a time, so that the numbers of instances that they go by are true.

    async def _add(self, wanted: Sequence[str]) -> list[Place]:
        async with self._lock:
            added = await self._grow(len(wanted)) if self.job_id else None
            if added is None:
                added = await self._create(len(wanted))
            now = time.monotonic()
            for instance in added:
                self._leaving.discard(instance)
                self._live[instance] = self._early.pop(instance, None) or Seen("INITIALIZED", "", now)
                self._suspect_ended(instance)
            self._early.clear()
            return [Place(self.job_id, instance) for instance in added]

    async def _create(self, count: int) -> list[int]:
        self.job_id = str(uuid.uuid4())
        config = self._sized(count)
        try:
            await self._patiently(lambda: self._client.jobs.create(self._pool, config, self.job_id))
        except CallError as error:
            if not error.passing:
                self.job_id = ""
            raise
        logger.info("job %s has the workers", self.job_id)
        self._watch = self._spawn(self._follow(self.job_id))
        return list(range(count))

    async def _grow(self, count: int) -> list[int] | None:
        """Add instances; return their numbers, or None where the job is over. Raises ClusterLost."""
        info = await self._job()
        if info is None or info.runtime.state in ENDED_JOB:
            self._forget()
            return None
        wanted = info.config.instanceCount + count
        request = job_pb2.UpdateRequest(id=self._id(), config=self._sized(wanted))
        request.config.respoolID.CopyFrom(info.config.respoolID)
        before = set(self._live)

        async def update() -> list[int]:
            now = await self._client.jobs.get(self.job_id)
            if now.config.instanceCount >= wanted:  # an earlier try, whose answer was lost, has added them
                listed = [task async for task in self._client.jobs.instances(self.job_id)]
                return [task.instanceId for task in listed if task.instanceId not in before | self._leaving]
            return list((await _called(self._client.job_svc.Update, request)).addedInstances)

        return await self._patiently(update)

    async def _release(self, places: Sequence[Place]) -> list[None]:
        async with self._lock:
            leaving = {place.instance for place in places if place.job == self.job_id} & set(self._live)
            if leaving == set(self._live) and leaving:
                await self._stop()
            elif leaving:
                self._leaving |= leaving
                await self._give_back(leaving)
                for instance in leaving:
                    del self._live[instance]
        return [None] * len(places)

    async def _give_back(self, instances: set[int]) -> None:
        """Release instances. A job that has ended meanwhile has none; its others are told as ended then.

        Raises CallError, ClusterLost.
        """
        try:
            await self._patiently(lambda: self._client.jobs.release(self.job_id, instances))
        except CallError as error:
            if error.code is not CODES.FAILED_PRECONDITION:
                raise
            info = await self._job()
            if info is not None and info.runtime.state not in ENDED_JOB:
                raise

    async def _stop(self) -> None:
        """Stop the job. It counts as over from then on, whether it has ended or not."""
        job = self.job_id
        self._stopped.append(job)
        self._forget()
        try:
            await self._patiently(lambda: self._stop_job(job))
        except CallError as error:
            if error.code is not CODES.NOT_FOUND:
                raise

    async def _stop_job(self, job: str) -> None:
        request = job_pb2.StopRequest(id=peloton_pb2.JobID(value=job))
        await _called(self._client.job_svc.Stop, request)

    async def _ends(self, job: str) -> bool:
        """Wait for the end of a job that was stopped; return whether it came in time."""
        left = max((self._end or 0.0) - time.monotonic(), 0.1)
        try:
            await self._client.jobs.wait(job, left)
        except CallError as error:
            return error.code is CODES.NOT_FOUND
        return True

    async def _job(self) -> job_pb2.JobInfo | None:
        """Return the job, None where it is deleted. Raises ClusterLost where somebody has stopped it."""
        try:
            info = await self._patiently(lambda: self._client.jobs.get(self.job_id))
        except CallError as error:
            if error.code is not CODES.NOT_FOUND:
                raise
            raise self._lose(f"job {self.job_id} was deleted") from error
        if job_pb2.KILLED in (info.runtime.state, info.runtime.goalState):
            reason = f": {info.runtime.reason}" if info.runtime.reason else ""
            raise self._lose(f"job {self.job_id} was stopped by somebody else{reason}")
        return info

    def _lose(self, why: str) -> ClusterLost:
        self._tell_lost(why)
        return ClusterLost(why)

    def _forget(self) -> None:
        """Have no job any more."""
        self.job_id = ""
        self._live.clear()
        self._leaving.clear()
        self._early.clear()
        self._suspects.clear()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _patiently(self, call: Callable[[], Awaitable[R]]) -> R:
        """Make a call that changes nothing the second time, until a leader answers or the cluster closes."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await call()
            except CallError as error:
                if not error.passing or (self._end is not None and time.monotonic() >= self._end):
                    raise
                logger.warning("tried again in %.1f s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _sized(self, count: int) -> job_pb2.JobConfig:
        config = job_pb2.JobConfig()
        config.CopyFrom(self._config)
        config.instanceCount = count
        return config

    def _id(self) -> peloton_pb2.JobID:
        return peloton_pb2.JobID(value=self.job_id)

    # What becomes of the instances.

    async def _follow(self, job: str) -> None:
        try:
            async with aclosing(self._client.jobs.watch_pods(job)) as events:
                async for event in events:
                    if event.kind is not EventKind.SYNCED:
                        self._note(event.name, event.subject)
        except CallError as error:
            if job != self.job_id:
                return
            if error.code is CODES.NOT_FOUND:
                self._tell_lost(f"job {job} was deleted")
            else:
                self._tell_lost(f"job {job} cannot be watched: {error}")

    def _note(self, name: str, pod: Any) -> None:
        """Note what the watch tells of an instance. Nothing, where somebody has released it."""
        instance = int(name.rpartition("-")[2])
        if instance in self._leaving:
            return
        state, reason = "DELETED", "released by somebody else"
        if pod is not None:
            state = pod_pb2.PodState.Name(pod.status.state).removeprefix("POD_STATE_")
            reason = pod.status.reason or pod.status.message
        before = self._live.get(instance)
        same = before is not None and (before.state == RUNNING) == (state == RUNNING)
        seen = Seen(state, reason, before.since if before is not None and same else time.monotonic())
        if before is None:
            self._early[instance] = seen
            return
        self._live[instance] = seen
        self._suspect_ended(instance)
        if before.state == RUNNING and not same:
            logger.warning("worker %d does not run any more: %s", instance, _text(state, reason))

    def _suspect_ended(self, instance: int) -> None:
        """Look whether an instance has ended for good; those that end meanwhile are looked at together."""
        if self._live[instance].state not in ENDED | {LOST}:
            return
        self._suspects.add(instance)
        if not self._checking:
            self._checking = True
            self._spawn(self._check_suspects())

    async def _check_suspects(self) -> None:
        try:
            while self._suspects and self.job_id:
                async with self._lock:
                    ended = await self._ended() if self.job_id else {}
                if ended:
                    await self._tell_ended(ended)
        except ClusterLost:
            return  # whoever needs to know has been told
        except CallError as error:
            logger.error("it is not known which workers have ended: %s", error)
        finally:
            self._checking = False

    async def _ended(self) -> dict[int, task_pb2.RuntimeInfo]:
        """Return those of the suspects that have ended, and how. Raises ClusterLost, CallError."""
        suspects, self._suspects = self._suspects, set()
        info = await self._job()
        job = self.job_id

        async def listed() -> dict[int, task_pb2.RuntimeInfo]:
            return {task.instanceId: task.runtime async for task in self._client.jobs.instances(job)}

        found = await self._patiently(listed)
        gone = task_pb2.RuntimeInfo(state=task_pb2.DELETED, message="released by somebody else")
        now = {each: found.get(each, gone) for each in suspects if each in self._live}
        ended = {each: runtime for each, runtime in now.items() if self._is_ended(runtime)}
        if info is not None and info.runtime.state in ENDED_JOB:
            ended = {each: found.get(each, gone) for each in self._live}
            self._forget()
        return ended

    def _is_ended(self, runtime: task_pb2.RuntimeInfo) -> bool:
        state = task_pb2.TaskState.Name(runtime.state)
        again = self._config.defaultConfig.restartPolicy.maxFailures
        return state in ENDED or (state == LOST and not again)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _text(state: str, reason: str) -> str:
    return f"{state}: {reason}" if reason else state


async def _called(call: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Make a call. Raises CallError, also for a refusal that its answer tells."""
    method = type(request).DESCRIPTOR.full_name.removesuffix("Request")
    try:
        answer = await call(request)
    except grpc.RpcError as error:
        raise call_error(method, error) from error
    if (refused := refusal(answer, method)) is not None:
        raise refused
    return answer
