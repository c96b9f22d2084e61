"""A master that misbehaves in chosen ways, and a driver turned to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mesos.v1.scheduler import scheduler_pb2
from peloton.mesos.calls import Framework
from peloton.mesos.codec import codec
from peloton.mesos.connection import MesosDriver
from peloton.mesos.detector import MasterAddress, StaticMaster
from peloton.mesos.session import RetryPauses, Session
from peloton.mesos.stream import Event

WIRE = codec("protobuf")
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter, scheduler_pb2.Call], Awaitable[None]]


class Recorder:
    """A handler that keeps what it hears."""

    def __init__(self) -> None:
        self.subscribed: list[str] = []
        self.events: list[Event] = []
        self.disconnected: list[str] = []
        self.refused: list[tuple[str, int]] = []
        self.removed = 0

    async def on_subscribed(self, framework_id: str, master: MasterAddress, master_id: str) -> None:
        self.subscribed.append(framework_id)

    async def on_framework_removed(self) -> None:
        self.removed += 1

    def on_events(self, events: list[Event]) -> None:
        self.events += events

    def on_disconnected(self, why: str) -> None:
        self.disconnected.append(why)

    def on_refused(self, call: str, status: int, text: str) -> None:
        self.refused.append((call, status))


class FakeMaster:
    """Answers each SUBSCRIBE with the next conversation, the last one again and again; keeps all calls."""

    def __init__(self, *conversations: Conversation) -> None:
        self._conversations = list(conversations)
        self.calls: list[scheduler_pb2.Call] = []
        self.answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                call = WIRE.decode(await reader.readexactly(length), scheduler_pb2.Call)
                self.calls.append(call)
                if call.type == scheduler_pb2.Call.SUBSCRIBE:
                    more = len(self._conversations) > 1
                    talk = self._conversations.pop(0) if more else self._conversations[0]
                    await talk(reader, writer, call)
                    return
                assert b"mesos-stream-id: stream-1" in head.lower()
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


HEAD = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: stream-1\r\n"
    b"Content-Type: application/x-protobuf\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def record(event: Event) -> bytes:
    body = event.SerializeToString()
    return chunk(b"%d\n%b" % (len(body), body))


def subscribed(framework_id: str = "f-0000") -> Event:
    event = Event(type=Event.SUBSCRIBED)
    event.subscribed.framework_id.value = framework_id
    event.subscribed.heartbeat_interval_seconds = 15
    return event


def rescind(offer_id: str) -> Event:
    event = Event(type=Event.RESCIND)
    event.rescind.offer_id.value = offer_id
    return event


def saying(*parts: bytes, stay: bool = True) -> Conversation:
    async def talk(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: scheduler_pb2.Call
    ) -> None:
        writer.write(HEAD + b"".join(parts))
        await writer.drain()
        if stay:
            await reader.read()

    return talk


GOOD = saying(record(subscribed()), record(Event(type=Event.HEARTBEAT)), record(rescind("o1")))


@asynccontextmanager
async def driving(
    master: FakeMaster,
    framework_id: str | None = None,
    now: Callable[[], float] | None = None,
    heard: Recorder | None = None,
) -> AsyncIterator[tuple[MesosDriver, Recorder]]:
    server = await asyncio.start_server(master.serve, "127.0.0.1", 0)
    master.port = server.sockets[0].getsockname()[1]
    recorder = heard or Recorder()
    driver = MesosDriver(
        Session(framework_id),
        Framework(),
        WIRE,
        StaticMaster(MasterAddress("127.0.0.1", master.port)),
        recorder,
        now or asyncio.get_running_loop().time,
        pauses=RetryPauses(first=0.005),
    )
    task = asyncio.create_task(driver.run())
    try:
        yield driver, recorder
        assert not task.done(), task
    finally:
        task.cancel()
        server.close()
        await asyncio.gather(task, return_exceptions=True)
