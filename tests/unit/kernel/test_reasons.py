"""Failed calls have a reason as a code; it is read from a text only where a server sends none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.client.failures import call_error
from peloton.errors import STALE, Conflict, NotFound, PelotonError, StaleVersion, Unauthenticated, reason_of
from peloton.rpc.errors import error_of, trailing_of
from peloton.rpc.server import RpcServer, service


class Pools(respool_pb2_grpc.ResourceManagerServicer):
    error: PelotonError

    async def LookupResourcePoolID(self, request: Any, context: Any) -> Any:
        raise self.error


@pytest.fixture
async def pools() -> AsyncIterator[tuple[Pools, Any]]:
    found, server = Pools(), RpcServer(lambda: "nobody leads")
    port = await server.start("127.0.0.1", 0)
    server.activate([service(respool_pb2_grpc.add_ResourceManagerServicer_to_server, found)])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield found, respool_pb2_grpc.ResourceManagerStub(channel)
    await server.stop(0)


async def failure(pools: tuple[Pools, Any], error: PelotonError) -> grpc.RpcError:
    pools[0].error = error
    with pytest.raises(grpc.RpcError) as failed:
        await pools[1].LookupResourcePoolID(respool_pb2.LookupRequest())
    return failed.value


async def test_a_stale_version_is_known_by_its_code(pools: tuple[Pools, Any]) -> None:
    failed = await failure(pools, StaleVersion("others were faster"))
    assert failed.code() is grpc.StatusCode.ABORTED
    assert isinstance(error_of(failed, "Get"), StaleVersion)
    assert call_error("Get", failed).reason == STALE


async def test_another_conflict_is_none(pools: tuple[Pools, Any]) -> None:
    failed = await failure(pools, Conflict("the workflow has ended"))
    assert type(error_of(failed, "Get")) is Conflict
    assert call_error("Get", failed).reason == ""


@pytest.mark.parametrize(
    ("status", "text", "sent", "reason"),
    [
        ("ABORTED", "unexpected entity version", {}, STALE),
        ("ABORTED", "resourceVersion 3 is stale: the job is at 4", {}, STALE),
        ("ABORTED", "unexpected entity version", {"peloton-reason": "another"}, "another"),
        ("NOT_FOUND", "unexpected entity version", {}, ""),
        ("ABORTED", "the workflow has ended", {}, ""),
    ],
)
def test_the_text_counts_where_no_reason_is_sent(
    status: str, text: str, sent: dict[str, str], reason: str
) -> None:
    assert reason_of(status, text, sent) == reason


def test_what_is_sent_with_an_error() -> None:
    assert trailing_of(NotFound("job")) == ()
    assert trailing_of(ValueError("defect")) == ()
    assert trailing_of(Unauthenticated("no token", "Bearer")) == (("www-authenticate", "Bearer"),)
