"""A leader that no longer answers: calls under way go on at the next one, as soon as that is known."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v1alpha.watch.svc import watch_svc_pb2, watch_svc_pb2_grpc
from peloton.client import AsyncPelotonClient, CallError, DiscoveryError, PelotonClient, seeking
from peloton.client.discovery import NoLeader
from peloton.client.finding import Tell
from peloton.leaders import NOT_BEGUN
from tests.unit.client.both import KINDS, Ask
from tests.unit.client.test_following import ID, Found

SOON = 10.0
"""Seconds. Less than the 15 s after which gRPC gives up a silent connection."""
DEADLINE = 60.0


class Daemon(
    job_pb2_grpc.JobManagerServicer,
    watch_svc_pb2_grpc.WatchServiceServicer,
    health_pb2_grpc.HealthServicer,  # type: ignore[misc]
):
    """Answers, or holds calls back like a frozen one."""

    def __init__(self, leads: bool = True) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []
        """What each call says about earlier tries."""
        self.under_way = threading.Event()
        self.release = threading.Event()
        self.leads = leads
        self.refuses = False
        self.slow = 0.0
        self.lose = 0
        """Calls to carry out without an answer."""
        self.address = ""

    def _ask(self, name: str, context: Any) -> None:
        self.asked.append(name)
        self.told += [value for key, value in context.invocation_metadata() if key == "peloton-repeated"]
        if self.refuses:
            context.set_trailing_metadata(((NOT_BEGUN, "1"),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "does not lead")
        if self.lose:
            self.lose -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if not self.leads:
            self.under_way.set()
            self.release.wait(DEADLINE)
        time.sleep(self.slow)

    def Get(self, request: Any, context: Any) -> Any:
        self._ask("Get", context)
        return job_pb2.GetResponse()

    def Create(self, request: Any, context: Any) -> Any:
        self._ask("Create", context)
        return job_pb2.CreateResponse(jobId=ID)

    def Watch(self, request: Any, context: Any) -> Any:
        self._ask("Watch", context)
        yield watch_svc_pb2.WatchResponse(watch_id="w")

    def Check(self, request: Any, context: Any) -> Any:
        if not self.leads:
            self.release.wait(DEADLINE)
        assert request.service == "peloton.api.v0.job.JobManager"
        serves = self.leads and not self.refuses
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if serves else status.NOT_SERVING)


@contextmanager
def serving(daemon: Daemon) -> Iterator[Daemon]:
    server = grpc.server(ThreadPoolExecutor(16))
    job_pb2_grpc.add_JobManagerServicer_to_server(daemon, server)
    watch_svc_pb2_grpc.add_WatchServiceServicer_to_server(daemon, server)
    health_pb2_grpc.add_HealthServicer_to_server(daemon, server)
    daemon.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield daemon
    finally:
        daemon.release.set()
        server.stop(None).wait()


@pytest.fixture
def frozen() -> Iterator[Daemon]:
    with serving(Daemon(leads=False)) as daemon:
        yield daemon


@pytest.fixture
def leader() -> Iterator[Daemon]:
    with serving(Daemon()) as daemon:
        yield daemon


class Elected(Found):
    """A discovery whose test says who leads."""

    def __init__(self, first: str) -> None:
        super().__init__(first)
        self.tell: Tell = lambda address: None

    def watch(self, role: str, tell: Tell) -> None:
        self.tell = tell


@pytest.fixture(params=KINDS)
def ask(request: Any) -> Ask:
    return request.param  # type: ignore[no-any-return]


def get(client: Any) -> Any:
    return client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=SOON)


async def in_thread(work: Callable[[], object]) -> None:
    await asyncio.to_thread(work)


async def test_a_call_under_way_goes_on_at_the_new_leader(frozen: Daemon, leader: Daemon, ask: Ask) -> None:
    election = Elected(frozen.address)

    def elect() -> None:
        frozen.under_way.wait(DEADLINE)
        election.tell("")
        election.tell(leader.address)

    await asyncio.gather(ask(get, discovery=election), in_thread(elect))
    assert (frozen.asked, leader.asked) == (["Get"], ["Get"])


async def test_a_call_that_may_not_be_repeated_stays_with_its_server(
    frozen: Daemon, leader: Daemon, ask: Ask
) -> None:
    election = Elected(frozen.address)

    def elect() -> None:
        frozen.under_way.wait(DEADLINE)
        election.tell(leader.address)
        with PelotonClient("bob", jm_url=leader.address) as other:
            get(other)  # what ends at once has ended by now
        frozen.release.set()

    def create(client: Any) -> Any:
        return client.job_svc.Create(job_pb2.CreateRequest(), timeout=DEADLINE)

    answer, _ = await asyncio.gather(ask(create, discovery=election), in_thread(elect))
    assert answer.jobId == ID
    assert (frozen.asked, leader.asked) == (["Create"], ["Get"])


async def test_a_pause_ends_with_news_of_a_leader(frozen: Daemon, leader: Daemon, ask: Ask) -> None:
    frozen.refuses = True
    election = Elected(frozen.address)

    def elect() -> None:
        end = time.monotonic() + DEADLINE
        while len(frozen.asked) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        election.tell(leader.address)

    await asyncio.gather(ask(get, discovery=election), in_thread(elect))
    assert leader.asked == ["Get"]


def test_a_stream_ends_with_its_leader(frozen: Daemon) -> None:
    election = Elected(frozen.address)
    with PelotonClient("ann", discovery=election) as client:
        answers = client.watch_svc.Watch(watch_svc_pb2.WatchRequest())
        assert frozen.under_way.wait(DEADLINE)
        election.tell("127.0.0.1:1")
        with pytest.raises(grpc.RpcError) as ended:
            next(answers)
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_of_asyncio_ends_with_its_leader(frozen: Daemon) -> None:
    election = Elected(frozen.address)
    async with AsyncPelotonClient("ann", discovery=election) as client:
        answers = client.watch_svc.Watch(watch_svc_pb2.WatchRequest())
        first = asyncio.ensure_future(anext(aiter(answers)))
        assert await asyncio.to_thread(frozen.under_way.wait, DEADLINE)
        election.tell("127.0.0.1:1")
        with pytest.raises(grpc.RpcError) as ended:
            await first
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_frozen_one_of_several_addresses_is_left(frozen: Daemon, leader: Daemon, ask: Ask) -> None:
    await ask(get, jm_url=f"{frozen.address},{leader.address}")
    assert leader.asked == ["Get"]


async def test_a_slow_leader_is_not_left(leader: Daemon, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another address answers as well, such as another name of the same daemon."""
    monkeypatch.setattr(seeking, "PROBE_SECONDS", SOON)  # of a busy machine, too
    with serving(Daemon()) as slow:
        slow.slow = 2.0
        await ask(get, jm_url=f"{slow.address},{leader.address}")
        assert (slow.asked, leader.asked) == (["Get"], [])


