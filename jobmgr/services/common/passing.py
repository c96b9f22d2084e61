"""Calls about jobs that another instance owns: they are passed on to it, and what all know is gathered.

A call about one job goes to the owner of the job. It is made again elsewhere only where it has not begun; any
other failure is told to the caller, whose rules decide. A call that was passed on once is not passed on
again. Lists of what only owners know are asked from all of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory

from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import Phase
from jobmgr.services.common.answering import GATHERED, OF_POOLS, TRIED, Join
from jobmgr.services.common.scope import job_of, specs_of
from peloton.errors import InvalidArgument, NotFound, Unavailable
from peloton.leaders import NOT_BEGUN, Failure
from peloton.model.ids import JobId, is_uuid
from peloton.model.shard import SHARDS, shard_of
from peloton.rpc.audit import READING
from peloton.rpc.peers import Owner, PassedFailure, Peers, Sent, generation_of, passed
from peloton.rpc.server import Service

LONGEST_SECONDS = 10.0
"""For so long an owner is looked for, at most; the caller's deadline may be earlier."""
PAUSE_SECONDS = 0.2
"""The longest time between two looks."""


Stream = Callable[[Any, Any], AsyncGenerator[Any, None]]
Merge = Callable[[Stream, str, Peers], Stream]
"""Makes the stream of all owners, given that of this instance and the path of the method."""
NONE: Mapping[str, Merge] = {}


