"""Which calls are repeated at the next leader, by servers that turn away, vanish and answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.client import PelotonClient
from peloton.client.discovery import NoLeader
from peloton.leaders import NOT_BEGUN, repeatable
from tests.unit.kernel.blackhole import BlackHole

ID = peloton_pb2.JobID(value="j")


class Jobs(job_pb2_grpc.JobManagerServicer):
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusal = ""
        self.trailing: tuple[tuple[str, str], ...] = ()
        self.status = grpc.StatusCode.UNAVAILABLE

    def _answer(self, name: str, context: Any) -> None:
        self.asked.append(name)
        if self.refusal:
            context.set_trailing_metadata(self.trailing)
            context.abort(self.status, self.refusal)

    def Get(self, request: Any, context: Any) -> Any:
        self._answer("Get", context)
        return job_pb2.GetResponse()

    def Create(self, request: Any, context: Any) -> Any:
        self._answer("Create", context)
        return job_pb2.CreateResponse(jobId=ID)


class Found:
    """A discovery that tells one address after the other, the last for ever; "" stands for no leader."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)

    def address(self, role: str) -> str:
        found = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        if not found:
            raise NoLeader(f"no leader of {role}")
        return found

    def clusters(self) -> Sequence[str]:
        return ("",)

    def follows(self, role: str) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def pair() -> Iterator[tuple[Jobs, str, Jobs, str]]:
    """Two servers and their addresses."""
    servers: list[grpc.Server] = []
    found: list[tuple[Jobs, str]] = []
    for _ in range(2):
        each, jobs = grpc.server(ThreadPoolExecutor(1)), Jobs()
        job_pb2_grpc.add_JobManagerServicer_to_server(jobs, each)
        found.append((jobs, f"127.0.0.1:{each.add_insecure_port('127.0.0.1:0')}"))
        each.start()
        servers.append(each)
    yield *found[0], *found[1]
    for each in servers:
        each.stop(None)


def test_no_leader_at_first_is_waited_for(pair: tuple[Jobs, str, Jobs, str]) -> None:
    _, _, new, at_new = pair
    with PelotonClient("ann", discovery=Found("", "", at_new)) as client:
        client.job_svc.Get(job_pb2.GetRequest(id=ID))
    assert new.asked == ["Get"]


def test_no_leader_within_the_time_out() -> None:
    with (
        PelotonClient("ann", discovery=Found("")) as client,
        pytest.raises(NoLeader, match="no leader of jobmgr"),
    ):
        client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=0.3)


def test_followers_and_ended_leaders_are_skipped(pair: tuple[Jobs, str, Jobs, str]) -> None:
    """Whatever is asked for: neither began with it."""
    old, at_old, new, at_new = pair
    old.refusal, old.trailing = "does not lead", ((NOT_BEGUN, "1"),)
    with PelotonClient("ann", discovery=Found(at_old, "127.0.0.1:1", at_new)) as client:
        client.job_svc.Create(job_pb2.CreateRequest())
        client.job_svc.Create(job_pb2.CreateRequest())
    assert (old.asked, new.asked) == (["Create"], ["Create", "Create"])


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_calls_of_unknown_outcome_are_repeated_only_if_safe(
    pair: tuple[Jobs, str, Jobs, str], status: grpc.StatusCode
) -> None:
    old, at_old, new, at_new = pair
    old.refusal, old.status = "Socket closed", status
    unsafe = PelotonClient("ann", discovery=Found(at_old, at_new))
    with unsafe, pytest.raises(grpc.RpcError, match="Socket closed"):
        unsafe.job_svc.Create(job_pb2.CreateRequest())
    with PelotonClient("ann", discovery=Found(at_old, at_new)) as client:
        client.job_svc.Create(job_pb2.CreateRequest(id=ID))
    assert (old.asked, new.asked) == (["Create", "Create"], ["Create"])


async def test_silent_connection_is_replaced(
    pair: tuple[Jobs, str, Jobs, str],
) -> None:
    """Within the time-out of a call."""
    jobs, address, _, _ = pair
    async with BlackHole(int(address.rpartition(":")[2])) as hole:
        with PelotonClient("ann", discovery=Found(f"127.0.0.1:{hole.port}")) as client:
            await asyncio.to_thread(client.job_svc.Get, job_pb2.GetRequest(id=ID))
            hole.swallow()
            await asyncio.to_thread(client.job_svc.Get, job_pb2.GetRequest(id=ID))
    assert jobs.asked == ["Get"] * 2


def test_other_failures_are_raised_at_once(pair: tuple[Jobs, str, Jobs, str]) -> None:
    _, at_old, _, _ = pair
    with PelotonClient("ann", discovery=Found(at_old)) as client, pytest.raises(grpc.RpcError) as refused:
        client.job_svc.Query(job_pb2.QueryRequest())
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("method", "request_", "safe"),
    [
        ("Get", job_pb2.GetRequest(), True),
        ("QueryJobs", None, True),
        ("Stop", task_pb2.StopRequest(), True),
        ("Restart", task_pb2.RestartRequest(jobId=ID), False),
        ("Create", job_pb2.CreateRequest(), False),
        ("CreateJob", stateless_svc_pb2.CreateJobRequest(), False),
        ("CreateJob", stateless_svc_pb2.CreateJobRequest(job_id=v1alpha.JobID(value="j")), True),
        ("ReplaceJob", stateless_svc_pb2.ReplaceJobRequest(), False),
        (
            "ReplaceJob",
            stateless_svc_pb2.ReplaceJobRequest(version=v1alpha.EntityVersion(value="1-1-1")),
            True,
        ),
    ],
)
def test_repeatable_calls(method: str, request_: Any, safe: bool) -> None:
    assert repeatable(f"/some.Service/{method}", request_) is safe
