"""A watch over several job managers goes on while jobs move in order, and ends where something is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import grpc
import pytest

from jobmgr.services.v1alpha import merged_watch as module
from jobmgr.services.v1alpha.merged_watch import merged_watch
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.leaders import Failure
from peloton.model.ids import task_id
from peloton.rpc.peers import Owner, PassedFailure, Peers
from tests.unit.jobmgr_core.sharing import job_in

SHARD = 5
JOB = job_in(SHARD)
OTHER = job_in(6)
REVISION = 100


class Stream:
    """The watch of one job manager, as it answers it."""

    def __init__(self, claim: str) -> None:
        self._queue: asyncio.Queue[pb.WatchResponse | Exception | None] = asyncio.Queue()
        self._queue.put_nowait(pb.WatchResponse(watch_id="w", revision=REVISION, shards=claim, generation=1))
        self.closed = False

    def owns(self, claim: str, generation: int = 2) -> None:
        self._queue.put_nowait(pb.WatchResponse(shards=claim, generation=generation))

    def pod(self, job_id: str, version: int) -> None:
        message = pb.WatchResponse(revision=REVISION)
        pod = message.pods.add(pod_name=peloton_pb2.PodName(value=task_id(job_id, 0)))
        pod.status.revision.version = version
        pod.status.state = pod_pb2.POD_STATE_RUNNING
        self._queue.put_nowait(message)

    def gone(self, job_id: str) -> None:
        message = pb.WatchResponse(revision=REVISION)
        message.pods_not_found.add(value=task_id(job_id, 0))
        self._queue.put_nowait(message)

    def end(self, error: Exception | None = None) -> None:
        self._queue.put_nowait(error)

    async def messages(self) -> AsyncGenerator[Any, None]:
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed = True


class FakePeers:
    """The others, each with its stream."""

    def __init__(self, **streams: Stream) -> None:
        self.streams = streams
        self.not_begun: set[str] = set()
        self._change = asyncio.Event()

    def metadata_of(self, context: object) -> tuple[()]:
        return ()

    def sessions(self) -> list[Owner]:
        return [Owner(name, name) for name in self.streams]

    def stream(self, owner: Owner, *more: object) -> AsyncGenerator[Any, None]:
        if owner.session in self.not_begun:
            self.not_begun.remove(owner.session)
            return failing(failed(Failure.NOT_BEGUN))
        return self.streams[owner.session].messages()

    async def changed(self, within: float) -> None:
        await self._change.wait()

    def joins(self, name: str, stream: Stream) -> None:
        self.streams[name] = stream
        self._change.set()
        self._change = asyncio.Event()


def failed(failure: Failure) -> PassedFailure:
    return PassedFailure(failure, grpc.StatusCode.UNAVAILABLE, "the job manager is gone", ())


async def failing(error: Exception) -> AsyncGenerator[Any, None]:
    raise error
    yield


class Aborted(Exception):
    pass


class Context:
    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, text: str, trailing: object = ()) -> None:
        raise Aborted(f"{code.name}: {text}")


class Watcher:
    """Who watches at a job manager whose own stream is `own`."""

    def __init__(self, own: Stream, peers: FakePeers) -> None:
        method = merged_watch(lambda request, context: own.messages(), "/watch", cast(Peers, peers))
        self._messages = method(pb.WatchRequest(), Context())
        self.revisions: list[int] = []

    async def next(self) -> pb.WatchResponse:
        async with asyncio.timeout(60):
            message: pb.WatchResponse = await anext(self._messages)
        assert not message.HasField("shards"), "what job managers tell each other is for no watcher"
        self.revisions.append(message.revision)
        assert self.revisions == sorted(set(self.revisions))
        return message

    async def pods(self) -> list[tuple[str, int]]:
        found = (await self.next()).pods
        return [(pod.pod_name.value[:36], pod.status.revision.version) for pod in found]

    async def close(self) -> None:
        await self._messages.aclose()


@pytest.fixture
async def two() -> AsyncIterator[tuple[Watcher, Stream, Stream, FakePeers]]:
    own, other = Stream("1:6"), Stream(f"1:{SHARD}")
    peers = FakePeers(b=other)
    watcher = Watcher(own, peers)
    assert (await watcher.next()).watch_id
    yield watcher, own, other, peers
    await watcher.close()
    assert own.closed
    assert other.closed


async def test_changes_of_all_are_one_stream(two: tuple[Watcher, Stream, Stream, FakePeers]) -> None:
    watcher, own, other, _ = two
    other.pod(JOB, 1)
    assert await watcher.pods() == [(JOB, 1)]
    own.pod(OTHER, 1)
    assert await watcher.pods() == [(OTHER, 1)]


async def test_a_watch_goes_on_when_a_shard_is_handed_over(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    """Its new owner is this instance; a message of the earlier one comes late."""
    watcher, own, other, _ = two
    own.owns(f"1:6 2:{SHARD}")
    own.pod(JOB, 2)
    assert await watcher.pods() == [(JOB, 2)]
    other.pod(JOB, 1)
    other.owns("")
    own.pod(JOB, 3)
    assert await watcher.pods() == [(JOB, 3)]


async def test_the_end_of_what_a_later_owner_deleted_is_not_taken_back(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    watcher, own, other, _ = two
    own.owns(f"1:6 2:{SHARD}")
    own.gone(JOB)
    assert [name.value for name in (await watcher.next()).pods_not_found] == [task_id(JOB, 0)]
    other.pod(JOB, 1)
    other.owns("")
    own.pod(OTHER, 1)
    assert await watcher.pods() == [(OTHER, 1)]


async def test_one_that_joins_is_watched_before_it_gets_its_first_shard(
    two: tuple[Watcher, Stream, Stream, FakePeers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a session a moment before it answers calls."""
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    watcher, _, other, peers = two
    third = Stream("")
    peers.not_begun.add("c")
    peers.joins("c", third)
    third.owns(f"2:{SHARD}")
    third.pod(JOB, 2)
    assert await watcher.pods() == [(JOB, 2)]
    other.owns("")
    third.pod(JOB, 3)
    assert await watcher.pods() == [(JOB, 3)]


