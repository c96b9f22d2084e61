"""The registry of several masters: a ZooKeeper node."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import NoReturn

from minicluster.mesos.master.registry import RegistryError
from peloton.clock import SystemClock
from peloton.errors import Conflict, NotFound, PelotonError
from peloton.membership.connection import Connection, check, put
from peloton.membership.kept_lease import RENEWALS
from peloton.membership.lease import Lease
from peloton.mesos.detector import RetryLog

RETRY_SECONDS = 0.2


class NodeRegistry:
    """The registry in a ZooKeeper node, which only the newest of its readers can write to.

    ``write`` is heard at once and carried out by ``run``: what was changed in the last moments of a master
    that was killed may be missing, and such an agent comes back to the next as one that was not known.

    Whoever reads takes it over, and each of its writes proves that nobody has since. With nothing to write
    that is asked for by itself, some times in a session's length: see ``holds``.
    """

    def __init__(self, connection: Connection, path: str, session: float) -> None:
        """``session``.

        Seconds after which a ZooKeeper without a sign of this one lets another master lead.
        """
        self._connection = connection
        self._path = path
        self._session = session
        self._clock = SystemClock()
        self._lease: Lease | None = None
        self._version = 0
        self._saved = b""
        self._content = b""
        self._wanted = asyncio.Event()
        self._retries = RetryLog(f"writing the registry {path}")

    @property
    def until(self) -> float:
        """When ``holds`` ends unless it is proven anew, on the monotonic clock."""
        return self._lease.until if self._lease is not None else -math.inf

    def holds(self) -> bool:
        """Return whether no other master can lead yet: only then may anything be admitted or decided."""
        return self._clock.monotonic() < self.until

    async def read(self) -> bytes:
        """Return what was written last, nothing where nothing was.

        Raise PelotonError where ZooKeeper cannot tell.
        """
        await self._connection.make(self._path)
        node = await self._connection.get(self._path)
        lease = Lease(self._session, self._clock.monotonic())
        # Whoever read before and still believes to lead is shut out by the new version.
        await self._connection.commit(put(self._path, node.value, node.version))
        self._version, self._lease = node.version + 1, lease
        self._content = self._saved = node.value
        return node.value

    def write(self, registry: bytes) -> None:
        """Have this written; what is not yet, when the next comes, is passed over."""
        self._content = registry
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Write what is to be written, for ever.

        Raise RegistryError when another master has taken the registry over.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session / RENEWALS):
                    await self._wanted.wait()
            self._wanted.clear()
            content = self._content
            while not await self._written(content):
                await asyncio.sleep(RETRY_SECONDS)
                await self._connection.connected()
            self._retries.succeeded()

    async def _written(self, content: bytes) -> bool:
        """Return whether it is written now.

        False where ZooKeeper did not answer, and the next try will tell.
        """
        begun = self._clock.monotonic()
        try:
            if content == self._saved:
                await self._still_held()
            else:
                await self._connection.commit(put(self._path, content, self._version))
                self._version += 1
        except (Conflict, NotFound):
            return await self._was_written(content)
        except PelotonError as error:
            self._retries.failed(error)
            return False
        self._saved = content
        if self._lease is not None:
            self._lease.renew(begun, self._clock.monotonic())
        return True

    async def _still_held(self) -> None:
        """By a transaction: a read might be answered by a server that is cut off from the others."""
        try:
            await self._connection.commit(check(self._path, self._version))
        except (Conflict, NotFound):
            raise self._taken_over() from None

    async def _was_written(self, content: bytes) -> bool:
        """Return whether the version is another one only because an unanswered write of ours took effect.

        Taking it over leaves what was written before, which is not ``content``.
        """
        try:
            node = await self._connection.get(self._path)
        except PelotonError as error:
            self._retries.failed(error)
            return False
        if node.value != content or node.version != self._version + 1:
            raise self._taken_over()
        self._version, self._saved = node.version, content
        return True

    def _taken_over(self) -> RegistryError:
        return RegistryError(f"another master has taken the registry {self._path} over")