class Passing:
    """Wraps services so that any instance answers calls about all jobs."""

    def __init__(self, engine: Engine, peers: Peers, merged: Mapping[str, Merge] = NONE) -> None:
        """Put the streams of all owners together by `merged`, for methods as `answering` has them."""
        self._engine = engine
        self._peers = peers
        self._merged = merged

    def over(self, service: Service) -> Service:
        """Return a service whose calls are passed on to the owners of their jobs."""
        methods = {
            name: self._wrapped(service.names[0], name, handler) for name, handler in service.methods.items()
        }
        return Service(service.names, methods)

    def _wrapped(self, service: str, name: str, handler: Any) -> Any:
        path, place = f"/{service}/{name}", f"{service.rpartition('.')[2]}.{name}"
        codecs = handler.request_deserializer, handler.response_serializer
        answer = answer_of(path)
        if handler.response_streaming:
            if place in self._merged:
                stream = self._merged[place](handler.unary_stream, path, self._peers)
            else:
                stream = self._stream(handler.unary_stream, path)
            return grpc.unary_stream_rpc_method_handler(stream, *codecs)
        if place in GATHERED:
            unary = self._gathered(handler.unary_unary, path, answer, GATHERED[place])
        elif place in TRIED:
            unary = self._anywhere(handler.unary_unary, path, answer)
        else:
            # What reads is answered with the owner's bytes. Of other answers the audit log has ids.
            parsed = None if name.startswith(READING) else answer
            named = _pool_of if place in OF_POOLS else self._job_of
            unary = self._unary(handler.unary_unary, path, parsed, named)
        return grpc.unary_unary_rpc_method_handler(unary, *codecs)

    # --- about one job ---

    def _unary(
        self,
        method: Callable[[Any, Any], Awaitable[Any]],
        path: str,
        answer: type[Any] | None,
        named: Callable[[Any], Awaitable[str | None]],
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        @wraps(method)
        async def call(request: Any, context: Any) -> Any:
            name = await named(request)
            if name is None:
                return await method(request, context)
            search = _Search(self._engine, self._peers, shard_of(name), context)
            while True:
                owner = await search.found()
                if owner is None:
                    return await method(request, context)
                try:
                    return await self._peers.call(
                        owner, path, request, answer, self._peers.metadata_of(context), search.left()
                    )
                except PassedFailure as failure:
                    await search.failed(failure)

        return call

    def _stream(self, method: Callable[[Any, Any], AsyncIterator[Any]], path: str) -> Stream:
        @wraps(method)
        async def call(request: Any, context: Any) -> AsyncGenerator[Any, None]:
            job_id = await self._job_of(request)
            search = None
            if job_id is not None:
                search = _Search(self._engine, self._peers, shard_of(job_id), context)
            while True:
                owner = None if search is None else await search.found()
                if search is None or owner is None:
                    async for message in method(request, context):
                        yield message
                    return
                metadata = self._peers.metadata_of(context)
                try:
                    stream = self._peers.stream(owner, path, request, None, metadata, search.left())
                    async for message in stream:
                        yield message
                    return
                except PassedFailure as failure:
                    await search.failed(failure)

        return call

    async def _job_of(self, request: Any) -> JobId | None:
        """Return the job whose owner is to answer; None for a call that any instance answers.

        A job that is to be created without an id gets one of a shard that this instance owns.
        """
        for field in ("id", "job_id"):
            if any(specs_of(request)) and _is_empty_job_id(request, field):
                getattr(request, field).value = self._new_id()
        try:
            job_id = await job_of(self._engine, request)
        except (NotFound, InvalidArgument):
            return None  # whose answer the method knows
        return job_id if job_id is not None and is_uuid(job_id) else None

    def _new_id(self) -> JobId:
        held = self._engine.shards
        for _ in range(40 * SHARDS):
            job_id = str(uuid.uuid4())
            if held.phase(shard_of(job_id)) is Phase.OPEN:
                return job_id
        return str(uuid.uuid4())

    # --- about many jobs ---

    def _gathered(
        self, method: Callable[[Any, Any], Awaitable[Any]], path: str, answer: type[Any], join: Join
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        @wraps(method)
        async def call(request: Any, context: Any) -> Any:
            sent = context.invocation_metadata()
            if passed(sent):
                return await self._part(method, request, context, generation_of(sent))
            metadata = self._peers.metadata_of(context)
            now = asyncio.get_running_loop().time
            until = now() + min(_left(context) or LONGEST_SECONDS, LONGEST_SECONDS)
            while True:
                generation = self._peers.generation
                try:
                    parts = await self._gather(method, path, request, answer, context, metadata)
                    return join(request, parts)
                except _Moving:
                    if now() >= until:
                        raise
                if self._peers.generation == generation:
                    await self._peers.changed(PAUSE_SECONDS)

        return call

    async def _gather(
        self,
        method: Callable[[Any, Any], Awaitable[Any]],
        path: str,
        request: Any,
        answer: type[Any],
        context: Any,
        metadata: Sent,
    ) -> list[Any]:
        """Return what all owners answer. Raises _Moving where jobs move meanwhile, or are not all read."""
        generation, seconds = self._peers.generation, _left(context)
        if self._peers.gone():
            raise _Moving("a job manager is gone, and its jobs have no owner yet")
        asked = [
            self._peers.call(each, path, request, answer, metadata, seconds) for each in self._peers.others()
        ]
        try:
            parts = await asyncio.gather(self._part(method, request, context, generation), *asked)
        except Unavailable as error:
            raise _Moving(str(error)) from None
        except PassedFailure as failure:
            if failure.failure in (Failure.NOT_BEGUN, Failure.GONE):
                raise _Moving(failure.text) from None
            await abort(context, failure)
            raise
        if self._peers.generation != generation:
            raise _Moving("jobs have moved between job managers meanwhile")
        return parts

    async def _part(
        self, method: Callable[[Any, Any], Awaitable[Any]], request: Any, context: Any, generation: int
    ) -> Any:
        """Return what this instance answers for its jobs. Raises _Moving where it does not know them all."""
        self._check_whole(generation)
        answer = await method(request, context)
        self._check_whole(generation)
        return answer

    def _check_whole(self, generation: int) -> None:
        """Raise _Moving where this instance has jobs by this generation of the table that it does not know.

        Between two owners a shard is of neither: the one before has forgotten its jobs, the next one has not
        begun with them. 0 stands for a generation that is not known.
        """
        if generation and self._peers.generation != generation:
            raise _Moving("jobs are moving between job managers")
        held = self._engine.shards
        if any(held.phase(shard) is None and self._peers.owns(shard) for shard in range(SHARDS)):
            raise _Moving("jobs are moving to this job manager, or from it")

    def _anywhere(
        self, method: Callable[[Any, Any], Awaitable[Any]], path: str, answer: type[Any]
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        """Return a call that is made where this instance does not know what it is about."""

        @wraps(method)
        async def call(request: Any, context: Any) -> Any:
            try:
                return await method(request, context)
            except NotFound:
                if passed(context.invocation_metadata()):
                    raise
                metadata = self._peers.metadata_of(context)
                for each in self._peers.others():
                    try:
                        return await self._peers.call(each, path, request, answer, metadata, _left(context))
                    except PassedFailure as failure:
                        if failure.code is not grpc.StatusCode.NOT_FOUND:
                            await abort(context, failure)
                raise

        return call


class _Moving(Unavailable):
    """Jobs move: what is asked of all owners is asked again."""


class _Search:
    """Looks for the owner of a shard, until the call's deadline."""

    def __init__(self, engine: Engine, peers: Peers, shard: int, context: Any) -> None:
        self._held = engine.shards
        self._peers = peers
        self._shard = shard
        self._context = context
        metadata = context.invocation_metadata()
        self._passed = passed(metadata)
        self._known = generation_of(metadata)
        """The generation of the table by which it was passed on."""
        self._looked: tuple[int, Phase | None] = -1, None
        """What the last look was at."""
        self._now = asyncio.get_running_loop().time
        rest = context.time_remaining()
        self._end = None if rest is None else self._now() + rest
        self._until = self._now() + min(LONGEST_SECONDS, LONGEST_SECONDS if rest is None else rest)

    async def found(self) -> Owner | None:
        """Return the owner; None where it is this instance. Aborts the call where there is none in time.

        One that was passed on waits here while this instance is the owner by the table, or has an older table
        than the one by which it was passed on.
        """
        while True:
            self._looked = self._state()
            if self._held.phase(self._shard) in (Phase.OPEN, Phase.READING):
                return None
            if self._passed and self._peers.generation >= self._known and not self._peers.owns(self._shard):
                await self._give_up(f"shard {self._shard} is not owned here")
            owner = None if self._passed else self._peers.owner(self._shard)
            if owner is not None:
                return owner
            await self._wait()

    async def failed(self, failure: PassedFailure) -> None:
        """Wait before the next look, where the call has not begun. Aborts it otherwise."""
        if failure.failure is not Failure.NOT_BEGUN:
            await abort(self._context, failure)
        await self._wait()

    def left(self) -> float | None:
        """Return the seconds until the deadline; None where there is none."""
        return None if self._end is None else max(self._end - self._now(), 0.001)

    def _state(self) -> tuple[int, Phase | None]:
        return self._peers.generation, self._held.phase(self._shard)

    async def _wait(self) -> None:
        """Wait for something else than what the last look was at, a moment at most."""
        left = self._until - self._now()
        if left <= 0:
            await self._give_up(f"shard {self._shard} has no owner that answers")
        changes = [
            asyncio.ensure_future(self._held.changed()),
            asyncio.ensure_future(self._peers.changed(min(PAUSE_SECONDS, left))),
        ]
        try:
            await asyncio.sleep(0)  # both see each change from here on; what was before is seen by the state
            if self._state() == self._looked:
                await asyncio.wait(changes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in changes:
                each.cancel()

    async def _give_up(self, text: str) -> None:
        await self._context.abort(grpc.StatusCode.UNAVAILABLE, text, ((NOT_BEGUN, "1"),))


async def abort(context: Any, failure: PassedFailure) -> None:
    """End a call as it has ended at the instance that it was passed on to."""
    await context.abort(failure.code, failure.text, failure.trailing)


def answer_of(path: str) -> type[Any]:
    """Return the class of a method's answer."""
    service, _, method = path.lstrip("/").partition("/")
    pool = descriptor_pool.Default()  # type: ignore[no-untyped-call]
    described = pool.FindServiceByName(service).methods_by_name[method]
    return message_factory.GetMessageClass(described.output_type)


async def _pool_of(request: Any) -> str:
    return str(request.pool_id.value)


def _left(context: Any) -> float | None:
    rest: float | None = context.time_remaining()
    return rest


def _is_empty_job_id(request: Any, field: str) -> bool:
    described = request.DESCRIPTOR.fields_by_name.get(field)
    return (
        described is not None
        and described.message_type is not None
        and described.message_type.name == "JobID"
        and not getattr(request, field).value
    )