async def test_one_that_is_watched_too_late_ends_the_watch(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    watcher, _, other, peers = two
    other.owns("")
    peers.joins("c", Stream(f"2:{SHARD}"))
    with pytest.raises(Aborted, match="UNAVAILABLE: jobs have moved between job managers: watch again"):
        await watcher.next()


async def test_one_that_leaves_in_order_ends_nothing(two: tuple[Watcher, Stream, Stream, FakePeers]) -> None:
    watcher, own, other, _ = two
    own.owns(f"1:6 2:{SHARD}")
    other.owns("")
    other.end(failed(Failure.GONE))
    own.pod(JOB, 2)
    assert await watcher.pods() == [(JOB, 2)]


async def test_one_that_is_gone_with_jobs_ends_the_watch(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    """It may have stored something that it has not told."""
    watcher, _, other, _ = two
    other.end(failed(Failure.GONE))
    with pytest.raises(Aborted, match="UNAVAILABLE: jobs have moved"):
        await watcher.next()


async def test_a_watcher_that_is_too_slow_for_another_one_is_told_so(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    watcher, _, other, _ = two
    other.end(PassedFailure(Failure.ANSWERED, grpc.StatusCode.ABORTED, "too far behind", ()))
    with pytest.raises(Aborted, match="ABORTED: too far behind"):
        await watcher.next()


async def test_the_watch_ends_as_the_one_of_this_instance(
    two: tuple[Watcher, Stream, Stream, FakePeers],
) -> None:
    watcher, own, _, _ = two
    own.end()
    with pytest.raises(StopAsyncIteration):
        await watcher.next()
