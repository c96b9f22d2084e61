"""Pipelined calls on a connection of their own; the master answers in order.

The answer to a call on the connection of the subscription would arrive within the event stream.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from peloton.errors import Unavailable
from peloton.mesos.http import READ_BYTES, BrokenHttp, HeaderlessParser, Requests
from peloton.mesos.session import SessionBroken

MAX_OUTSTANDING = 4096
"""Number of unanswered calls from which senders wait."""
ANSWER_SECONDS = 30.0
_VOID = ("Framework cannot be found", "Framework is not subscribed", "The stream ID")
"""Parts of refusals that mean that the subscription is no longer valid."""
log = logging.getLogger(__name__)


class CallPipeline:
    """One connection for calls."""

    def __init__(
        self,
        requests: Requests,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        refused: Callable[[str, int, str], None],
        now: Callable[[], float],
    ) -> None:
        """Write to `writer`; report refused calls by `refused(call, status, text)`."""
        self._requests = requests
        self._reader = reader
        self._writer = writer
        self._refused = refused
        self._now = now
        self._outstanding: deque[tuple[str, float]] = deque()
        self._answered = -math.inf
        """When data of an answer was last received."""
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    @property
    def outstanding(self) -> int:
        """Return the number of unanswered calls."""
        return len(self._outstanding)

    @property
    def open(self) -> bool:
        """Return whether calls can be written."""
        return not (self._closed or self._writer.is_closing())

    def send(self, names: Sequence[str], bodies: Iterable[bytes]) -> None:
        """Write calls at once.

        Raises Unavailable, without writing anything, where the connection has ended.
        """
        if not self.open:
            raise Unavailable("the connection to the Mesos master has ended")
        self._writer.write(b"".join(map(self._requests.post, bodies)))
        now = self._now()
        self._outstanding.extend((name, now) for name in names)
        if len(self._outstanding) >= MAX_OUTSTANDING:
            self._room.clear()

    async def drain(self) -> None:
        """Wait until more calls may be written. Raises Unavailable where the connection has ended."""
        await self._room.wait()
        try:
            await self._writer.drain()
        except OSError as error:
            raise Unavailable(f"the connection to the Mesos master has ended: {error}") from None
        if not self.open:
            raise Unavailable("the connection to the Mesos master has ended")

    def stalled(self) -> bool:
        """Return whether no answer has been received for too long, however many calls wait."""
        if not self._outstanding:
            return False
        since = max(self._outstanding[0][1], self._answered)
        return self._now() - since > ANSWER_SECONDS

    async def run(self) -> None:
        """Read the answers. Raises OSError or SessionBroken at the end of the connection."""
        parser = HeaderlessParser(max_body_bytes=1024 * 1024)
        while True:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise BrokenHttp(f"the master closed the calls' connection, {self.outstanding} unanswered")
            self._answered = self._now()
            for answer in parser.feed(data):
                if not self._outstanding:
                    raise BrokenHttp("an answer without a call")
                name, _ = self._outstanding.popleft()
                if len(self._outstanding) < MAX_OUTSTANDING // 2:
                    self._room.set()
                if answer.status not in (200, 202):
                    self._on_refusal(name, answer.status, answer.text)
                if not answer.keep_alive:
                    raise BrokenHttp("the master ends the calls' connection")

    def _on_refusal(self, name: str, status: int, text: str) -> None:
        log.warning("Mesos refuses %s: %d %s", name, status, text[:500])
        self._refused(name, status, text)
        if status in (401, 403, 503) or 300 <= status < 400 or any(part in text for part in _VOID):
            raise SessionBroken(f"{name} was answered {status} {text[:200]}")

    def close(self) -> None:
        """Close the connection and end all waits."""
        self._closed = True
        self._room.set()
        self._writer.close()
