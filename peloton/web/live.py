"""Pages that stay current: server-sent events.

A page that at least one browser watches has one poller, however many watch it. It reads the page, renders its
live blocks once, and hands on those that changed. A browser that reads slowly skips to the newest.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import StreamingResponse

from peloton.client.auth import Auth, BearerAuth
from peloton.errors import PelotonError, ResourceExhausted, Unauthenticated
from peloton.model.amounts import elapsed
from peloton.web.pages import Found, Reader
from peloton.web.templating import digest

KEEPALIVE_SECONDS = 15.0
"""A comment is sent after so long without an event, so that a connection that is gone is noticed."""
RETRY_MILLISECONDS = 2000
LATE_SECONDS = 3.0
"""When a page has been read for so long, those who watch are told that it is not current."""
AGAIN = "again"
"""The id of the last event that a browser got, which it sends when it connects again."""
FRAGMENT, TROUBLE = "fragment", "trouble"
log = logging.getLogger(__name__)


def event(kind: str, data: object) -> bytes:
    """Encode an event of a stream; `data` as JSON."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class EventStream(StreamingResponse):
    """An answer that is a stream of events."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)


@dataclass(eq=False, slots=True)
class Watcher:
    """A browser: what it is still to be sent, the newest of each kind only."""

    pending: dict[str, bytes] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    """Digests of the pieces that it got with the page, by name, until the first event of each."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def begin(self, name: str, digest: str) -> bool:
        """Return whether this content is to be sent: it is not what came with the page."""
        return self.seen.pop(name, "") != digest

    def put(self, name: str, event: bytes) -> None:
        """Send this in place of what is still to be sent under the same name."""
        self.pending[name] = event
        self.wake.set()

    def take(self) -> bytes:
        """Return everything that is to be sent."""
        self.wake.clear()
        events = b"".join(self.pending.values())
        self.pending.clear()
        return events


