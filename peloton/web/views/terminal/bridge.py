"""Joins the WebSocket of a browser with the terminal of a shell: what is typed and shown, and its bounds.

The browser sends bytes that were typed, and texts of JSON: `{"rows": R, "columns": C}`, the first message and
after each change of size, and `{"shown": N}`, how many bytes of output it has shown in all. It gets bytes of
output, and at the end `{"over": TEXT}`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Gauge
from starlette.websockets import WebSocket, WebSocketDisconnect

from peloton.client.agent_calls import Size, resized, typed
from peloton.errors import InvalidArgument, ResourceExhausted
from peloton.model.amounts import byte_size, duration
from peloton.plainjson import parse_json
from peloton.web.config import TerminalSettings

AHEAD_BYTES = 256 * 1024
"""Bytes of output that may be on their way to a browser: a command may print faster than it shows them."""
MOST_TYPED_BYTES = 4 * 1024 * 1024
"""Bytes of records that wait for the shell to read them: pasted into a program that reads nothing."""
LARGEST_SIZE = 1000
"""Rows, and columns."""
OPEN = Gauge("web_terminals", "Terminals that are open.")
Check = Callable[[], Awaitable[str]]
"""Returns why a user may not go on, empty where she may."""


@dataclass(slots=True)
class Terminals:
    """The terminals that are open, by their users."""

    settings: TerminalSettings
    _of: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """How many there are."""
        return self._of.total()

    def take(self, user: str) -> None:
        """Count one more. Raises ResourceExhausted."""
        if self.open >= self.settings.total:
            raise ResourceExhausted(f"{self.settings.total} terminals are open, as many as there may be")
        if self._of[user] >= self.settings.per_user:
            raise ResourceExhausted(
                f"you have {self.settings.per_user} terminals open, as many as a user may have: close one"
            )
        self._of[user] += 1
        OPEN.set(self.open)

    def leave(self, user: str) -> None:
        """Count one less."""
        self._of[user] -= 1
        if not self._of[user]:
            del self._of[user]
        OPEN.set(self.open)


class Bridge:
    """One terminal."""

    def __init__(self, socket: WebSocket, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = socket
        self._clock = clock
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._last = clock()
        self._sent = self._shown = 0
        self._taken = asyncio.Event()

    async def size(self) -> Size:
        """Return the size that the first message tells. Raises InvalidArgument, WebSocketDisconnect."""
        message = await self._message()
        if isinstance(message, bytes) or (found := _size(message)) is None:
            raise InvalidArgument("first message", "another", "the size of the terminal")
        return found

    async def records(self) -> AsyncIterator[bytes]:
        """Yield what is typed, and new sizes, as records for the agent."""
        while True:
            record = await self._typed.get()
            self._waiting -= len(record)
            yield record

    async def write(self, data: bytes) -> None:
        """Show output; wait while the browser is behind."""
        while self._sent - self._shown > AHEAD_BYTES:
            self._taken.clear()
            await self._taken.wait()
        self._sent += len(data)
        await self._socket.send_bytes(data)

    async def receive(self) -> str:
        """Take what the browser sends until it leaves. Raises InvalidArgument, ResourceExhausted."""
        while True:
            try:
                message = await self._message()
            except WebSocketDisconnect:
                return "the browser has left"
            if isinstance(message, bytes):
                self._last = self._clock()
                if message:  # an empty record would end the input
                    self._put(typed(message))
            elif (size := _size(message)) is not None:
                self._put(resized(size))
            else:
                self._note_shown(message)

    def _put(self, record: bytes) -> None:
        # Not to wait here: what the browser tells of the output it has shown is read by the same loop.
        self._waiting += len(record)
        if self._waiting > MOST_TYPED_BYTES:
            raise ResourceExhausted(
                f"{byte_size(MOST_TYPED_BYTES)} were typed that no program reads: the session is over"
            )
        self._typed.put_nowait(record)

    async def watch(self, idle_seconds: float, check: Check, check_seconds: float) -> str:
        """Return why the session is to end: nothing was typed for long, or the user may not go on."""
        while (left := self._last + idle_seconds - self._clock()) > 0:
            await asyncio.sleep(min(left, check_seconds))
            if why := await check():
                return why
        return f"nothing was typed for {duration(idle_seconds)}: the session is over"

    async def over(self, text: str) -> None:
        """Tell the browser why the session is over, where it is still there."""
        try:
            await self._socket.send_text(json.dumps({"over": text}))
            await self._socket.close()
        except (WebSocketDisconnect, RuntimeError):  # it has left, or is closed already
            return

    async def _message(self) -> bytes | dict[str, Any]:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code") or 1000)
        if (data := message.get("bytes")) is not None:
            return bytes(data)
        try:
            found = parse_json(message["text"])
        except ValueError as error:
            raise InvalidArgument("message", message["text"][:80], "JSON") from error
        if not isinstance(found, dict):
            raise InvalidArgument("message", message["text"][:80], "an object")
        return found

    def _note_shown(self, message: dict[str, Any]) -> None:
        shown = message.get("shown")
        if not isinstance(shown, int) or not self._shown <= shown <= self._sent:
            raise InvalidArgument("shown", shown, f"a number from {self._shown} to {self._sent}")
        self._shown = shown
        self._taken.set()


def _size(message: dict[str, Any]) -> Size | None:
    """Return the size that a message tells, None where it tells another thing. Raises InvalidArgument."""
    if "rows" not in message:
        return None
    rows, columns = message["rows"], message.get("columns")
    for name, value in (("rows", rows), ("columns", columns)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIZE:
            raise InvalidArgument(name, value, f"a number from 1 to {LARGEST_SIZE}")
    assert isinstance(rows, int) and isinstance(columns, int)
    return rows, columns
