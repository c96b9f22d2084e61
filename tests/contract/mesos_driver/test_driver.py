"""The driver's connections against a master that misbehaves in chosen ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from hostmgr.core.cluster_manager.events import Acknowledgement
from mesos.v1.scheduler import scheduler_pb2
from peloton.errors import Unavailable
from peloton.mesos.calls import Calls, Framework
from peloton.mesos.connection import CONNECT_SECONDS, MAX_REDIRECTS, MesosDriver
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import Requests, location
from peloton.mesos.session import RetryPauses, Session
from peloton.mesos.stream import OFFERS_AT_ONCE, Event
from tests.contract.mesos.unreachable import connecting, full
from tests.contract.mesos_driver.fakes import (
    GOOD,
    WIRE,
    Conversation,
    FakeMaster,
    Recorder,
    chunk,
    driving,
    record,
    rescind,
    saying,
    subscribed,
)
from tests.waiting import until


async def test_subscribes_and_sends_calls_in_order() -> None:
    master = FakeMaster(GOOD)
    async with driving(master) as (driver, heard):
        await until(lambda: driver.ready and bool(heard.events))
        assert heard.subscribed == ["f-0000"]
        assert [event.rescind.offer_id.value for event in heard.events] == ["o1"]
        calls = Calls("f-0000")
        for n in range(300):
            driver.send(calls.kill(f"t{n}", ""))
        await driver.drain()
        await until(lambda: len(master.calls) == 301)
        assert [call.kill.task_id.value for call in master.calls[1:]] == [f"t{n}" for n in range(300)]
        statuses = [Acknowledgement(f"t{n}", f"S{n}", b"%d" % n) for n in range(3)]
        driver.send_each(map(calls.acknowledge, statuses))
        await until(lambda: len(master.calls) == 304)
        told = [call.acknowledge for call in master.calls[301:]]
        assert [(each.task_id.value, each.agent_id.value, each.uuid) for each in told] == statuses
        info = master.calls[0].subscribe.framework_info
        assert (info.user, info.name, list(info.roles), info.checkpoint) == (
            "root", "Peloton", ["peloton"], True,
        )  # fmt: skip
        assert info.failover_timeout == 6e7 and not info.HasField("id")


@pytest.mark.parametrize(
    "broken",
    [
        saying(record(subscribed()), chunk(b"12x\n"), stay=True),
        saying(record(subscribed()), chunk(b"99999999999\n"), stay=True),
        saying(record(subscribed()), chunk(b"9\nno messag"), stay=True),
        saying(record(subscribed()), chunk(b"100\nhalf a record"), stay=False),
        saying(record(subscribed()), b"zz\r\n", stay=True),
        saying(record(subscribed()), b"0\r\n\r\n", stay=True),
        saying(record(rescind("o0")), stay=True),
        saying(record(subscribed()), record(subscribed()), stay=True),
        saying(stay=False),
        saying(record(subscribed()), record(Event(type=Event.UPDATE)), stay=True),
    ],
    ids=["length", "long", "message", "cut", "no chunk", "end", "not first", "twice", "nothing", "empty"],
)
async def test_a_broken_stream_leads_to_a_new_subscription(broken: Conversation) -> None:
    master = FakeMaster(broken, GOOD)
    async with driving(master) as (driver, heard):
        await until(lambda: driver.ready and bool(heard.events))
        assert len(heard.disconnected) == 1
        assert master.calls[-1].subscribe.framework_info.id.value in ("", "f-0000")
        if heard.subscribed[:-1]:
            assert master.calls[-1].framework_id.value == "f-0000", "subscribed again under its id"


async def test_a_removed_framework_subscribes_as_a_new_one() -> None:
    error = Event(type=Event.ERROR)
    error.error.message = "Framework has been removed"
    master = FakeMaster(saying(record(error), b"0\r\n\r\n"), saying(record(subscribed("f-0001"))))
    async with driving(master, "f-0000") as (driver, heard):
        await until(lambda: driver.ready)
        assert heard.removed == 1 and heard.subscribed == ["f-0001"]
        first, second = (call for call in master.calls if call.type == scheduler_pb2.Call.SUBSCRIBE)
        assert first.framework_id.value == first.subscribe.framework_info.id.value == "f-0000"
        assert not second.HasField("framework_id") and not second.subscribe.framework_info.HasField("id")


async def test_very_many_offers_leave_room_for_other_work() -> None:
    """A leader that took in those of 50,000 hosts at once would not renew its lease meanwhile."""
    event, count = Event(type=Event.OFFERS), 2 * OFFERS_AT_ONCE + 1
    for number in range(count):
        offer = event.offers.offers.add(hostname="h")
        offer.id.value, offer.agent_id.value, offer.framework_id.value = f"O{number}", f"S{number}", "f"
    turns: list[int] = []

    class Counting(Recorder):
        """Notes how many of its calls the event loop has had a turn after."""

        def on_events(self, events: list[Event]) -> None:
            self.events += events
            asyncio.get_running_loop().call_soon(turns.append, len(self.events))

    master = FakeMaster(saying(record(subscribed()), record(event), record(rescind("O0"))))
    async with driving(master, heard=Counting()) as (_, heard):
        await until(lambda: bool(heard.events) and heard.events[-1].type == Event.RESCIND)
        await until(lambda: len(turns) == 4)
        *offers, _ = heard.events
        assert [len(each.offers.offers) for each in offers] == [OFFERS_AT_ONCE, OFFERS_AT_ONCE, 1]
        assert [offer.id.value for each in offers for offer in each.offers.offers] == [
            f"O{number}" for number in range(count)
        ]
        assert turns == [1, 2, 3, 4], "it had one after each"


async def test_another_error_keeps_the_framework_id() -> None:
    error = Event(type=Event.ERROR)
    error.error.message = "Framework failed over"
    master = FakeMaster(saying(record(subscribed()), record(error)), GOOD)
    async with driving(master) as (driver, heard):
        await until(lambda: bool(heard.disconnected) and driver.ready)
        assert heard.removed == 0 and master.calls[-1].framework_id.value == "f-0000"


async def test_while_disconnected_calls_are_refused() -> None:
    master = FakeMaster(saying(stay=True))
    async with driving(master) as (driver, _):
        with pytest.raises(Unavailable, match="not subscribed"):
            driver.send(Calls("f").kill("t", ""))
        with pytest.raises(Unavailable):
            await driver.drain()


async def test_missed_heartbeats_end_the_subscription() -> None:
    loop = asyncio.get_running_loop()
    skipped = [0.0]
    master = FakeMaster(GOOD)
    async with driving(master, now=lambda: loop.time() + skipped[0]) as (driver, heard):
        await until(lambda: driver.ready)
        skipped[0] += 44
        driver.send(Calls("f").kill("t", ""))
        skipped[0] += 2
        await until(lambda: len(heard.subscribed) == 2)
        assert "heartbeats" in heard.disconnected[0]


async def test_a_void_stream_id_ends_the_subscription() -> None:
    master = FakeMaster(GOOD)
    text = b"The stream ID 'a' included in this request didn't match the stream ID currently associated"
    async with driving(master) as (driver, heard):
        await until(lambda: driver.ready)
        master.answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
        driver.send(Calls("f").kill("t", ""))
        await until(lambda: len(heard.subscribed) == 2)
        assert heard.refused == [("KILL", 400)]


async def test_a_call_that_is_refused_alone_leaves_the_subscription() -> None:
    master = FakeMaster(GOOD)
    async with driving(master) as (driver, heard):
        await until(lambda: driver.ready)
        master.answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad"
        driver.send(Calls("f").kill("t", ""))
        await until(lambda: heard.refused == [("KILL", 400)])
        assert driver.ready and heard.disconnected == []


async def test_the_end_of_the_call_connection_leads_to_a_new_subscription() -> None:
    master = FakeMaster(GOOD)
    async with driving(master) as (driver, heard):
        await until(lambda: driver.ready)
        master.answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        driver.send(Calls("f").kill("t", ""))
        await until(lambda: len(heard.subscribed) == 2 and driver.ready)


def redirecting(port: Callable[[], int]) -> Conversation:
    async def elsewhere(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: scheduler_pb2.Call
    ) -> None:
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: //127.0.0.1:%d/master/api/v1/scheduler\r\n"
            b"Content-Length: 0\r\n\r\n" % port()
        )
        await writer.drain()

    return elsewhere


async def test_redirects_are_followed() -> None:
    leader = FakeMaster(GOOD)
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with driving(FakeMaster(redirecting(lambda: port))) as (driver, heard):
        await until(lambda: driver.ready and bool(heard.events))
        assert [call.type for call in leader.calls] == [scheduler_pb2.Call.SUBSCRIBE]
    server.close()


async def test_redirects_in_a_circle_end_and_begin_again_after_a_pause() -> None:
    master = FakeMaster(redirecting(lambda: master.port))
    async with driving(master) as (_, heard):
        await until(lambda: len(heard.disconnected) >= 2 * (MAX_REDIRECTS + 1))
        ends = [number for number, why in enumerate(heard.disconnected) if "redirects before" in why]
        assert ends[:2] == [MAX_REDIRECTS, 2 * MAX_REDIRECTS + 1]


@pytest.mark.parametrize("host", [b"a..b", b"x" * 64, b"m\xe4ster", b"[::1"])
async def test_a_redirect_to_what_is_no_host_is_one_failure_among_others(host: bytes) -> None:
    async def nowhere(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: scheduler_pb2.Call
    ) -> None:
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: //%b:5050/master/api/v1/scheduler\r\n"
            b"Content-Length: 0\r\n\r\n" % host
        )
        await writer.drain()

    async with driving(FakeMaster(nowhere, GOOD)) as (driver, _):
        await until(lambda: driver.ready)


def test_an_address_of_ipv6_is_bracketed() -> None:
    address = location("//[::1]:5050/master/api/v1/scheduler")
    assert (address.host, str(address)) == ("::1", "[::1]:5050")
    assert MasterAddress.parse(str(address)) == address
    assert b"\r\nHost: [::1]:5050\r\n" in Requests(address, "/", {}).post(b"")


async def test_wrong_credentials_are_named_as_such() -> None:
    async def unauthorized(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: scheduler_pb2.Call
    ) -> None:
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 17\r\n\r\n401 Unauthorized.")
        await writer.drain()

    async with driving(FakeMaster(unauthorized)) as (_, heard):
        await until(lambda: len(heard.disconnected) >= 2)
        assert "the master does not accept mesos.principal or mesos.secret_file" in heard.disconnected[0]


class Changing:
    """A detector that tells what it is told to; None: nobody leads."""

    def __init__(self, address: MasterAddress | None) -> None:
        self.address = address

    async def master(self) -> MasterAddress:
        if self.address is None:
            raise Unavailable("nobody leads")
        return self.address


@pytest.mark.parametrize("leads_before", [True, False])
async def test_a_new_master_is_not_waited_for_as_long_as_the_old(leads_before: bool) -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    dead = MasterAddress("127.0.0.1", gone.sockets[0].getsockname()[1])
    gone.close()
    async with following(dead if leads_before else None) as (driver, heard, another_leads):
        await until(lambda: len(heard.disconnected) == 1)
        another_leads()
        await until(lambda: driver.ready)


async def test_an_unreachable_master_is_dropped_when_another_one_leads() -> None:
    with full() as gone:
        async with following(MasterAddress("127.0.0.1", gone)) as (driver, heard, another_leads):
            await until(lambda: connecting(gone))
            another_leads()
            await until(lambda: driver.ready, seconds=CONNECT_SECONDS - 1)
            assert "leads now" in heard.disconnected[0]


async def test_a_master_started_again_at_its_address_is_tried_at_once() -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    host, port = "127.0.0.1", gone.sockets[0].getsockname()[1]
    gone.close()
    async with following(MasterAddress(host, port, id="m1")) as (driver, heard, lead):
        await until(lambda: len(heard.disconnected) == 1)
        master = FakeMaster(GOOD)
        async with await asyncio.start_server(master.serve, host, port):
            lead(MasterAddress(host, port, id="m2"))
            await until(lambda: driver.ready)


async def test_failures_of_a_master_do_not_slow_down_the_next_one() -> None:
    """What the old one failed at says nothing about the new one, which may need a second try."""
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    dead = MasterAddress("127.0.0.1", closed.sockets[0].getsockname()[1])
    closed.close()
    growing = RetryPauses(first=0.01, longest=1000, silent=1000)
    async with following(dead, growing) as (driver, _, lead):
        await until(lambda: driver.session.failures >= 6)
        flaky = FakeMaster(saying(stay=False), GOOD)
        async with await asyncio.start_server(flaky.serve, "127.0.0.1", 0) as server:
            lead(MasterAddress("127.0.0.1", server.sockets[0].getsockname()[1]))
            await until(lambda: len(flaky.calls) == 1)
            await until(lambda: not driver.ready)
            assert driver.session.failures <= 1
            await until(lambda: driver.ready)


async def test_a_recovering_master_is_tried_again_soon() -> None:
    async def recovering(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: scheduler_pb2.Call
    ) -> None:
        writer.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 32\r\n\r\nMaster has not finished recovery"
        )
        await writer.drain()

    master = FakeMaster(recovering, recovering, GOOD)
    async with await asyncio.start_server(master.serve, "127.0.0.1", 0) as server:
        address = MasterAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        async with following(address) as (driver, heard, _):
            await until(lambda: driver.ready)
            assert "answered with 503" in heard.disconnected[0]


@asynccontextmanager
async def following(
    first: MasterAddress | None, pauses: RetryPauses | None = None
) -> AsyncIterator[tuple[MesosDriver, Recorder, Callable[..., None]]]:
    """A driver that is slow to try again, turned to `first`; and what makes another master lead, a good one
    unless its address is given."""
    leader = FakeMaster(GOOD)
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    detector, heard = Changing(first), Recorder()
    now = asyncio.get_running_loop().time
    patient = pauses or RetryPauses(first=1000, longest=1000, silent=1000)
    driver = MesosDriver(Session(None), Framework(), WIRE, detector, heard, now, pauses=patient)
    running = asyncio.create_task(driver.run())

    def another_leads(at: MasterAddress | None = None) -> None:
        detector.address = at or MasterAddress("127.0.0.1", server.sockets[0].getsockname()[1])

    try:
        yield driver, heard, another_leads
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