async def test_a_repeated_call_says_so(leader: Daemon, ask: Ask) -> None:
    leader.lose = 1
    await ask(get, discovery=Found(leader.address))
    assert (leader.asked, leader.told) == (["Get", "Get"], ["1"])


async def test_no_leader_is_unavailable(ask: Ask) -> None:
    with pytest.raises(grpc.RpcError, match="no leader of jobmgr") as failed:
        await ask(
            lambda client: client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=0.3), discovery=Found("")
        )
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert isinstance(failed.value, NoLeader)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_look_up_holds_the_deadline(silent: str) -> None:
    """Of several calls, too, which wait for one look-up."""

    def timed(client: PelotonClient) -> float:
        began = time.monotonic()
        with pytest.raises(grpc.RpcError, match=r"did not answer|not found in time") as failed:
            client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=1.0)
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
        return time.monotonic() - began

    with PelotonClient("ann", zk_servers=silent) as client, ThreadPoolExecutor(3) as pool:
        assert max(pool.map(timed, [client] * 3)) < 4.0


async def test_a_look_up_of_asyncio_holds_the_deadline(silent: str) -> None:
    async def timed(client: AsyncPelotonClient) -> float:
        began = time.monotonic()
        with pytest.raises(grpc.RpcError, match=r"did not answer|not found in time") as failed:
            await client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=1.0)
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
        return time.monotonic() - began

    async with AsyncPelotonClient("ann", zk_servers=silent) as client:
        assert max(await asyncio.gather(*(timed(client) for _ in range(3)))) < 4.0


async def test_an_address_that_is_none_is_an_invalid_argument(ask: Ask) -> None:
    with pytest.raises(grpc.RpcError, match="is not host:port") as failed:
        await ask(get, jm_url="nowhere")
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(failed.value, DiscoveryError)


async def test_streams_wait_for_a_leader(leader: Daemon) -> None:
    def first() -> Any:
        with PelotonClient("ann", discovery=Found("", "", leader.address)) as client:
            return next(client.watch_svc.Watch(watch_svc_pb2.WatchRequest(), timeout=SOON))

    assert (await asyncio.to_thread(first)).watch_id == "w"
    async with AsyncPelotonClient("ann", discovery=Found("", "", leader.address)) as client:
        assert (
            await anext(aiter(client.watch_svc.Watch(watch_svc_pb2.WatchRequest(), timeout=SOON)))
        ).watch_id == "w"


async def test_the_small_layer_raises_call_errors(ask: Ask) -> None:
    with pytest.raises(CallError) as failed:
        await ask(lambda client: client.jobs.get("x"), discovery=Found(""), timeout=0.3)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE
