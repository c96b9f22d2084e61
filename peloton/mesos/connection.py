"""The connections to the Mesos master: one for the subscription, one for all other calls.

When either breaks, both are closed and the framework subscribes again. Earlier offers are void then, and
reconciliation finds the outcome of unanswered calls.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, Protocol

from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.call_pipeline import CallPipeline
from peloton.mesos.calls import Call, Framework, subscribe
from peloton.mesos.codec import Codec, MalformedMessage
from peloton.mesos.detector import MasterAddress, MasterDetector
from peloton.mesos.http import READ_BYTES, BrokenHttp, Requests, connect
from peloton.mesos.session import RetryPauses, Session, SessionBroken
from peloton.mesos.stream import Event, EventDecoder, Redirected, SessionRefused, split_offers
from peloton.mesos.tls import Tls
from peloton.recordio import MalformedStream
from peloton.waking import tick

PATH = "/api/v1/scheduler"
CONNECT_SECONDS = 10.0
SUBSCRIBE_SECONDS = 30.0
"""Longest time until SUBSCRIBED: a master of many agents prepares their offers first."""
WATCH_SECONDS = 0.5
MAX_REDIRECTS = 3
_BROKEN = (OSError, Unavailable, SessionBroken, MalformedStream, MalformedMessage, InvalidArgument)
"""Errors that end a subscription but not the program. InvalidArgument: an amount in an offer is no number."""
_NAMES = {number: name for name, number in Call.Type.items()}
log = logging.getLogger(__name__)


class Handler(Protocol):
    """Receives the events of a subscription."""

    async def on_subscribed(self, framework_id: str, master: MasterAddress, master_id: str) -> None:
        """Handle a new subscription, before its further events."""
        ...

    async def on_framework_removed(self) -> None:
        """Handle a void framework id; the next subscription gets a new one."""
        ...

    def on_events(self, events: list[Event]) -> None:
        """Handle the events of one read, or a part of them, in order."""
        ...

    def on_disconnected(self, reason: str) -> None:
        """Handle the end of a subscription, or a failed try to subscribe."""
        ...

    def on_refused(self, call: str, status: int, text: str) -> None:
        """Handle a call that the master refused."""
        ...


class MesosDriver:
    """Keep a framework subscribed, and send its calls."""

    def __init__(
        self,
        session: Session,
        framework: Framework,
        codec: Codec,
        detector: MasterDetector,
        handler: Handler,
        now: Callable[[], float],
        authorization: str = "",
        tls: Tls | None = None,
        pauses: RetryPauses | None = None,
        max_record_bytes: int = 64 * 1024 * 1024,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `fence` before each subscription and each call; it raises to prevent them."""
        self.session = session
        self._framework = framework
        self._codec = codec
        self._detector = detector
        self._handler = handler
        self._now = now
        self._tls = tls
        self._pauses = pauses or RetryPauses()
        self._max_record_bytes = max_record_bytes
        self._fence = fence
        self._detected: MasterAddress | None = None
        self._headers = {"Content-Type": codec.content_type, "Accept": codec.content_type}
        if authorization:
            self._headers["Authorization"] = authorization
        self._pipeline: CallPipeline | None = None
        self._redirect: MasterAddress | None = None
        self._redirects = 0

    @property
    def ready(self) -> bool:
        """Return whether calls can be made now."""
        return self._pipeline is not None and self._pipeline.open

    def send(self, *calls: Call) -> None:
        """Write calls in order.

        Raises Unavailable, without writing anything, while not subscribed, and what the fence raises.
        """
        self.send_each(calls)

    def send_each(self, calls: Iterable[Call]) -> None:
        """Write calls in order as `send` does. Each may be the same message anew: it is encoded at once."""
        self._fence()
        if self._pipeline is None:
            raise Unavailable("not subscribed with the Mesos master at the moment")
        names, bodies, encode = list[str](), list[bytes](), self._codec.encode
        for call in calls:
            names.append(_NAMES[call.type])
            bodies.append(encode(call))
        self._pipeline.send(names, bodies)

    async def drain(self) -> None:
        """Wait until more calls may be written. Raises Unavailable where the connection ends meanwhile."""
        if self._pipeline is None:
            raise Unavailable("not subscribed with the Mesos master at the moment")
        await self._pipeline.drain()

    async def run(self) -> NoReturn:
        """Subscribe, again after each end of the subscription."""
        while True:
            reason = await self._until_broken()
            self.session.disconnect()
            self._handler.on_disconnected(reason)
            if self._redirect is not None:
                log.info("Mesos: %s", reason)
                continue
            pause = self.session.pause(self._pauses, random.random())
            log.warning("Mesos: %s; trying again in %.1f s", reason, pause)
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try with the same master; another master is tried as soon as it leads."""
        until = self._now() + seconds
        while (left := until - self._now()) > 0:
            await asyncio.sleep(min(left, WATCH_SECONDS))
            if await self._other_master() is not None:
                return

    async def _until_broken(self) -> str:
        """Subscribe once; return why the subscription, or the try, ended."""
        where = "no master"
        try:
            self._fence()
            before, self._detected = self._detected, None
            self._detected = await self._detector.master()
            if before is None or not self._detected.same(before):
                self.session.another_master()
            master, self._redirect = self._redirect or self._detected, None
            where = f"master {master}"
            self.session.connect(self._now())
            await _until_first_ends(self._subscription(master), self._until_another_leads())
        except Redirected as error:
            return f"{where}: {self._follow(error)}"
        except _BROKEN as error:
            self._redirects = 0
            return f"{where}: {str(error) or type(error).__name__}"
        return f"{where}: the subscription ended"

    def _follow(self, error: Redirected) -> str:
        """Note a redirect to follow at once, unless there were too many in a row; return the reason."""
        if self._redirects < MAX_REDIRECTS:
            self._redirects += 1
            self._redirect = error.to
            return str(error)
        self._redirects = 0
        return f"{error}, after {MAX_REDIRECTS} redirects before"

    async def _subscription(self, master: MasterAddress) -> None:
        try:
            reader, writer = await connect(master, CONNECT_SECONDS, self._tls and self._tls())
        except BrokenHttp:  # wrong certificates, or a name that is none
            self.session.answered()
            raise
        try:
            call = subscribe(self._framework, self.session.framework_id)
            writer.write(Requests(master, PATH, self._headers).post(self._codec.encode(call)))
            decoder = EventDecoder(self._codec, self.session, self._max_record_bytes)
            async with asyncio.timeout(SUBSCRIBE_SECONDS):
                events = await self._until_subscribed(reader, decoder)
            await self._exchange(master, reader, decoder, events)
        except SessionRefused as error:
            await self._on_error(error.message)
        finally:
            writer.close()

    async def _until_subscribed(self, reader: asyncio.StreamReader, decoder: EventDecoder) -> list[Event]:
        """Return the events that were received with SUBSCRIBED."""
        while not self.session.subscribed:
            events = await self._next(reader, decoder)
        return events

    async def _exchange(
        self,
        master: MasterAddress,
        reader: asyncio.StreamReader,
        decoder: EventDecoder,
        events: list[Event],
    ) -> None:
        headers = {**self._headers, "Mesos-Stream-Id": self.session.stream_id}
        answers, writer = await connect(master, CONNECT_SECONDS, self._tls and self._tls())
        pipeline = CallPipeline(
            Requests(master, PATH, headers), answers, writer, self._handler.on_refused, self._now
        )
        try:
            assert self.session.framework_id is not None
            await self._handler.on_subscribed(self.session.framework_id, master, self.session.master_id)
            self._pipeline = pipeline
            self._redirects = 0
            await _until_first_ends(
                self._events(reader, decoder, events), pipeline.run(), self._watch(pipeline)
            )
        finally:
            self._pipeline = None
            pipeline.close()

    async def _events(self, reader: asyncio.StreamReader, decoder: EventDecoder, events: list[Event]) -> None:
        while True:
            for part in split_offers(events):
                self._handler.on_events(part)
                await asyncio.sleep(0)  # let other tasks run, such as the renewal of the leader's lease
            events = await self._next(reader, decoder)

    async def _next(self, reader: asyncio.StreamReader, decoder: EventDecoder) -> list[Event]:
        data = b"" if decoder.ended else await reader.read(READ_BYTES)
        return decoder.feed(data, self._now())

    async def _watch(self, pipeline: CallPipeline) -> None:
        while True:
            await tick(WATCH_SECONDS)
            if self.session.expired(self._now()):
                raise SessionBroken("three heartbeats were missed")
            if pipeline.stalled():
                raise SessionBroken("a call got no answer")

    async def _until_another_leads(self) -> None:
        while True:
            await tick(WATCH_SECONDS)
            if (other := await self._other_master()) is not None:
                # A master that hangs, or whose machine has failed, does not close its connection when another
                # one is elected.
                raise SessionBroken(f"the master at {other} leads now")

    async def _other_master(self) -> MasterAddress | None:
        """Return the leading master if it is another one than this driver connected to."""
        try:
            detected = await self._detector.master()
        except Unavailable:  # another one is being elected
            return None
        same = self._detected is not None and detected.same(self._detected)
        return None if same else detected

    async def _on_error(self, message: str) -> None:
        if self.session.on_error(message):
            await self._handler.on_framework_removed()
        raise SessionBroken(f"ERROR event: {message}")


async def _until_first_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, then cancel the others. Raises what that one raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
