"""A watch of all jobs, whoever owns them: the watches of all owners as one.

A watch ends when jobs move between owners, as it does when a leader is followed by another one: who watches
begins again, and reads what is of interest. So no change is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc

from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.rpc.peers import PassedFailure, Peers, passed

MOST_WAITING = 100
"""Messages that wait for the watcher, beside those in the queue of each owner."""
MOVED = "jobs have moved between job managers: watch again"
Messages = AsyncIterator[pb.WatchResponse]
Method = Callable[[Any, Any], AsyncIterator[Any]]


def merged_watch(method: Method, path: str, peers: Peers) -> Method:
    """Return a watch of all owners; `method` watches the jobs of this instance."""

    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        if passed(context.invocation_metadata()):
            async for message in method(request, context):
                yield message
            return
        merged, metadata = _Merged(peers), peers.metadata_of(context)
        try:
            others = [
                peers.stream(owner, path, _of_others(request), pb.WatchResponse, metadata, None)
                for owner in peers.others()
            ]
            await merged.begin(others)
            async for message in merged.messages(method(request, context)):
                yield message
        except PassedFailure as failure:
            await context.abort(failure.code, failure.text, failure.trailing)
        except _Moved:
            await context.abort(grpc.StatusCode.UNAVAILABLE, MOVED)
        finally:
            await merged.close()

    return watch


def _of_others(request: pb.WatchRequest) -> pb.WatchRequest:
    """Return what is asked of the others: the start is compared with the revisions of this instance."""
    asked = pb.WatchRequest()
    asked.CopyFrom(request)
    asked.start_revision = 0
    return asked


class _Moved(Exception):
    """Jobs have moved."""


class _Merged:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._generation = peers.generation
        self._queue: asyncio.Queue[pb.WatchResponse | None] = asyncio.Queue(MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._revision = 0

    async def begin(self, others: list[Messages]) -> None:
        """Begin the watches at the others: what happens from then on is seen."""
        await asyncio.gather(*(anext(each) for each in others))
        self._require_the_same()
        self._tasks = [asyncio.create_task(self._read(each, True), name="watch") for each in others]
        self._tasks.append(asyncio.create_task(self._until_moved(), name="watch: owners"))

    async def messages(self, own: AsyncIterator[Any]) -> Messages:
        """Return what happens, here and there. Raises PassedFailure, and _Moved."""
        self._tasks.append(asyncio.create_task(self._read(own, False), name="watch: own"))
        while (message := await self._queue.get()) is not None:
            self._revision = max(self._revision + 1, message.revision) if message.revision else self._revision
            message.revision = self._revision
            yield message
        for task in self._tasks:
            if task.done():
                task.result()
        raise _Moved

    async def close(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, messages: AsyncIterator[Any], passed_on: bool) -> None:
        try:
            async for message in messages:
                if isinstance(message, bytes):
                    message = pb.WatchResponse.FromString(message)
                if passed_on and (message.stateless_jobs_not_found or message.pods_not_found):
                    continue  # this instance has told it
                await self._queue.put(message)
        finally:
            with suppress(AttributeError):
                await messages.aclose()  # type: ignore[attr-defined]
            self._end()

    async def _until_moved(self) -> None:
        try:
            while self._peers.generation == self._generation:
                await self._peers.changed(60.0)
        finally:
            self._end()

    def _end(self) -> None:
        """Let the reader see that a watch has ended; what waits is dropped where there is no room."""
        while True:
            try:
                self._queue.put_nowait(None)
                return
            except asyncio.QueueFull:
                self._queue.get_nowait()

    def _require_the_same(self) -> None:
        if self._peers.generation != self._generation:
            raise _Moved
