"""Requests to Cassandra from one event loop: bounded in number, repeated where that is safe.

The driver answers on threads of its own; answers enter the loop here and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from cassandra import ConsistencyLevel
from cassandra.cluster import ResponseFuture
from cassandra.query import BoundStatement

from peloton.backoff import Backoff
from peloton.clock import SystemClock
from peloton.errors import Unavailable
from peloton.model.amounts import duration
from storage.cassandra.batch_encoder import BatchEncoder, Bound
from storage.cassandra.connection import Connection
from storage.cassandra.errors import DRIVER_ERRORS, overloaded, translated
from storage.config import CassandraSettings
from storage.interface import Fence, unfenced

T = TypeVar("T")
_clock = SystemClock()
Row = tuple[Any, ...]
_FIRST_PAUSE = 0.1
"""Seconds before the second try; doubled with each further one."""
_LATE = 5.0
"""Seconds after the driver's own time-out for a request."""
_FULL_PAUSE = 0.02
"""Seconds between checks of connections that are full."""


class Session:
    """Send requests. Belongs to the event loop that created it."""

    def __init__(self, connection: Connection, settings: CassandraSettings) -> None:
        self._connection = connection
        self._batches = BatchEncoder(connection.prepared)
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(settings.max_in_flight)
        self._attempts = settings.attempts
        self._longest = settings.request_timeout
        self._send_lock = asyncio.Lock()
        self._serial = ConsistencyLevel.name_to_value[settings.serial_consistency]
        self._last_stamp = 0
        self.fence: Fence = unfenced
        """Called before each try of each write."""
        self._users = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def timestamp(self) -> int:
        """Return microseconds since 1970, later than any timestamp returned before."""
        self._last_stamp = max(_clock.wall() // 1000, self._last_stamp + 1)
        return self._last_stamp

    def advance_beyond(self, stamp: int) -> None:
        """Keep all later timestamps above this one."""
        self._last_stamp = max(self._last_stamp, stamp)

    def ahead(self, by: int, least: int) -> int:
        """Return a timestamp `by` microseconds from now and at least `least` after the last one."""
        return max(_clock.wall() // 1000 + by, self._last_stamp + least)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        """Wrap a call of the port, for which `close` waits. Raises Unavailable once closed."""
        if self._closed:
            raise Unavailable("the store is closed")
        self._users += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._users -= 1
            assert self._users >= 0, "a call has ended twice"
            if not self._users:
                self._idle.set()

    async def close(self) -> None:
        """Refuse further calls, and finish accepted ones."""
        self._closed = True
        await self._idle.wait()

    async def rows(self, name: str, *values: object) -> list[Row]:
        """Return the rows of all pages of an answer."""
        return [row async for page in self.pages(name, *values) for row in page]

    async def pages(self, name: str, *values: object, size: int = 5000) -> AsyncIterator[list[Row]]:
        """Yield the pages of an answer, of at most `size` rows, fetching each when it is needed."""
        statement = self._bound(name, values)
        statement.fetch_size = size
        state: bytes | None = None
        while True:
            page, state = await self._repeated(statement, state)
            yield page
            if state is None:
                return

    async def row(self, name: str, *values: object, serial: bool = False) -> Row | None:
        """Return the row of an answer, if any. `serial`: read after all conditional writes begun before."""
        statement = self._bound(name, values)
        if serial:
            statement.consistency_level = self._serial
        page, _ = await self._repeated(statement, None)
        return page[0] if page else None

    async def write(self, name: str, *values: object) -> None:
        """Execute a plain write."""
        await self._repeated(self._bound(name, values), None, self.fence)

    async def write_together(self, parts: Iterable[Bound]) -> None:
        """Execute statements of one partition as one mutation."""
        await self._repeated(self._batches.batch(parts), None, self.fence)

    async def decide(self, parts: Sequence[Bound]) -> bool:
        """Execute conditional statements of one partition; return whether the conditions held.

        Never repeated here. Raises Unavailable where the outcome is unknown.
        """
        assert parts, "nothing to decide"
        statement = self._bound(*parts[0]) if len(parts) == 1 else self._batches.batch(parts)
        statement.is_idempotent = False
        page, _ = await self._once(statement, None, self.fence)
        return bool(page[0][0])

    def _bound(self, name: str, values: Sequence[object]) -> BoundStatement:
        return self._connection.prepared[name].bind(values)

    async def _repeated(
        self, statement: Any, state: bytes | None, fence: Fence = unfenced
    ) -> tuple[list[Row], bytes | None]:
        backoff = Backoff(_FIRST_PAUSE)
        for _ in range(self._attempts - 1):
            try:
                return await self._once(statement, state, fence)
            except Unavailable:
                await backoff.wait()
        return await self._once(statement, state, fence)

    async def _once(
        self, statement: Any, state: bytes | None, fence: Fence
    ) -> tuple[list[Row], bytes | None]:
        async with self._room:
            sent = await self._sent(statement, state, fence)
            answer: asyncio.Future[tuple[list[Row], bytes | None]] = self._loop.create_future()
            sent.add_callbacks(
                self._answered, self._failed, callback_args=(sent, answer), errback_args=(answer,)
            )
            return await self._in_time(answer)

    async def _in_time(
        self, answer: asyncio.Future[tuple[list[Row], bytes | None]]
    ) -> tuple[list[Row], bytes | None]:
        """Wait for an answer. The driver ends a request by the time of day, which may be set back."""
        try:
            async with asyncio.timeout(self._longest + _LATE):
                return await answer
        except TimeoutError:
            raise Unavailable(f"the store has not answered for {duration(self._longest + _LATE)}") from None

    async def _sent(self, statement: Any, state: bytes | None, fence: Fence) -> ResponseFuture:
        """Send a request, waiting while connections hold as much as they can, as with a slow server.

        The driver fails such a request at once and does not send it.
        """
        until = self._loop.time() + self._longest
        while True:
            async with self._send_lock:
                fence()
                try:
                    sent = self._connection.session.execute_async(statement, paging_state=state)
                except DRIVER_ERRORS as error:
                    raise translated(error) from error
                # The driver has no public method for this.
                if self._loop.time() > until or not overloaded(sent._final_exception):
                    return sent
                await asyncio.sleep(_FULL_PAUSE)

    def _answered(self, rows: list[Row] | None, sent: ResponseFuture, answer: asyncio.Future[Any]) -> None:
        # The driver has no public name for the place where the next page begins, but for its blocking result.
        state = sent._paging_state
        self._enter(lambda: _set_result(answer, (rows or [], state)))

    def _failed(self, error: BaseException, answer: asyncio.Future[Any]) -> None:
        failure = translated(error)
        failure.__cause__ = error
        self._enter(lambda: _set_exception(answer, failure))

    def _enter(self, callback: Callable[[], None]) -> None:
        """Call a function on the event loop from a thread of the driver, unless the loop has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)


def _set_result(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _set_exception(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
