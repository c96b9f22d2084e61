"""A watch of all jobs, whoever owns them: the watches of all owners as one.

It goes on while jobs move in order, as they do when a job manager joins or leaves. It ends with UNAVAILABLE
where an owner is gone with jobs of its own, or where an owner is watched too late: what was stored last may
not have been told. Who watches begins again then, and reads what is of interest. So no change is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import grpc

from jobmgr.services.v1alpha.watch_merge import Merge, Missed, Owned
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.leaders import Failure
from peloton.rpc.peers import Owner, PassedFailure, Peers, Sent, passed
from peloton.sharding.claims import terms_of

MOST_WAITING = 100
"""Messages that wait for the watcher, beside those in the queue of each owner."""
JOIN_SECONDS = 2.0
"""For so long it is tried to watch a job manager that has begun."""
PAUSE_SECONDS = 0.05
MOVED = "jobs have moved between job managers: watch again"
UUID_CHARACTERS = 36
"""Of a job's id, with which the name of a pod begins."""
OWN = ""
"""The name of this instance among the owners."""
Messages = AsyncGenerator[Any, None]
log = logging.getLogger(__name__)
Method = Callable[[Any, Any], Messages]


def merged_watch(method: Method, path: str, peers: Peers) -> Method:
    """Return a watch of all owners; `method` watches the jobs of this instance."""

    async def watch(request: Any, context: Any) -> Messages:
        if passed(context.invocation_metadata()):
            async with aclosing(method(request, context)) as messages:
                async for message in messages:
                    yield message
            return
        merged = _Merged(peers, path, request, peers.metadata_of(context))
        try:
            async with aclosing(merged.messages(method(request, context))) as messages:
                async for message in messages:
                    yield message
        except PassedFailure as failure:
            await context.abort(failure.code, failure.text, failure.trailing)
        except Missed as missed:
            log.info("a watch ends: %s", missed)
            await context.abort(grpc.StatusCode.UNAVAILABLE, MOVED)
        finally:
            await merged.close()

    return watch


class _Merged:
    """One watcher's streams, by the sessions of their owners."""

    def __init__(self, peers: Peers, path: str, request: pb.WatchRequest, metadata: Sent) -> None:
        self._peers = peers
        self._path = path
        self._request = pb.WatchRequest()
        self._request.CopyFrom(request)
        self._request.start_revision = 0  # it is compared with the revisions of this instance
        self._metadata = metadata
        self._merge = Merge()
        self._queue: asyncio.Queue[pb.WatchResponse] = asyncio.Queue(MOST_WAITING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched: set[str] = set()
        """The sessions of others that are watched, or to be."""
        self._revision = 0

    async def messages(self, own: Messages) -> Messages:
        """Return what happens, here and there. Raises PassedFailure, and Missed."""
        others = self._peers.sessions()
        self._watched = {owner.session for owner in others}
        joining = [asyncio.create_task(self._join(owner), name="watch") for owner in others]
        self._tasks.update(joining)
        await asyncio.gather(*joining)
        first = await anext(own)
        self._merge.joined(OWN, _owned(first))
        self._merge.begin()
        self._spawn(self._read(OWN, own))
        self._spawn(self._follow())
        yield self._revised(first)
        while True:
            message = await self._next()
            if message is None:
                return
            yield self._revised(message)

    async def close(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed.done() and not self._failed.cancelled():
            self._failed.exception()

    async def _next(self) -> pb.WatchResponse | None:
        """Return the next message; None where the watch has ended here. Raises what ends it elsewhere."""
        if not self._queue.empty() and not self._failed.done():
            return self._queue.get_nowait()
        getting = asyncio.ensure_future(self._queue.get())
        try:
            waiting: set[asyncio.Future[Any]] = {getting, self._failed}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
                return None
            return getting.result()
        finally:
            getting.cancel()

    def _revised(self, message: pb.WatchResponse) -> pb.WatchResponse:
        self._revision = max(self._revision + 1, message.revision)
        message.revision = self._revision
        message.ClearField("shards")
        message.ClearField("generation")
        return message

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="watch")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    # --- the others ---

    async def _follow(self) -> None:
        """Watch each job manager that begins: before it gets its first shard, or the watch ends."""
        while True:
            for owner in self._peers.sessions():
                if owner.session not in self._watched:
                    self._watched.add(owner.session)
                    self._spawn(self._join(owner))
            await self._peers.changed(60.0)

    async def _join(self, owner: Owner) -> None:
        """Begin to watch one of the others. Raises Missed where it ends before, and PassedFailure."""
        until = asyncio.get_running_loop().time() + JOIN_SECONDS
        while True:
            stream = self._peers.stream(
                owner, self._path, self._request, pb.WatchResponse, self._metadata, None
            )
            try:
                first = await anext(stream)
                break
            except PassedFailure as failure:
                # It says that it has a session before it answers calls.
                over = asyncio.get_running_loop().time() > until or owner not in self._peers.sessions()
                if over or failure.failure not in (Failure.NOT_BEGUN, Failure.GONE):
                    if failure.code is grpc.StatusCode.UNAVAILABLE:
                        raise Missed(failure.text) from None
                    raise
            await asyncio.sleep(PAUSE_SECONDS)
        self._merge.joined(owner.session, _owned(first))
        self._spawn(self._read(owner.session, stream))

    async def _read(self, owner: str, messages: Messages) -> None:
        try:
            async with aclosing(messages):
                async for message in messages:
                    if isinstance(message, bytes):
                        message = pb.WatchResponse.FromString(message)
                    await self._take(owner, message)
        except PassedFailure as failure:
            if failure.code is not grpc.StatusCode.UNAVAILABLE:
                raise
        if owner == OWN:
            self._end()
            return
        self._merge.left(owner)

    async def _take(self, owner: str, message: pb.WatchResponse) -> None:
        if message.HasField("shards"):
            self._merge.owns(owner, _owned(message))
            return
        if not self._merge.moving or self._without_old(owner, message):
            await self._queue.put(message)

    def _without_old(self, owner: str, message: pb.WatchResponse) -> bool:
        """Remove what is old from a message; return whether anything is left."""
        fields: list[tuple[Any, Callable[[Any], str]]] = [
            (message.stateless_jobs, lambda job: str(job.job_id.value)),
            (message.stateless_jobs_not_found, lambda job_id: str(job_id.value)),
            (message.pods, lambda pod: str(pod.pod_name.value)),
            (message.pods_not_found, lambda name: str(name.value)),
        ]
        for field, name in fields:
            kept = [each for each in field if self._tells(owner, name(each))]
            if len(kept) < len(field):
                del field[:]
                field.extend(kept)
        return any(field for field, _ in fields)

    def _tells(self, owner: str, subject: str) -> bool:
        return self._merge.tells(owner, subject[:UUID_CHARACTERS], subject)

    def _end(self) -> None:
        """End the watch as the one of this instance has ended: that has told why."""
        if not self._failed.done():
            self._failed.set_result(None)


def _owned(message: pb.WatchResponse) -> Owned:
    return Owned(terms_of(message.shards), message.generation)
