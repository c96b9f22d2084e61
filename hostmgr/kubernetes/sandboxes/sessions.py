"""Commands beside pods, in the form of Mesos' nested container sessions.

Three calls make a session: one launches it and is answered by its output, one carries its input, and one
waits for its exit status.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from peloton.errors import AlreadyExists, NotFound, PelotonError, Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.commands import RemoteCommand, running

MOST_SESSIONS = 200
"""Sessions at a time."""
MOST_ENDED = 1000
"""Ended sessions whose exit status is kept."""
MOST_PIECES = 16
"""Pieces of output that wait for a slow reader."""
LONGEST_ID = 255
Opening = AbstractAsyncContextManager[RemoteCommand]
Key = tuple[str, str]
"""The pod, and the session's own id."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be run; `size` is that of its terminal, in rows and columns, None: it has none."""

    command: Sequence[str]
    size: tuple[int, int] | None = None


@dataclass(slots=True)
class Session:
    """One command."""

    wanted: Wanted
    pieces: asyncio.Queue[tuple[str, bytes] | None] = field(
        default_factory=lambda: asyncio.Queue(MOST_PIECES)
    )
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    command: RemoteCommand | None = None
    refusal: PelotonError | None = None
    exit_code: int | None = None
    failure: str = ""
    """Why it was not run to its end."""
    work: asyncio.Task[None] | None = None

    def begin(self, opening: Opening, ended: Callable[[], None]) -> None:
        """Run it in a task of its own; call `ended` at the end."""
        self.work = asyncio.get_running_loop().create_task(self._run(opening))
        self.work.add_done_callback(lambda _: ended())

    async def _run(self, opening: Opening) -> None:
        size = self.wanted.size
        try:
            async with opening as self.command:
                if size is not None:
                    await self.command.resize(*size)
                self.opened.set()
                async for piece in self.command.output():
                    await self.pieces.put(piece)
                self.exit_code = self.command.exit_code
                self.failure = self.command.failure
        except (ApiError, Unavailable) as error:
            if self.opened.is_set():
                self.failure = str(error)
            else:
                self.refusal = error
        except asyncio.CancelledError:
            while not self.pieces.empty():
                self.pieces.get_nowait()
            self.pieces.put_nowait(None)
            raise
        finally:
            self.ended.set()
            self.opened.set()
        await self.pieces.put(None)

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield its output until it ends. It ends when nobody reads any more."""
        try:
            while (piece := await self.pieces.get()) is not None:
                yield piece
            if self.failure:
                yield "STDERR", f"{self.failure}\n".encode()
        finally:
            self.end()

    def end(self) -> None:
        """End the command, if it runs."""
        if self.work is not None:
            self.work.cancel()

    async def feed(self, data: bytes) -> None:
        """Pass on a piece of input; nothing is its end. Raises Unavailable where it has ended."""
        await self.opened.wait()
        if self.command is None or self.ended.is_set():
            raise Unavailable("the command has ended")
        if data:
            await self.command.feed(data)
        else:
            await self.command.close_input()

    async def resize(self, rows: int, columns: int) -> None:
        """Tell of another size of the terminal."""
        await self.opened.wait()
        if self.command is not None and not self.ended.is_set():
            await self.command.resize(rows, columns)


class Sessions:
    """All sessions of a namespace's pods."""

    def __init__(
        self, client: ApiClient, namespace: str, container: str, runs: Callable[[str], bool]
    ) -> None:
        """`runs(pod)`: whether its container runs."""
        self._client = client
        self._namespace = namespace
        self._container = container
        self._runs = runs
        self._sessions: dict[Key, Session] = {}
        self._live = 0

    def get(self, pod: str, name: str) -> Session:
        """Return a session that runs, or has ended lately. Raises NotFound."""
        found = self._sessions.get((pod, name))
        if found is None:
            raise NotFound(f"Container {pod}.{name} cannot be found")
        return found

    async def launch(self, pod: str, name: str, wanted: Wanted) -> Session:
        """Start a session.

        Raises NotFound where the container does not run, AlreadyExists, Unavailable, and what the API
        server says.
        """
        if not self._runs(pod):
            raise NotFound(f"Container {pod} cannot be found")
        if (pod, name) in self._sessions:
            raise AlreadyExists(f"Container {pod}.{name} is there already")
        if self._live >= MOST_SESSIONS:
            raise Unavailable(f"{MOST_SESSIONS} commands run already")
        session = self._sessions[pod, name] = Session(wanted)
        self._live += 1
        opening = running(
            self._client,
            self._namespace,
            pod,
            self._container,
            wanted.command,
            terminal=wanted.size is not None,
        )
        session.begin(opening, self._on_end)
        await session.opened.wait()
        if session.refusal is not None:
            del self._sessions[pod, name]
            raise session.refusal
        return session

    def _on_end(self) -> None:
        self._live -= 1
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        over = [key for key, session in self._sessions.items() if session.ended.is_set()]
        for key in over[: max(0, len(over) - MOST_ENDED)]:
            del self._sessions[key]

    def close(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            session.end()
