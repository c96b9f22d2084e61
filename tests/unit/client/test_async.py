"""The client for asyncio: calls that follow leaders, cancellation, closing; what both clients decide."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2
from peloton.client import AsyncPelotonClient, CallError, PelotonClient
from peloton.client.auth import BearerAuth
from peloton.client.discovery import NoLeader
from peloton.client.sync_async import ClientClosed
from peloton.client.watching import Event
from peloton.leaders import NOT_BEGUN
from tests.unit.cli.fakes import FakeDaemons, Stream, serving
from tests.unit.client.both import KINDS, Ask
from tests.unit.client.test_following import ID, Found, Jobs, pair
from tests.waiting import until

__all__ = ["pair"]

DEADLINE = 60.0
NOBODY = "127.0.0.1:1"
Pair = tuple[Jobs, str, Jobs, str]


@pytest.fixture
def daemons() -> FakeDaemons:
    return FakeDaemons()


@pytest.fixture
def address(daemons: FakeDaemons) -> Iterator[str]:
    with serving(daemons) as found:
        yield found


@pytest.fixture(params=KINDS)
def ask(request: Any) -> Ask:
    """Makes a call by a client of each kind."""
    return request.param  # type: ignore[no-any-return]


def get(client: Any) -> Any:
    return client.job_svc.Get(job_pb2.GetRequest(id=ID))


async def test_calls_go_on_at_the_next_leader(pair: Pair) -> None:
    old, at_old, new, at_new = pair
    old.refusal, old.trailing = "does not lead", ((NOT_BEGUN, "1"),)
    async with AsyncPelotonClient("ann", discovery=Found(at_old, NOBODY, "", at_new)) as client:
        await client.job_svc.Create(job_pb2.CreateRequest())
        await asyncio.gather(*(get(client) for _ in range(20)))
    assert (old.asked, new.asked) == (["Create"], ["Create"] + ["Get"] * 20)


async def test_calls_of_unknown_outcome_are_repeated_only_if_safe(pair: Pair) -> None:
    old, at_old, new, at_new = pair
    old.refusal = "Socket closed"
    async with AsyncPelotonClient("ann", discovery=Found(at_old, at_new)) as client:
        with pytest.raises(grpc.RpcError, match="Socket closed"):
            await client.job_svc.Create(job_pb2.CreateRequest())
    async with AsyncPelotonClient("ann", discovery=Found(at_old, at_new)) as client:
        await client.job_svc.Create(job_pb2.CreateRequest(id=ID))
    assert (old.asked, new.asked) == (["Create"] * 2, ["Create"])


async def test_no_leader_within_the_time_out() -> None:
    async with AsyncPelotonClient("ann", discovery=Found("")) as client:
        with pytest.raises(NoLeader, match="no leader of jobmgr"):
            await client.job_svc.Get(job_pb2.GetRequest(id=ID), timeout=0.3)


async def test_addresses_are_tried_in_turn(pair: Pair, ask: Ask) -> None:
    jobs, address, _, _ = pair
    await ask(get, jm_url=f"{NOBODY},{address}")
    assert jobs.asked == ["Get"]


async def test_an_address_where_nobody_answers(ask: Ask) -> None:
    with pytest.raises(CallError) as failed:
        await ask(lambda client: client.jobs.get("x"), jm_url=NOBODY, timeout=0.5)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE


async def test_a_server_that_sends_nothing(ask: Ask) -> None:
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(CallError) as failed:
            await ask(lambda client: client.jobs.get("x"), jm_url=f"127.0.0.1:{port}", timeout=0.5)
        assert failed.value.passing
        with pytest.raises(CallError) as waited:
            await ask(lambda client: client.jobs.wait("x", 0.5), jm_url=f"127.0.0.1:{port}", timeout=DEADLINE)
    assert waited.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_an_expired_deadline(daemons: FakeDaemons, address: str, ask: Ask) -> None:
    release = threading.Event()

    def held(request: object) -> job_pb2.GetResponse:
        release.wait(DEADLINE)
        return job_pb2.GetResponse()

    daemons.answers["Get"] = held
    with pytest.raises(CallError) as failed:
        await ask(lambda client: client.jobs.get("x", timeout=0.2), jm_url=address)
    release.set()
    assert failed.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_token_is_asked_for_each_call(daemons: FakeDaemons, address: str, ask: Ask) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse()
    tokens = iter(["first", "second"])
    for _ in range(2):
        await ask(get, jm_url=address, auth=BearerAuth(lambda: next(tokens)))
    assert [each[2]["authorization"] for each in daemons.asked] == ["Bearer first", "Bearer second"]


def pod(name: str, version: int) -> pod_pb2.PodSummary:
    summary = pod_pb2.PodSummary(pod_name=peloton_pb2.PodName(value=name))
    summary.status.revision.version = version
    return summary


async def test_a_watch_goes_on_after_a_cut(daemons: FakeDaemons, address: str) -> None:
    first = watch_svc_pb2.WatchResponse(watch_id="w")
    daemons.answers["Watch"] = Stream(first, (grpc.StatusCode.UNAVAILABLE, "no longer leads"))
    daemons.answers["ListPods"] = Stream(stateless_svc_pb2.ListPodsResponse(pods=[pod("a", 1), pod("b", 1)]))
    seen: list[tuple[str, str]] = []
    async with (
        AsyncPelotonClient("ann", jm_url=address) as client,
        aclosing(client.jobs.watch_pods("job")) as events,
    ):
        async for event in events:
            seen.append((event.kind.value, event.name))
            if seen.count(("synced", "")) == 1:
                answer = stateless_svc_pb2.ListPodsResponse(pods=[pod("a", 3)])
                daemons.answers["ListPods"] = Stream(answer)
            if seen.count(("synced", "")) == 2:
                break
    assert seen == [
        *(("changed", "a"), ("changed", "b"), ("synced", "")),
        *(("changed", "a"), ("gone", "b"), ("synced", "")),
    ]


class Silent(FakeDaemons):
    """Takes every call, and does not answer before it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

        def held(request: object) -> Any:
            self.release.wait(DEADLINE)
            return job_pb2.GetResponse()

        self.answers["Get"] = held


