"""A TCP proxy that injects faults. Its event loop has a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

READ = 64 * 1024
T = TypeVar("T")


class Filter(Protocol):
    """Of what one server sends on one connection."""

    def feed(self, data: bytes) -> bytes:
        """What to pass on now, for what came."""
        ...


class Pass:
    def feed(self, data: bytes) -> bytes:
        return data


class Proxy:
    """Listens on a free loopback port from `start` to `close`, and connects each caller to the target.

    The attributes may be changed at any time, by any thread.
    """

    def __init__(self, host: str, port: int, make: Callable[[], Filter] = Pass) -> None:
        self.target = (host, port)
        self.delay = 0.0
        """Seconds by which everything is late, in each direction."""
        self.down = False
        """Refuse connections."""
        self.make = make
        """Makes the filter of a new connection's answers."""
        self.port = 0
        self.silenced = 0
        """Connections cut after a request whose answer was kept back."""
        self._cut_after: int | None = None
        self._silence = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._do(self._listen())

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """Break every connection, now."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def cut_within_answer(self, after: int) -> None:
        """Pass `after` further bytes of answers, of the next that is longer than that, and break there."""
        self._cut_after = after

    def silence(self) -> None:
        """From the next answer on pass none, and break those connections: what was asked is done, and
        nobody knows."""
        self._silence = True

    def speak(self) -> None:
        self._silence = False

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        self._abort_all()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _abort_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        try:
            there, to = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to}
        try:
            await asyncio.gather(
                self._pump(reader, to, Pass(), answers=False),
                self._pump(there, writer, self.make(), answers=True),
            )
        finally:
            for each in (writer, to):
                each.transport.abort()
                self._writers.discard(each)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, through: Filter, *, answers: bool
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await reader.read(READ):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if answers and self._silence:
                    self.silenced += 1
                    break
                after = self._cut_after
                if answers and after is not None and len(data) > after:
                    self._cut_after = None
                    writer.write(data[:after])
                    await writer.drain()
                    break
                writer.write(through.feed(data))
                await writer.drain()
        self._close(writer, abort=answers)

    def _close(self, writer: asyncio.StreamWriter, *, abort: bool) -> None:
        """The end of one direction; a caller whose answers end is gone altogether."""
        with suppress(OSError, RuntimeError):
            if abort or not writer.can_write_eof():
                writer.close()
            else:
                writer.write_eof()
