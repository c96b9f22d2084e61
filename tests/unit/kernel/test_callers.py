"""What calls say of themselves: in logs, in the audit log, and in metrics."""

from __future__ import annotations

import json
import logging
import random
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, Counter

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.errors import NotFound
from peloton.identity.request import request_id, said
from peloton.rpc.audit import Audit
from peloton.rpc.metrics import MOST_CALLERS, MOST_SERVICES, CallsByCaller
from peloton.rpc.server import RpcServer, service

SAYS = (("rpc-caller", "tool"), ("rpc-service", "peloton-jobmgr"), ("x-request-id", "abc"))


class Jobs(job_pb2_grpc.JobManagerServicer):
    def __init__(self) -> None:
        self.ids: list[str] = []

    async def Stop(self, request: job_pb2.StopRequest, context: Any) -> job_pb2.StopResponse:
        self.ids.append(request_id())
        if not request.id.value:
            raise NotFound("job not found")
        return job_pb2.StopResponse()


@asynccontextmanager
async def serving(jobs: Jobs, audit: Audit | None = None) -> AsyncIterator[job_pb2_grpc.JobManagerAsyncStub]:
    server = RpcServer(lambda: "", audit=audit)
    port = await server.start("127.0.0.1", 0)
    server.activate([service(job_pb2_grpc.add_JobManagerServicer_to_server, jobs)])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield job_pb2_grpc.JobManagerStub(channel)
    await server.stop()


def stop(job: str = "1") -> job_pb2.StopRequest:
    return job_pb2.StopRequest(id=peloton_pb2.JobID(value=job))


async def test_each_call_is_a_line_of_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    with caplog.at_level(logging.DEBUG, "peloton.access"):
        async with serving(jobs) as stub:
            await stub.Stop(stop(), metadata=SAYS)
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.Stop(stop(""))
    first, second = (record.getMessage() for record in caplog.records if record.name == "peloton.access")
    assert first.startswith("/peloton.api.v0.job.JobManager/Stop OK 0.")
    assert first.endswith(" s, caller tool, service peloton-jobmgr, nobody, request abc")
    assert second.startswith("/peloton.api.v0.job.JobManager/Stop NOT_FOUND 0.")
    assert ", caller -, service -, nobody, request " in second
    assert jobs.ids[0] == "abc"
    assert second.endswith(jobs.ids[1]), "an id is made where none is given, one for the whole call"


async def test_the_audit_log_has_them_with_the_id_that_the_logs_have() -> None:
    lines: list[str] = []
    jobs = Jobs()
    async with serving(jobs, Audit(lines.append, lambda: 0)) as stub:
        await stub.Stop(stop(), metadata=(*SAYS, ("peloton-version", "0.2.0")))
        await stub.Stop(stop())
    first, second = map(json.loads, lines)
    assert first["version"] == "0.2.0" and "version" not in second
    assert (first["caller"], first["service"], first["request"]) == ("tool", "peloton-jobmgr", "abc")
    assert second["request"] == jobs.ids[1]
    assert "caller" not in second


def test_any_names_make_a_bounded_number_of_series() -> None:
    registry = CollectorRegistry()
    calls = CallsByCaller(Counter("calls", "Calls.", ["caller", "service"], registry=registry))
    calls.count("tool", "peloton-jobmgr")
    seeded = random.Random(1)
    for _ in range(5000):
        one, other = ("".join(seeded.choices(string.printable, k=seeded.randint(0, 80))) for _ in "12")
        calls.count(one, other)
        calls.count(f"caller-{seeded.random()}", f"service-{seeded.random()}")
    calls.count("tool", "peloton-jobmgr")
    (metric,) = registry.collect()
    found = [each for each in metric.samples if each.name == "calls_total"]
    assert len(found) <= (MOST_CALLERS + 2) * (MOST_SERVICES + 2)
    assert sum(each.value for each in found) == 10_002
    (mine,) = [each for each in found if each.labels == {"caller": "tool", "service": "peloton-jobmgr"}]
    assert mine.value == 2
    assert len({each.labels["caller"] for each in found}) <= MOST_CALLERS + 2


def test_what_a_caller_says_cannot_begin_another_line() -> None:
    told = said([("rpc-caller", "a\nb\x1b"), ("x-request-id", b"\xff1")])
    assert (told.caller, told.request_id) == ("a?b?", "\N{REPLACEMENT CHARACTER}1")
    assert len(said([("rpc-caller", "x" * 1000)]).caller) == 200
