"""What every server refuses in a request, before its service has it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.eventstream import OutOfRange, StreamChanged
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.errors import InvalidRequest, status_of
from peloton.rpc.numbers import require_finite
from peloton.rpc.server import RpcServer, service

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


def test_a_refusal_of_another_daemon_is_passed_on_as_one() -> None:
    assert status_of(InvalidRequest("hostmgr CheckGangs: no gang")) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("error", [StreamChanged("s2"), OutOfRange(7, 1, 3)])
def test_a_reader_that_must_start_over_is_refused(error: Exception) -> None:
    assert status_of(error) is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[arg-type]
