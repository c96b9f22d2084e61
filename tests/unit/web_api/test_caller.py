"""Calls to the leaders, against gRPC servers of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.client.discovery import NoLeader
from peloton.client.sync_async import LocalError
from peloton.leaders import NOT_BEGUN
from peloton.web.api.caller import LeaderCaller, _failure
from peloton.web.api.failures import CallFailure
from peloton.web.api.methods import public_methods

JOBS = "peloton.api.v0.job.JobManager"
GET, CREATE = (public_methods()[JOBS, name] for name in ("Get", "Create"))
WATCH = public_methods()["peloton.api.v1alpha.watch.svc.WatchService", "Watch"]


@dataclass
class Server:
    """Answers every method, and counts."""

    answer: Callable[[Any], Any]
    calls: list[tuple[bytes, dict[str, Any]]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    target: str = ""

    def service(self, details: Any) -> Any:
        if details.method == WATCH.path:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._one)

    async def _one(self, request: bytes, context: Any) -> bytes:
        self.calls.append((request, dict(context.invocation_metadata())))
        return bytes(await self.answer(context))

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b""
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.set()


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, server: Server) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        return self._server.service(details)


@dataclass
class Leaders:
    """Names the servers one after the other, the last one again and again."""

    targets: list[str]
    asked: int = 0

    def address(self, role: str) -> str:
        self.asked += 1
        target = self.targets[min(self.asked, len(self.targets)) - 1]
        if not target:
            raise NoLeader("nobody leads")
        return target

    def clusters(self) -> tuple[str, ...]:
        return ("",)

    def follows(self, role: str) -> bool:
        return True

    def close(self) -> None: ...


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Callable[[Any], Any]], Any]]:
    started = []

    async def start(answer: Callable[[Any], Any]) -> Server:
        server, found = grpc.aio.server(), Server(answer)
        server.add_generic_rpc_handlers((Handlers(found),))
        found.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        started.append(server)
        return found

    yield start
    for each in started:
        await each.stop(None)


async def fine(context: Any) -> bytes:
    return b"\x08\x01"


async def follows(context: Any) -> bytes:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "another leads", ((NOT_BEGUN, "1"),))
    return b""


async def broken(context: Any) -> bytes:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "the store is away")
    return b""


async def test_a_call_has_the_metadata_of_its_user(serve: Any) -> None:
    server = await serve(fine)
    caller = LeaderCaller(Leaders([server.target]))
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value="x"))
    assert await caller.call(GET, request, (("username", "joe"),), 30.0) == b"\x08\x01"
    [(sent, metadata)] = server.calls
    assert sent == request.SerializeToString()
    assert (metadata["username"], metadata["rpc-service"]) == ("joe", "peloton-jobmgr")
    await caller.close()


async def test_a_call_that_was_not_begun_is_made_at_the_next_leader(serve: Any) -> None:
    former, leader = await serve(follows), await serve(fine)
    caller = LeaderCaller(Leaders([former.target, "", leader.target]))
    assert await caller.call(CREATE, job_pb2.CreateRequest(), (), 60.0) == b"\x08\x01"
    assert (len(former.calls), len(leader.calls)) == (1, 1)
    await caller.close()


async def test_a_call_that_may_have_been_carried_out_is_made_again_only_where_that_is_safe(
    serve: Any,
) -> None:
    failing, leader = await serve(broken), await serve(fine)
    caller = LeaderCaller(Leaders([failing.target, leader.target]))
    with pytest.raises(CallFailure) as raised:
        await caller.call(CREATE, job_pb2.CreateRequest(), (), 60.0)
    assert raised.value.as_dict() == {"code": "UNAVAILABLE", "message": "the store is away", "details": []}
    caller = LeaderCaller(Leaders([failing.target, leader.target]))
    assert await caller.call(GET, job_pb2.GetRequest(), (), 60.0) == b"\x08\x01"
    await caller.close()


async def test_without_a_leader_the_call_fails_in_time() -> None:
    caller = LeaderCaller(Leaders([""]))
    with pytest.raises(CallFailure) as raised:
        await caller.call(GET, job_pb2.GetRequest(), (), 0.3)
    assert (raised.value.code, raised.value.message) == (grpc.StatusCode.UNAVAILABLE, "nobody leads")
    with pytest.raises(CallFailure):
        async with caller.stream(WATCH, WATCH.request(), (), None):
            pytest.fail("it is open")


async def test_new_certificates_are_used_for_the_next_call(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, made = await serve(fine), []

    def opened(target: str, tls: Any, alone: bool = False) -> grpc.aio.Channel:
        made.append(tls.generation)
        return grpc.aio.insecure_channel(target)

    monkeypatch.setattr("peloton.web.api.caller.opened", opened)
    tls: Any = SimpleNamespace(generation=0, refresh=lambda: False, paths=("", "", ""))
    caller = LeaderCaller(Leaders([server.target]), tls=tls)
    for generation in (0, 0, 1):
        tls.generation = generation
        assert await caller.call(GET, job_pb2.GetRequest(), (), 30.0) == b"\x08\x01"
    assert made == [0, 1]
    await caller.close()


def test_what_fails_here_is_not_the_fault_of_who_calls() -> None:
    """No 401, for which a browser would ask its user for another password."""
    for code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT):
        failed = _failure(LocalError(code, "127.0.0.1:1: the certificate of the server is not accepted"))
        assert (failed.code, failed.http) == (grpc.StatusCode.UNAVAILABLE, 503)


async def test_a_stream_that_is_left_is_cancelled_at_the_server(serve: Any) -> None:
    server = await serve(fine)
    caller = LeaderCaller(Leaders([server.target]))
    async with caller.stream(WATCH, WATCH.request(), (), None) as answers:
        assert await anext(answers) == b""
    async with asyncio.timeout(60):
        await server.ended.wait()
    await caller.close()
