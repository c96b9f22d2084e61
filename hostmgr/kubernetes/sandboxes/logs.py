"""Logs of pods by offset: an API server sends a log from its beginning only, so what was sent is kept.

A copy is a file without a name. It is brought up to date when somebody begins to read, and grows with the log
while somebody reads at its end.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import IO

from peloton.errors import NotFound, Refused, Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.model.amounts import byte_size

MOST_BYTES = 128 * 1024 * 1024
"""Bytes of a log that are read. Kubelets begin a new file after 10 MiB, unless told otherwise."""
MOST_COPIES = 64
KEEP_SECONDS = 60.0
"""After how long a copy that nobody reads is given up."""
PIECE_BYTES = 64 * 1024
_GONE, _BAD_REQUEST = 404, 400
"""The latter is what a kubelet answers as long as a container has not started."""


class _Copy:
    """What is known of one log."""

    def __init__(self, client: ApiClient, path: str, container: str) -> None:
        self._client = client
        self._path = path
        self._container = container
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self.size = 0
        self.whole = False
        """Whether no more follows."""
        self.used = 0.0
        self._turn = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)

    async def refresh(self, over: bool) -> None:
        """Read what was added. `over`: the container has ended. Raises ApiError, Unavailable, Refused."""
        async with self._turn:
            if self.whole:
                return
            await self._stop_following()
            await self._take(follow=False)
            self.whole = over

    def follow(self) -> None:
        """Read from now on what is added, as it is."""
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        with suppress(ApiError, Unavailable, Refused):  # whoever reads next meets it
            await self._take(follow=True)

    async def _take(self, *, follow: bool) -> None:
        """Add what a log has beyond what is known of it."""
        skip = self.size
        stream = self._client.stream(
            self._path, follow=follow, container=self._container, limitBytes=MOST_BYTES + 1
        )
        async with aclosing(stream):
            async for piece in stream:
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                self._add(piece[skip:])
                skip = 0

    def _add(self, data: bytes) -> None:
        if self.size + len(data) > MOST_BYTES:
            raise Refused(f"the log is over {byte_size(MOST_BYTES)}: `kubectl logs --tail` shows its end")
        self._file.seek(self.size)
        self._file.write(data)
        self.size += len(data)

    async def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None

    def give_up(self) -> None:
        """Read no more; the file is there until the last reader has let go of it."""
        if self._following is not None:
            self._following.cancel()


class Logs:
    """The logs of a namespace's pods."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        container: str,
        over: Callable[[str], bool | None],
        now: Callable[[], float],
    ) -> None:
        """`over(pod)`: whether its container has ended; None where there is no such pod."""
        self._client = client
        self._namespace = namespace
        self._container = container
        self._over = over
        self._now = now
        self._copies: dict[str, _Copy] = {}

    def known(self, pod: str) -> bool:
        """Return whether there is a log, or a copy of one that is gone."""
        return self._over(pod) is not None or pod in self._copies

    async def size(self, pod: str) -> int:
        """Return the bytes of a log now. Raises NotFound, Refused, Unavailable."""
        copy = self._copy(pod)
        await self._refresh(pod, copy)
        return copy.size

    async def read(self, pod: str, offset: int, length: int) -> bytes:
        """Return bytes from `offset` on; empty at the end. Raises as `size`."""
        copy = self._copy(pod)
        if offset >= copy.size and not copy.whole:
            if offset == 0 or self._over(pod) is not False:
                await self._refresh(pod, copy)
            else:
                copy.follow()
        elif offset == 0:
            await self._refresh(pod, copy)
        return copy.read(offset, length)

    async def download(self, pod: str, size: int) -> AsyncGenerator[bytes]:
        """Yield the first `size` bytes of a log, which `size` has told."""
        copy, at = self._copy(pod), 0
        while at < size and (piece := copy.read(at, min(PIECE_BYTES, size - at))):
            at += len(piece)
            copy.used = self._now()
            yield piece

    async def _refresh(self, pod: str, copy: _Copy) -> None:
        over = self._over(pod)
        if over is None:  # what is there of it is all
            return
        try:
            await copy.refresh(over)
        except ApiError as error:
            if error.status == _GONE:
                raise NotFound(f"there is no log of {pod}: {error}") from None
            if error.status == _BAD_REQUEST and not over:
                return
            raise Refused(f"the log of {pod}: {error}") from None

    def _copy(self, pod: str) -> _Copy:
        self._give_up_old()
        copy = self._copies.pop(pod, None)
        if copy is None:
            if self._over(pod) is None:
                raise NotFound(f"there is no pod {pod} (any more), and its log has gone with it")
            path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
            copy = _Copy(self._client, path, self._container)
        copy.used = self._now()
        self._copies[pod] = copy
        return copy

    def _give_up_old(self) -> None:
        """Give copies up that were not read for long, and the oldest where there are too many."""
        now = self._now()
        for pod in list(self._copies):
            copy = self._copies[pod]
            if now - copy.used <= KEEP_SECONDS and len(self._copies) < MOST_COPIES:
                return
            del self._copies[pod]
            copy.give_up()

    def close(self) -> None:
        """Give all copies up."""
        while self._copies:
            self._copies.popitem()[1].give_up()
