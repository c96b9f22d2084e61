"""What every server refuses in a request, before its service has it."""

from __future__ import annotations

import re
import struct
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.host import host_pb2
from peloton.errors import IllegalTransition, InvalidArgument
from peloton.eventstream import OutOfRange, StreamChanged
from peloton.private.hostmgr.hostsvc import hostsvc_pb2, hostsvc_pb2_grpc
from peloton.rpc.errors import InvalidRequest, status_of
from peloton.rpc.numbers import require_finite
from peloton.rpc.server import RpcServer, service
from peloton.rpc.texts import require_utf8

NOT_FINITE = [float("nan"), float("inf"), float("-inf"), struct.unpack("<d", b"\x01\0\0\0\0\0\xf0\xff")[0]]


class Pools(respool_pb2_grpc.ResourceManagerServicer):
    async def CreateResourcePool(self, request: Any, context: Any) -> Any:
        return respool_pb2.CreateResponse()


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    server = RpcServer(lambda: "nobody leads")
    port = await server.start("127.0.0.1", 0)
    server.activate([service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, Pools())])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield respool_pb2_grpc.ResourceManagerStub(channel)
    await server.stop(0)


@pytest.mark.parametrize("number", NOT_FINITE)
async def test_a_number_that_is_not_finite_is_refused_with_its_path(stub: Any, number: float) -> None:
    request = respool_pb2.CreateRequest()
    request.config.resources.add(kind="cpu", limit=1.5)
    await stub.CreateResourcePool(request)
    request.config.resources.add(kind="memory", share=number)
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await stub.CreateResourcePool(request)
    assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert told.value.details() == f"config.resources[1].share: {number!r} is not a finite number"


def test_such_numbers_are_found_in_maps_and_at_any_depth() -> None:
    runtime = task_pb2.RuntimeInfo(resourceUsage={"cpu": 1.0})
    runtime.message = "ÿÿ\x7f é 😀"
    require_finite(runtime, runtime.SerializeToString())
    runtime.resourceUsage["cpu"] = float("inf")
    with pytest.raises(InvalidArgument, match=r"resourceUsage: inf is not a finite number"):
        require_finite(runtime, runtime.SerializeToString())
    launch = hostsvc_pb2.LaunchTasksRequest()
    launch.tasks.add().config.resource.cpuLimit = float("nan")
    with pytest.raises(InvalidArgument, match=r"tasks\[0\]\.config\.resource\.cpuLimit: nan"):
        require_finite(launch, launch.SerializeToString())


INVALID: list[tuple[type[Any], str, str]] = [
    (hostsvc_pb2.KillTasksRequest, '{"taskIds": [{"value": "ok"}, {"value": "(bad)"}]}', "taskIds[1].value"),
    (
        hostsvc_pb2.ShutdownExecutorsRequest,
        '{"executors": [{"executorId": {"value": "(bad)"}}]}',
        "executors[0].executorId.value",
    ),
    (
        hostsvc_pb2.LaunchTasksRequest,
        '{"tasks": [{"config": {"command": {"arguments": ["a", "(bad)"]}}}]}',
        "tasks[0].config.command.arguments[1]",
    ),
    (host_pb2.HostSummary, '{"Offers": {"o": {"hostname": "(bad)"}}}', "Offers['o'].hostname"),
]
"""Messages with a text of Mesos in which `(bad)` becomes text that is not UTF-8, and its path."""


@pytest.mark.parametrize(("kind", "json", "path"), INVALID, ids=[path for *_, path in INVALID])
def test_a_text_of_mesos_that_is_not_utf8_is_refused_with_its_path(
    kind: type[Any], json: str, path: str
) -> None:
    message = json_format.Parse(json, kind())
    raw = message.SerializePartialToString()
    require_utf8(message, raw)
    broken = raw.replace(b"(bad)", b"caf\xc3)")
    parsed = kind()
    parsed.MergeFromString(broken)
    with pytest.raises(InvalidArgument, match=re.escape(f"{path}: b'caf\\xc3)' is not UTF-8 text")):
        require_utf8(parsed, broken)


def test_text_in_any_language_is_taken() -> None:
    request = hostsvc_pb2.KillTasksRequest()
    request.taskIds.add(value="ÿ é 漢字 😀")
    require_utf8(request, request.SerializeToString())


class Hosts(hostsvc_pb2_grpc.InternalHostServiceServicer):
    async def KillTasks(self, request: Any, context: Any) -> Any:
        return hostsvc_pb2.KillTasksResponse()

    async def MarkHostDrained(self, request: Any, context: Any) -> Any:
        raise IllegalTransition("host host0: no LAST_TASK_ENDED in DRAINED")


@pytest.fixture
async def hosts() -> AsyncIterator[Any]:
    server = RpcServer(lambda: "nobody leads")
    port = await server.start("127.0.0.1", 0)
    server.activate([service(hostsvc_pb2_grpc.add_InternalHostServiceServicer_to_server, Hosts())])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


async def test_private_services_refuse_such_a_text(hosts: Any) -> None:
    path = f"/{hostsvc_pb2.DESCRIPTOR.package}.InternalHostService/KillTasks"
    kill = hosts.unary_unary(path, response_deserializer=hostsvc_pb2.KillTasksResponse.FromString)
    named = hostsvc_pb2.KillTasksRequest()
    named.taskIds.add(value="(bad)")
    request = named.SerializeToString()
    await kill(request)
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await kill(request.replace(b"(bad)", b"caf\xc3)"))
    assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "taskIds[0].value" in (told.value.details() or "")


async def test_an_illegal_move_of_a_state_machine_is_aborted(
    hosts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stub = hostsvc_pb2_grpc.InternalHostServiceStub(hosts)
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await stub.MarkHostDrained(hostsvc_pb2.MarkHostDrainedRequest(hostname="host0"))
    assert told.value.code() is grpc.StatusCode.ABORTED
    assert told.value.details() == "host host0: no LAST_TASK_ENDED in DRAINED"
    assert any(record.exc_info for record in caplog.records), "a defect is logged"


def test_a_refusal_of_another_daemon_is_passed_on_as_one() -> None:
    assert status_of(InvalidRequest("hostmgr CheckGangs: no gang")) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("error", [StreamChanged("s2"), OutOfRange(7, 1, 3)])
def test_a_reader_that_must_start_over_is_refused(error: Exception) -> None:
    assert status_of(error) is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[arg-type]
