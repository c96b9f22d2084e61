"""The shards in ZooKeeper.

    <root>/jobmanager/shards/table                       the table as JSON; the node's version is its version
    <root>/jobmanager/shards/sessions/<member>-<number>  ephemeral; a session: its owner's address
    …/<member>-<number>.leaving                          ephemeral; the session is about to end

Children are watched, contents are not: so renewals wake nobody. A session is renewed by a write to its node,
as the lease of a leader is. That a session is over is checked in the transaction that gives its shards to
another one: its node can be made, and is deleted again. The node is gone only when ZooKeeper's session is,
which is longer than the lease, or when its owner has ended it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from peloton.clock import SystemClock
from peloton.errors import AlreadyExists, Conflict, Fenced, NotFound, PelotonError, Refused, Unavailable
from peloton.membership.connection import Connection, Watch, add, check, drop, put
from peloton.membership.interface import Address, Member
from peloton.membership.kept_lease import PAUSE, KeptLease
from peloton.membership.leadership import RESIGN_SECONDS
from peloton.membership.lease import Lease, Standing
from peloton.membership.shard_registry import OwnerSession, SessionInfo, Shards
from peloton.membership.watching import follow
from peloton.sharding.table import ShardTable

ANY = -1
"""Whatever version a node has."""
LEAVING = ".leaving"
log = logging.getLogger(__name__)
_clock = SystemClock()


class ZooKeeperShards:
    """The registry of shards, as described in `shard_registry.ShardRegistry`."""

    def __init__(self, connection: Connection, root: str, session: float, patience: float) -> None:
        """Keep nodes below `root`; own with a lease of `session` seconds.

        A session is given up where the event loop is silent for `patience` seconds.
        """
        self._connection = connection
        self._table_path = f"{root}/table"
        self._sessions_path = f"{root}/sessions"
        self._session = session
        self._patience = patience
        self._table: tuple[ShardTable, int] | None = None
        self._sessions: Mapping[str, SessionInfo] = {}
        self._change = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._removals: set[asyncio.Task[None]] = set()
        """Of the nodes of sessions that are over."""

    async def start(self, count: int) -> None:
        """Begin to watch, unless that has begun; the first of all makes the table."""
        if self._tasks:
            return
        await self._connection.make(self._sessions_path)
        with suppress(AlreadyExists):
            await self._connection.create(self._table_path, ShardTable.unowned(count).to_json().encode())
        seen = [asyncio.Event(), asyncio.Event()]
        for read, event in zip((self._read_table, self._read_sessions), seen, strict=True):
            work = follow(read, event, self._connection)
            self._tasks.append(asyncio.create_task(work, name="shards"))
        for task in self._tasks:
            task.add_done_callback(lambda ended: self._notify())
        waiting = asyncio.create_task(_all(seen))
        await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._require_tasks()
        if (found := len(self.seen().table.shards)) != count:
            raise Refused(
                f"{self._table_path} has {found} shards, not {count}: the number is fixed when the first job "
                "manager starts"
            )

    async def begin(self, member: Member) -> OwnerSession:
        """Begin a session."""
        for name in await self._connection.children(self._sessions_path):
            if name.startswith(f"{member.id}-"):
                await self._connection.delete(f"{self._sessions_path}/{name}")
        address, stamp = member.address.to_json().encode(), _clock.monotonic()
        path = f"{self._sessions_path}/{member.id}-"
        own = await self._connection.create(path, address, ephemeral=True, sequence=True)
        lease = Lease(min(self._session, self._connection.granted), stamp)
        return _ZooKeeperSession(self._connection, own, address, lease, self._patience, self._removed)

    def seen(self) -> Shards:
        """Return the table and the sessions as last seen."""
        assert self._table is not None, "start() has not returned"
        return Shards(*self._table, self._sessions)

    async def changed(self) -> None:
        """Wait for the next change. Raises what made watching impossible."""
        self._require_tasks()
        await self._change.wait()
        self._require_tasks()

    async def replace(self, session: OwnerSession, table: ShardTable, version: int) -> None:
        """Replace the table of a version, by a transaction that checks all sessions concerned."""
        before, seen = self.seen().table, self.seen().version
        if seen != version:
            raise Conflict(f"the table of shards has version {seen}, not {version}")
        own = f"{self._sessions_path}/{session.name}"
        losing = [f"{self._sessions_path}/{name}" for name in before.dispossessed(table) - {session.name}]
        try:
            *_, stat = await self._connection.commit(
                check(own, ANY),
                *(step for path in losing for step in (add(path, b""), drop(path))),
                put(self._table_path, table.to_json().encode(), version),
            )
        except NotFound as error:
            raise Fenced(f"the session {session.name} is over: {error}") from None
        except Conflict:
            raise Conflict(f"the table of shards has another version than {version}") from None
        except AlreadyExists as error:
            raise Conflict(f"a session that is to lose shards lives: {error}") from None
        self._take(table, stat.version)

    async def close(self) -> None:
        """Stop to watch."""
        stopped = [*self._tasks, *self._removals]
        for task in stopped:
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        self._tasks.clear()

    async def _removed(self, path: str) -> None:
        """Delete the nodes of a session that is over. Where that takes long it goes on behind the caller."""
        removal = asyncio.create_task(self._remove(path), name="end of a session")
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        await asyncio.wait([removal], timeout=RESIGN_SECONDS)
        if not removal.done():
            log.info("the end of session %s cannot be sent to ZooKeeper yet", path.rpartition("/")[2])

    async def _remove(self, path: str) -> None:
        while True:
            try:
                await self._connection.delete(path)
                await self._connection.delete(path + LEAVING)
                return
            except Unavailable as error:
                log.debug("the end of session %s: %s", path, error)
            await asyncio.sleep(PAUSE)
            await self._connection.connected()

    async def _read_table(self, watch: Watch) -> None:
        node = await self._connection.get(self._table_path, watch)
        try:
            table = ShardTable.from_json(node.value.decode())
        except ValueError as error:
            raise Refused(f"{self._table_path}: {error}") from None
        self._take(table, node.version)

    def _take(self, table: ShardTable, version: int) -> None:
        """Take a table, unless a newer one is known."""
        if self._table is None or version > self._table[1]:
            self._table = table, version
            self._notify()

    async def _read_sessions(self, watch: Watch) -> None:
        names = await self._connection.children(self._sessions_path, watch)
        found = {}
        for name in names:
            if not name.endswith(LEAVING) and (address := await self._address(name)) is not None:
                found[name] = SessionInfo(address, name + LEAVING in names)
        if found != self._sessions:
            self._sessions = found
            self._notify()

    async def _address(self, name: str) -> Address | None:
        if name in self._sessions:
            return self._sessions[name].address
        with suppress(NotFound, ValueError):  # it has ended, or is none of ours
            node = await self._connection.get(f"{self._sessions_path}/{name}")
            return Address.from_json(node.value.decode())
        return None

    def _require_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


class _ZooKeeperSession:
    def __init__(
        self,
        connection: Connection,
        path: str,
        address: bytes,
        lease: Lease,
        patience: float,
        remove: Callable[[str], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._path = path
        self._remove = remove
        self._address = address
        self._lease = KeptLease(connection, lease, patience, f"session {self.name}", self._renew, self._drop)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def standing(self, now: float) -> Standing:
        return self._lease.standing(now)

    async def lost(self) -> None:
        await self._lease.lost()

    async def announce_end(self) -> None:
        with suppress(AlreadyExists):
            await self._connection.create(self._path + LEAVING, b"", ephemeral=True)

    async def end(self) -> None:
        await self._lease.leave()
        await self._remove(self._path)

    # In the thread of the lease.

    def _renew(self, timeout: float) -> bool:
        """Write to the node of the session, as described at `kept_lease.Renew`."""
        self._connection.commit_blocking(timeout, put(self._path, self._address, ANY))
        return True

    def _drop(self) -> None:
        try:
            self._connection.commit_blocking(RESIGN_SECONDS, drop(self._path))
        except PelotonError as error:
            log.warning("the end of session %s could not be sent to ZooKeeper: %s", self.name, error)


async def _all(events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()
