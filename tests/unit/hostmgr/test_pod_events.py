"""EventStreamService v1alpha, over the ring that v0 serves too."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from hostmgr.services import pod_events
from hostmgr.services.pod_events import PodEventStream
from mesos.v1 import mesos_pb2
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2 as pb
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2_grpc
from peloton.rpc.server import service
from tests.unit.hostmgr.hosts import offer
from tests.unit.hostmgr.served import SECONDS, Served, refused, serving

RUN = "00000000-0000-0000-0000-000000000001-0-1"


def streaming() -> Served:
    made = Served()
    made.services += (
        service(
            eventstreamsvc_pb2_grpc.add_EventStreamServiceServicer_to_server, PodEventStream(made.manager)
        ),
    )
    return made


def wait(
    stream: pb.InitStreamResponse, begin: int, purge: int = 0, limit: int = 0
) -> pb.WaitForEventsRequest:
    return pb.WaitForEventsRequest(
        client_name="jobmgr",
        stream_id=stream.stream_id,
        begin_offset=begin,
        purge_offset=purge,
        limit=limit,
    )


async def test_a_client_reads_events_of_pods_and_passes_them() -> None:
    async with serving(streaming()) as it:
        stub = eventstreamsvc_pb2_grpc.EventStreamServiceStub(it.channel)
        stream = await stub.InitStream(pb.InitStreamRequest(client_name="jobmgr"))
        assert (stream.min_offset, stream.previous_purge_offset) == (0, 0)
        it.put(offer(0, 0))
        for uuid in (b"\x01", b"\x02"):
            it.status(RUN, mesos_pb2.TASK_RUNNING, uuid)
        [first] = (await stub.WaitForEvents(wait(stream, 0, limit=1))).events
        assert (first.offset, first.event_id, first.pod_event.pod_id.value) == (0, "01", RUN)
        assert (first.pod_event.hostname, first.pod_event.actual_state) == ("host0", "POD_STATE_RUNNING")
        assert it.manager.status_updates.ring.pending == 2
        [second] = (await stub.WaitForEvents(wait(stream, 1, purge=1))).events
        assert (second.offset, second.event_id) == (1, "02")
        assert it.manager.status_updates.ring.pending == 1, "what the job manager passed is acknowledged"
        again = await stub.InitStream(pb.InitStreamRequest(client_name="jobmgr"))
        assert (again.stream_id, again.previous_purge_offset) == (stream.stream_id, 1)


async def test_a_call_waits_for_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(streaming()) as it:
        stub = eventstreamsvc_pb2_grpc.EventStreamServiceStub(it.channel)
        stream = await stub.InitStream(pb.InitStreamRequest(client_name="jobmgr"))
        waiting = asyncio.ensure_future(stub.WaitForEvents(wait(stream, 0)))
        async with asyncio.timeout(SECONDS):
            while not it.manager.status_updates._waiters:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"\x01")
        async with asyncio.timeout(SECONDS):
            assert [event.offset for event in (await waiting).events] == [0]
        monkeypatch.setattr(pod_events, "ANSWER_EARLIER", 29.8)
        assert not (await stub.WaitForEvents(wait(stream, 1), timeout=30)).events, "before its deadline"


async def test_refusals_say_what_to_do() -> None:
    async with serving(streaming()) as it:
        stub = eventstreamsvc_pb2_grpc.EventStreamServiceStub(it.channel)
        stream = await stub.InitStream(pb.InitStreamRequest(client_name="resmgr"))
        invalid, precondition = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
        with refused(invalid, "client_name: 'x' is not jobmgr or resmgr"):
            await stub.InitStream(pb.InitStreamRequest(client_name="x"))
        with refused(invalid, "client_name: '' is not jobmgr or resmgr"):
            await stub.WaitForEvents(pb.WaitForEventsRequest())
        with refused(precondition, "offset 7 is not within 0 … 0: call InitStream and start over"):
            await stub.WaitForEvents(wait(stream, 7))
        with refused(invalid, "purge_offset: 1 is not at most the begin_offset, 0"):
            await stub.WaitForEvents(wait(stream, 0, purge=1))
        stream.stream_id = "another"
        with refused(precondition, f"the stream is {it.manager.status_updates.ring.stream_id} now"):
            await stub.WaitForEvents(wait(stream, 0))