@pytest.fixture
def silent() -> Iterator[tuple[Silent, str]]:
    daemons = Silent()
    with serving(daemons) as found:
        yield daemons, found
        daemons.release.set()


async def test_a_task_that_is_cancelled_leaves_nothing(silent: tuple[Silent, str]) -> None:
    daemons, address = silent
    before = set(threading.enumerate())
    async with AsyncPelotonClient("ann", discovery=Found(address)) as client:
        calls = [asyncio.create_task(client.jobs.get("x")) for _ in range(3)]
        await until(lambda: len(daemons.asked) >= 1)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
        await until(lambda: len(asyncio.all_tasks()) == 1)
    assert {each.name for each in set(threading.enumerate()) - before if "peloton" in each.name} == set()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_a_client_that_closes_ends_its_calls(silent: tuple[Silent, str], kind: str) -> None:
    """And opens no connection for them again."""
    daemons, address = silent
    work: asyncio.Future[Any]
    if kind == "asyncio":
        client: Any = AsyncPelotonClient("ann", discovery=Found(address))
        work = asyncio.ensure_future(get(client))
    else:
        client = PelotonClient("ann", discovery=Found(address))
        work = asyncio.ensure_future(asyncio.to_thread(get, client))
    await until(lambda: len(daemons.asked) == 1)
    if kind == "asyncio":
        await client.close()
    else:
        client.close()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ClientClosed):
            await work
    assert len(daemons.asked) == 1


async def watched(client: AsyncPelotonClient, seen: list[Event[Any]]) -> None:
    async for event in client.jobs.watch_pods("job"):
        seen.append(event)


@pytest.mark.parametrize("end", ["cancel", "close"])
async def test_a_watch_ends(daemons: FakeDaemons, address: str, end: str) -> None:
    release = threading.Event()

    class Held(Stream):
        def __init__(self) -> None:
            super().__init__()

        def __iter__(self) -> Iterator[Any]:
            yield watch_svc_pb2.WatchResponse(watch_id="w")
            release.wait(DEADLINE)

    stream = Held()
    stream.answers = stream  # type: ignore[assignment]
    daemons.answers["Watch"] = stream
    daemons.answers["ListPods"] = Stream(stateless_svc_pb2.ListPodsResponse(pods=[pod("a", 1)]))
    client, seen = AsyncPelotonClient("ann", jm_url=address), list[Event[Any]]()
    work = asyncio.create_task(watched(client, seen))
    await until(lambda: len(seen) == 2)
    if end == "cancel":
        work.cancel()
    else:
        await client.close()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(asyncio.CancelledError if end == "cancel" else CallError):
            await work
    release.set()
    await client.close()


async def test_a_job_is_found_by_its_name(daemons: FakeDaemons, address: str, ask: Ask) -> None:
    def named(*jobs: tuple[str, str]) -> job_pb2.QueryResponse:
        results = [job_pb2.JobSummary(id=v0.JobID(value=job_id), name=name) for job_id, name in jobs]
        return job_pb2.QueryResponse(results=results)

    async def find(*arguments: str) -> str:
        return str(await ask(lambda client: client.jobs.find(*arguments), jm_url=address))

    one, two = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0", "92b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a1"
    assert await find(one) == one and not daemons.asked
    daemons.answers["Query"] = named((one, "web"), (two, "of an older server, which does not know the field"))
    assert await find("web", "/a") == await find("91b1EE") == one
    sent = daemons.requests("Query")[0].spec
    assert (sent.reference, sent.respool.value) == ("web", "/a")
    with pytest.raises(CallError, match="no job in the pool /a has the name 'wbe'") as refused:
        await find("wbe", "/a")
    assert refused.value.code == grpc.StatusCode.NOT_FOUND
    daemons.answers["Query"] = named((one, "web"), (two, "web"))
    with pytest.raises(CallError, match=f"may be several jobs: {one}, {two}") as refused:
        await find("web")
    assert refused.value.code == grpc.StatusCode.FAILED_PRECONDITION
