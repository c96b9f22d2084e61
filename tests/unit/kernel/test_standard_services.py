"""What every daemon answers beside its own services: health checking, reflection, /logging-level, --help."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from peloton import __version__
from peloton.api.v0.respool import respool_pb2_grpc
from peloton.compiled import mode
from peloton.identity.methods import ACCESS
from peloton.membership.interface import Address
from peloton.membership.local import LocalMembership
from peloton.rpc.server import RpcServer, service
from peloton.rpc.standard import MAX_WATCHERS, health
from tests.unit.kernel.test_daemon import folder, leader, process

__all__ = ["folder"]

POOLS = "peloton.api.v0.respool.ResourceManager"
SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


@asynccontextmanager
async def leading(folder: Path, *arguments: str) -> AsyncIterator[tuple[Address, Any]]:
    """The address of a daemon that leads, and its process."""
    async with process("-c", str(folder / "settings.yaml"), *arguments) as child:
        membership = LocalMembership(folder / "members")
        await membership.start()
        try:
            yield await leader(membership), child
        finally:
            await membership.close()


async def symbols(channel: grpc.aio.Channel, **asked: str) -> Any:
    """The one answer to a request of reflection."""
    call = ServerReflectionStub(channel).ServerReflectionInfo(iter([ServerReflectionRequest(**asked)]))
    return await call.read()


async def test_reflection_and_health(folder: Path) -> None:
    async with leading(folder) as (address, _), grpc.aio.insecure_channel(address.target) as channel:
        listed = await symbols(channel, list_services="*")
        names = {each.name for each in listed.list_services_response.service}
        assert names == {
            POOLS,
            ACCESS,
            "peloton.private.problems.ProblemService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        described = await symbols(channel, file_containing_symbol=POOLS)
        assert described.file_descriptor_response.file_descriptor_proto
        stub = HealthStub(channel)
        for name in ("", POOLS):
            assert (await stub.Check(HealthCheckRequest(service=name), timeout=60)).status == SERVING, name
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stub.Check(HealthCheckRequest(service="no.such.Service"), timeout=60)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_v1_is_served(folder: Path) -> None:
    async with leading(folder) as (address, _), grpc.aio.insecure_channel(address.target) as channel:
        ask = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", bytes, bytes)
        call = ask(iter([ServerReflectionRequest(list_services="*").SerializeToString()]))
        answer: Any = await call.read()
        assert POOLS.encode() in answer


async def test_each_is_off_by_its_setting(folder: Path) -> None:
    with (folder / "settings.yaml").open("a") as settings:
        settings.write("grpc_health: false\ngrpc_reflection: false\n")
    async with leading(folder) as (address, _), grpc.aio.insecure_channel(address.target) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as off:
            await HealthStub(channel).Check(HealthCheckRequest(), timeout=60)
        assert off.value.code() is grpc.StatusCode.UNIMPLEMENTED
        # Nothing is sent: a message that is written after the refusal changes the code to INTERNAL.
        reflection = ServerReflectionStub(channel).ServerReflectionInfo(timeout=60)
        assert await reflection.code() is grpc.StatusCode.UNIMPLEMENTED


class State:
    """What a daemon's health depends on."""

    wrong = ""


@asynccontextmanager
async def serving(state: State) -> AsyncIterator[tuple[RpcServer, Any]]:
    server = RpcServer(lambda: "nobody leads")
    server.announce([POOLS])
    server.activate([health(lambda: state.wrong, server.serves)])
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield server, HealthStub(channel)
    await server.stop(0)


async def test_health_follows_what_is_served_and_what_is_wrong() -> None:
    state = State()
    pools = service(
        respool_pb2_grpc.add_ResourceManagerServicer_to_server, respool_pb2_grpc.ResourceManagerServicer()
    )
    async with serving(state) as (server, stub):

        async def of(name: str) -> int:
            return int((await stub.Check(HealthCheckRequest(service=name), timeout=60)).status)

        assert (await of(""), await of(POOLS)) == (SERVING, NOT_SERVING), "another one leads"
        server.activate([pools])
        assert await of(POOLS) == SERVING
        state.wrong = "the store does not answer"
        assert (await of(""), await of(POOLS)) == (NOT_SERVING, NOT_SERVING)
        state.wrong = ""
        server.deactivate([pools])
        assert (await of(""), await of(POOLS)) == (SERVING, NOT_SERVING)


async def test_health_watches_receive_changes_and_are_bounded() -> None:
    state = State()
    async with serving(state) as (_, stub):
        unknown = stub.Watch(HealthCheckRequest(service="no.such.Service"))
        assert (await unknown.read()).status == UNKNOWN
        watches = [stub.Watch(HealthCheckRequest()) for _ in range(MAX_WATCHERS - 1)]
        async with asyncio.timeout(60):
            assert [(await watch.read()).status for watch in watches] == [SERVING] * (MAX_WATCHERS - 1)
            with pytest.raises(grpc.aio.AioRpcError) as more:
                await stub.Watch(HealthCheckRequest()).read()
            assert more.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            for watch in watches[1:]:
                watch.cancel()
            state.wrong = "no connection"
            assert (await watches[0].read()).status == NOT_SERVING, "though others went"


def level(address: Address, method: str = "POST", **query: str) -> httpx2.Response:
    url = f"http://{address.ip}:{address.http}/logging-level"
    return httpx2.request(method, url, params=query, timeout=60)


async def test_logging_level_errors_and_bounds(folder: Path) -> None:
    async with leading(folder) as (address, _):
        for query, told in (
            ({"level": "loud"}, "level: 'loud' is not one of debug, info, warning, error"),
            ({"level": "debug", "duration": "soon"}, "duration: 'soon' is not a time from 1s to 24h"),
            ({"level": "debug", "duration": "0s"}, "duration: '0s' is not a time from 1s to 24h"),
            ({"level": "debug", "duration": "25h"}, "duration: '25h' is not a time from 1s to 24h"),
            ({"level": "debug", "duration": "999999h"}, "duration: '999999h' is not a time"),
        ):
            answer = await asyncio.to_thread(level, address, **query)
            assert (answer.status_code, answer.text.startswith(told)) == (400, True), answer.text
        longest = await asyncio.to_thread(level, address, level="info", duration="24h")
        assert (longest.status_code, longest.text) == (200, "info for 1 d\n")


async def test_head_request_leaves_the_log_level(folder: Path) -> None:
    async with leading(folder) as (address, child):
        head = await asyncio.to_thread(level, address, "HEAD", level="debug", duration="1h")
        assert head.status_code == 405
        child.send_signal(signal.SIGTERM)
        _, log = await asyncio.wait_for(child.communicate(), 60)
        assert b"log level" not in log


@pytest.mark.parametrize("role", ["jobmgr", "resmgr", "placement", "hostmgr"])
@pytest.mark.parametrize(
    ("flag", "tells"),
    [
        ("--version", lambda role, said: said == f"peloton-{role} {__version__}, {mode()}\n"),
        ("--help", lambda role, said: all(part in said for part in ("--http-port", "HTTP_PORT", "--check"))),
    ],
    ids=["version", "help"],
)
async def test_each_daemon_prints_version_and_flags(
    role: str, flag: str, tells: Callable[[str, str], bool]
) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", role, flag, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert (child.returncode, err) == (0, b"")
    assert tells(role, out.decode()), out.decode()
