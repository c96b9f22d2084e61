"""A way to a server of which some connections die without a word."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType


class BlackHole:
    """Listens on a free loopback port and connects each caller to the target's."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._passing: list[asyncio.Event] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def swallow(self) -> None:
        """Of the present connections nothing passes any more, either way, and neither side is told."""
        for each in self._passing:
            each.clear()
        self._passing.clear()

    async def __aenter__(self) -> BlackHole:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", self._target)
        passes = asyncio.Event()
        passes.set()
        self._passing.append(passes)
        for source, sink in ((reader, to), (there, writer)):
            task = asyncio.create_task(_pump(source, sink, passes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: asyncio.Event) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            await passes.wait()
            sink.write(data)
            await sink.drain()
    sink.close()
