"""Files of sandboxes, which commands list and read in their containers while these run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from hostmgr.kubernetes.sandboxes import shell
from hostmgr.kubernetes.sandboxes.sessions import Session, Wanted
from hostmgr.kubernetes.sandboxes.shell import NOT_READ, Entry
from peloton.errors import NotFound, Refused, Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.commands import running
from peloton.model.amounts import byte_size, duration
from peloton.model.plural import plural

MOST_READS = 50
"""Commands at a time that read files."""
READ_SECONDS = 8.0
"""Time-out of a listing and of a read, and of each piece of a download; jobmgr waits for 10 s."""
LONGEST_SIZE_DIGITS = 18
"""Digits of the size of a file: what runs in a container is in the hands of its task."""
LARGEST_OUTPUT_BYTES = 2 * 1024 * 1024
"""Bytes of a listing: 5,000 lines of 255 bytes and more."""
MOST_PODS = 1000
"""Pods of which it is kept what they mount."""
ENDED = "its container has ended, and its files with it: Kubernetes keeps the log alone"


class Files:
    """Files in the containers of a namespace's pods."""

    def __init__(
        self, client: ApiClient, namespace: str, container: str, over: Callable[[str], bool | None]
    ) -> None:
        """`over(pod)`: whether its container has ended; None where there is no such pod."""
        self._client = client
        self._namespace = namespace
        self._container = container
        self._over = over
        self._reads = 0
        self._mounts: dict[str, list[str]] = {}

    async def browse(self, pod: str, path: str) -> list[Entry]:
        """Return what a folder of the sandbox holds.

        Raises NotFound, NoFile where the path is no folder, Refused with the reason why nothing can be shown,
        Unavailable.
        """
        command = shell.list_command(path, await self._mounts_of(pod))
        output = bytearray()
        async with _in_time(), aclosing(self._output(pod, path, command)) as pieces:
            async for piece in pieces:
                output += piece
                if len(output) > LARGEST_OUTPUT_BYTES:
                    raise Refused(f"the listing of {path!r} is over {byte_size(LARGEST_OUTPUT_BYTES)}")
        return list(shell.entries(bytes(output)))

    async def size(self, pod: str, path: str) -> int:
        """Return the bytes of a file now. Raises as `browse`."""
        async with _in_time(), self._opened(pod, path, 0, 0) as (size, _):
            return size

    async def read(self, pod: str, path: str, offset: int, length: int) -> bytes:
        """Return bytes from `offset` on, at most `length`; empty at the end. Raises as `browse`."""
        first, count, cut = shell.blocks(offset, length)
        data = bytearray()
        async with _in_time(), self._opened(pod, path, first, count) as (_, pieces):
            async for piece in pieces:
                data += piece
                if len(data) >= cut + length:
                    break
        return bytes(data[cut : cut + length])

    async def download(self, pod: str, path: str) -> AsyncGenerator[bytes]:
        """Yield a file, as long as it is now. Raises as `browse`."""
        async with self._opened(pod, path, 0, -1) as (size, pieces):
            async for piece in pieces:
                yield piece[:size]
                size -= len(piece)
                if size <= 0:
                    return

    @asynccontextmanager
    async def _opened(
        self, pod: str, path: str, first: int, count: int
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """Give the size of a file, and pieces of its blocks."""
        command = shell.read_command(path, await self._mounts_of(pod), first, count)
        async with aclosing(self._output(pod, path, command)) as pieces:
            head = b""
            async for piece in pieces:
                head += piece
                if b"\n" in head or len(head) > LONGEST_SIZE_DIGITS:
                    break
            number, _, begin = head.partition(b"\n")
            if not number.isdigit() or len(number) > LONGEST_SIZE_DIGITS:
                raise Unavailable(f"the size of {path!r} is told in an unknown form")
            yield int(number), _joined(begin, pieces)

    async def _output(self, pod: str, path: str, command: Sequence[str]) -> AsyncGenerator[bytes]:
        """Yield what a command writes. Raises what `refusal` says where it fails."""
        if self._reads >= MOST_READS:
            raise Unavailable(f"{plural(MOST_READS, 'file')} are read already")
        self._reads += 1
        session = Session(Wanted(command))
        session.begin(
            running(self._client, self._namespace, pod, self._container, command, terminal=False),
            self._on_end,
        )
        try:
            async with _in_time():
                await session.opened.wait()
            if session.refusal is not None:
                raise session.refusal
            errors = _Errors()
            while True:
                async with _in_time():
                    piece = await errors.skipped(session)
                if piece is None:
                    break
                yield piece
            if session.exit_code or session.failure:
                raise shell.refusal(path, session.exit_code, session.failure, errors.last)
        except ApiError as refused:
            raise Refused(f"{NOT_READ}: {refused}") from None
        finally:
            session.end()

    def _on_end(self) -> None:
        self._reads -= 1

    async def _mounts_of(self, pod: str) -> list[str]:
        """Return what a pod mounts into its sandbox, while its container has not ended."""
        over = self._over(pod)
        if over is None:
            raise NotFound(f"there is no pod {pod} (any more), and its files have gone with it")
        if over:
            raise Refused(ENDED)
        if pod not in self._mounts:
            path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
            try:
                found = await self._client.call("GET", path)
            except ApiError as error:
                raise Refused(f"{NOT_READ}: {error}") from None
            while len(self._mounts) >= MOST_PODS:
                del self._mounts[next(iter(self._mounts))]
            self._mounts[pod] = shell.mounts_of(found, self._container)
        return self._mounts[pod]


class _Errors:
    """What a command writes to its standard error: the last piece of it is kept."""

    def __init__(self) -> None:
        self.last = b""

    async def skipped(self, session: Session) -> bytes | None:
        """Return the next piece of standard output; None at its end."""
        while (piece := await session.pieces.get()) is not None and piece[0] != "STDOUT":
            self.last = piece[1]
        return None if piece is None else piece[1]


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(READ_SECONDS):
            yield
    except TimeoutError:
        raise Unavailable(f"the kubelet does not answer within {duration(READ_SECONDS)}") from None


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece
