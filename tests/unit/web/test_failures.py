"""What users are told of failed calls."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from peloton.api.v0.host.svc import host_svc_pb2
from peloton.calls import web
from peloton.errors import Refused, Unavailable
from peloton.membership.interface import Role
from peloton.present.failures import failure_text
from peloton.rpc.caller import Metadata as Sent
from peloton.rpc.errors import error_of
from peloton.web.cluster import Calls

from .fake import FakeCluster

CALLED = "hostmgr 127.0.0.1:5290 HostService.ListHostPools"
STATUS = grpc.StatusCode


def failed(code: grpc.StatusCode, details: str) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details)


@pytest.mark.parametrize(
    ("code", "details", "text"),
    [
        (STATUS.FAILED_PRECONDITION, "host pools are\n not enabled", "host pools are not enabled"),
        (STATUS.NOT_FOUND, "no such host", "no such host"),
        (STATUS.UNAVAILABLE, "not leading", "hostmgr cannot answer now: not leading"),
        (
            STATUS.UNAVAILABLE,
            "failed to connect to all addresses; last error: ipv4:127.0.0.1:5290: Connection refused",
            "hostmgr does not answer: connection refused",
        ),
        (STATUS.DEADLINE_EXCEEDED, "Deadline Exceeded", "hostmgr has not answered in time"),
        (
            STATUS.UNIMPLEMENTED,
            "Method not found!",
            "hostmgr does not know this call: it is of an earlier version",
        ),
        (STATUS.INTERNAL, "a defect", "hostmgr failed: a defect"),
        (STATUS.UNKNOWN, "", "hostmgr failed, and does not say why"),
    ],
)
def test_users_read_neither_methods_nor_addresses_nor_codes(
    code: grpc.StatusCode, details: str, text: str
) -> None:
    error = error_of(failed(code, details), CALLED)
    assert CALLED in str(error)
    assert failure_text(error, "hostmgr") == text


def test_what_no_call_has_said_stays_as_it_is() -> None:
    text = "no leader of hostmgr is known"
    assert failure_text(Unavailable(text), "hostmgr") == text


async def test_calls_of_the_pages_fail_with_the_texts_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        async def call(self, *args: Any) -> Any:
            raise error_of(failed(STATUS.FAILED_PRECONDITION, "host pools are not enabled"), CALLED)

    cluster = FakeCluster()

    def caller(role: Role, metadata: Sent) -> Failing:
        return Failing()

    monkeypatch.setattr(cluster, "caller", caller)
    calls = Calls(cluster)
    with pytest.raises(Refused, match=r"^host pools are not enabled$"):
        await calls.call(web.LIST_HOST_POOLS, host_svc_pb2.ListHostPoolsRequest())