@dataclass(eq=False, slots=True)
class Subject:
    """A page that is watched."""

    found: Found
    auth: Auth | None
    watchers: set[Watcher] = field(default_factory=set)
    events: dict[str, bytes] = field(default_factory=dict)
    """The newest event of each block."""
    digests: dict[str, str] = field(default_factory=dict)
    trouble: str = ""
    poller: asyncio.Task[None] | None = None

    def publish(self, fragments: dict[str, str]) -> None:
        """Send the blocks that have changed to all watchers."""
        self.note("")
        for name, html in fragments.items():
            seen = digest(html)
            if self.digests.get(name) != seen:
                self.digests[name] = seen
                self._send(name, event(FRAGMENT, {"name": name, "html": html}), seen)

    def note(self, trouble: str) -> None:
        """Tell all watchers why the page is not current; empty where it is."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._send(" trouble", event(TROUBLE, {"text": trouble}))

    def end(self) -> None:
        """End the streams of all watchers, once they have what is still to be sent."""
        for watcher in self.watchers:
            watcher.ended = True
            watcher.wake.set()

    def _send(self, name: str, encoded: bytes, seen: str = "") -> None:
        self.events[name] = encoded
        for watcher in self.watchers:
            if not seen or watcher.begin(name, seen):
                watcher.put(name, encoded)


class Hub:
    """All pages that are watched."""

    def __init__(
        self, reader: Reader, poll_seconds: float, max_watchers: int, late_seconds: float = LATE_SECONDS
    ) -> None:
        self.reader = reader
        self._late_seconds = late_seconds
        self._poll_seconds = poll_seconds
        self._max_watchers = max_watchers
        self._subjects: dict[tuple[str, Auth | None], Subject] = {}
        self._others = 0
        self._closing = False

    @property
    def poll_seconds(self) -> float:
        """How often what is watched is read."""
        return self._poll_seconds

    @property
    def closing(self) -> bool:
        """Whether all streams are to end."""
        return self._closing

    @property
    def watched(self) -> int:
        """Number of event streams that are open."""
        return self._others + sum(len(subject.watchers) for subject in self._subjects.values())

    def watch(
        self, url: str, auth: Auth | None, seen: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """Return the events of a page, for one browser, which has `seen` pieces with these digests already.

        Raises NotFound, ResourceExhausted.
        """
        found = self.reader.find(url)
        self._check()
        return self._events(found, auth, Watcher(seen=dict(seen or {})))

    def counted(self, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        """Return another stream's events; it counts among those that are open. Raises ResourceExhausted."""
        self._check()
        return self._counted(events)

    async def _counted(self, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        self._others += 1
        try:
            async with aclosing(events):
                async for each in events:
                    yield each
        finally:
            self._others -= 1

    def _check(self) -> None:
        if self.watched >= self._max_watchers:
            raise ResourceExhausted(
                f"{self._max_watchers} event streams are open, the most that max_watchers allows"
            )

    async def close(self) -> None:
        """End all streams."""
        self._closing = True
        pollers = [subject.poller for subject in self._subjects.values() if subject.poller is not None]
        for subject in self._subjects.values():
            for watcher in subject.watchers:
                watcher.ended = True
                watcher.wake.set()
        for poller in pollers:
            poller.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)

    async def _events(self, found: Found, auth: Auth | None, watcher: Watcher) -> AsyncIterator[bytes]:
        yield f"id: {AGAIN}\nretry: {RETRY_MILLISECONDS}\n\n".encode()
        subject = self._enter(found, auth, watcher)
        try:
            while not watcher.ended and not self._closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(KEEPALIVE_SECONDS):
                        await watcher.wake.wait()
                yield watcher.take() or b": still here\n\n"
        finally:
            self._leave(subject, watcher)

    def _enter(self, found: Found, auth: Auth | None, watcher: Watcher) -> Subject:
        key = (found.url, auth)
        subject = self._subjects.get(key)
        if subject is None:
            subject = self._subjects[key] = Subject(found, auth)
            subject.poller = asyncio.create_task(self._poll(subject), name=f"page {found.url}")
        subject.watchers.add(watcher)
        for name, encoded in subject.events.items():
            if name not in subject.digests or watcher.begin(name, subject.digests[name]):
                watcher.put(name, encoded)
        return subject

    def _leave(self, subject: Subject, watcher: Watcher) -> None:
        subject.watchers.discard(watcher)
        if not subject.watchers and subject.poller is not None:
            subject.poller.cancel()
            self._subjects.pop((subject.found.url, subject.auth), None)

    async def _poll(self, subject: Subject) -> None:
        """Read the page again and again. What fails is shown, and tried again."""
        pause = subject.found.page.poll_seconds or self._poll_seconds
        while True:
            try:
                subject.publish(await self._read(subject))
            except PelotonError as error:
                subject.note(str(error))
                if isinstance(error, Unauthenticated) and isinstance(subject.auth, BearerAuth):
                    subject.end()  # the token is over: the browser comes again, with a new one of the proxy
            except Exception:
                log.exception("page %s", subject.found.url)
                subject.note("this page cannot be rendered; the web UI's log says why")
            await asyncio.sleep(pause)

    async def _read(self, subject: Subject) -> dict[str, str]:
        """Return the blocks of a page; tell those who watch where that takes long."""
        reading = asyncio.create_task(self.reader.fragments(subject.found, subject.auth))
        try:
            ended, _ = await asyncio.wait((reading,), timeout=self._late_seconds)
            if not ended and not subject.trouble:
                subject.note(self._late())
            return await reading
        finally:
            reading.cancel()

    def _late(self) -> str:
        """Return what is known of why a page is not read yet."""
        away = [name for name, leads in self.reader.cluster.leaderships().items() if not leads]
        if away:
            return f"no leader of {' and '.join(away)} is known; it is tried again"
        return f"the daemons have not answered for {elapsed(self._late_seconds)}; they are still asked"


async def answer(hub: Hub, request: Request, auth: Auth | None) -> EventStream:
    """Answer GET /live?page=URL&seen=NAME:DIGEST,…. Raises NotFound, ResourceExhausted."""
    query = request.query_params
    # A browser that connects again by itself has had changes since, and sends the same address.
    again = "last-event-id" in request.headers
    pairs = () if again else (each.partition(":") for each in query.get("seen", "").split(","))
    seen = {name: digest for name, _, digest in pairs if digest}
    return EventStream(hub.watch(query.get("page", "/"), auth, seen))
