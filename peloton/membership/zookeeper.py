"""Membership in ZooKeeper, with the nodes by which clients find leaders (docs/behaviour/system.md).

    <root>/<role>/leader          ephemeral; the leader's address as JSON
    <root>/<role>/members/ID      ephemeral; a process's address

The election's own nodes are in `election`. The last known state is kept while the servers cannot be
reached: a process is not gone because ZooKeeper is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from peloton.config.settings import ZooKeeperMembershipSettings
from peloton.errors import AlreadyExists, NotFound, PelotonError, Unavailable
from peloton.membership.connection import Connection, Credentials, Watch
from peloton.membership.election import PAUSE, Election, Paths
from peloton.membership.interface import Address, Leadership, Member, Role

log = logging.getLogger(__name__)


def open_membership(settings: ZooKeeperMembershipSettings) -> ZooKeeperMembership:
    """Open the adapter. Raises ConfigError for unreadable credentials and invalid addresses."""
    credentials = Credentials.read(settings.credentials_file) if settings.credentials_file else None
    # kazoo's chroot cannot create its own root node.
    hosts, slash, below = settings.servers.partition("/")
    connection = Connection(hosts, settings.session_seconds, credentials)
    root = f"{slash}{below}".rstrip("/") + settings.root
    return ZooKeeperMembership(connection, root, settings.session_seconds)


class ZooKeeperMembership:
    """Membership as described in `interface.Membership`."""

    def __init__(self, connection: Connection, root: str = "/peloton", session: float = 5.0) -> None:
        self._connection = connection
        self._paths = {role: Paths(f"{root}/{role.election}") for role in Role}
        self._session = session
        self._leaders: dict[Role, Address] = {}
        self._members: dict[Role, dict[str, Member]] = {role: {} for role in Role}
        self._own: list[Member] = []
        self._change = asyncio.Event()
        self._register_again = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Wait for the servers, and log that. Raises Refused where they reject us."""
        await self._connection.open()
        for paths in self._paths.values():
            await self._ensure(paths.contenders)
            await self._ensure(paths.members)
        await self._warn_of_unprotected()
        seen: list[asyncio.Event] = []
        for role in Role:
            for read in (self._read_leader, self._read_members):
                seen.append(asyncio.Event())
                self._tasks.append(asyncio.create_task(_follow(read, role, seen[-1], self._connection)))
        self._connection.on_state.append(self._on_state)
        self._tasks.append(asyncio.create_task(self._stay_registered(), name="membership"))
        for task in self._tasks:
            task.add_done_callback(lambda ended: self._notify())
        await asyncio.wait(
            [asyncio.create_task(_all(seen)), *self._tasks], return_when=asyncio.FIRST_COMPLETED
        )
        self._require_tasks()

    async def join(self, member: Member) -> None:
        """Register a member until its process ends or leaves."""
        self._own.append(member)
        await self._register(member)

    async def campaign(self, member: Member) -> Leadership:
        """Wait until elected."""
        election = Election(self._connection, self._paths[member.role], member, self._session)
        return await election.win()

    def leader(self, role: Role) -> Address | None:
        """Return the leader of a role, as last seen."""
        return self._leaders.get(role)

    def members(self, role: Role) -> Mapping[str, Member]:
        """Return the members of a role by id, as last seen."""
        return self._members[role]

    async def changed(self) -> None:
        """Wait for the next change. Raises what made watching impossible."""
        self._require_tasks()
        await self._change.wait()
        self._require_tasks()

    def trouble(self) -> str:
        """Return why the servers cannot be reached, empty where they can."""
        return self._connection.trouble()

    async def close(self) -> None:
        """Leave the registry."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._connection.close()

    async def _ensure(self, path: str) -> None:
        """Create a persistent node, trying again while the connection is broken."""
        while True:
            try:
                await self._connection.make(path)
                return
            except Unavailable as error:
                log.warning("%s, trying again", error)
                await self._connection.connected()

    async def _warn_of_unprotected(self) -> None:
        """Warn of nodes that anybody may change: a node keeps the ACL with which it was created."""
        paths = [path for paths in self._paths.values() for path in paths.persistent]
        with suppress(PelotonError):  # only a warning
            if unprotected := [path for path in paths if await self._connection.is_unprotected(path)]:
                log.warning(
                    "ZooKeeper: %s and %d more may be changed by anybody: they were made without "
                    "membership.credentials_file; set their ACLs, or remove them while no daemon runs",
                    unprotected[0],
                    len(unprotected) - 1,
                )

    async def _read_leader(self, role: Role, watch: Watch) -> None:
        path, found = self._paths[role].leader, None
        try:
            value = (await self._connection.get(path, watch)).value
            found = _address(value)
            if found is None:
                log.warning("%s is no address of a leader: %.200r", path, value)
        except NotFound:
            if await self._connection.exists(path, watch):
                watch()  # created between the two calls
        if found != self._leaders.get(role):
            self._leaders = {**self._leaders, role: found} if found else _without(self._leaders, role)
            self._notify()

    async def _read_members(self, role: Role, watch: Watch) -> None:
        held, found = self._members[role], dict[str, Member]()
        for name in await self._member_names(role, watch):
            member = held.get(name) or await self._member(role, name)
            if member is not None:
                found[name] = member
        if found != held:
            self._members[role] = found
            self._notify()
        if any(own.id not in found for own in self._own if own.role is role):
            self._register_again.set()

    async def _member_names(self, role: Role, watch: Watch) -> list[str]:
        while True:
            try:
                return await self._connection.children(self._paths[role].members, watch)
            except NotFound:  # deleted by hand
                await self._connection.make(self._paths[role].members)

    async def _member(self, role: Role, name: str) -> Member | None:
        with suppress(NotFound):
            node = await self._connection.get(f"{self._paths[role].members}/{name}")
            address = _address(node.value)
            return Member(role, name, address) if address else None
        return None

    async def _stay_registered(self) -> None:
        """Keep the member registered: a new session has no nodes, and any may be deleted by hand."""
        while True:
            await self._register_again.wait()
            self._register_again.clear()
            for member in self._own:
                await self._register(member)

    async def _register(self, member: Member) -> None:
        path = f"{self._paths[member.role].members}/{member.id}"
        while True:
            try:
                await self._create_own(path, member)
                return
            except Unavailable:
                await asyncio.sleep(PAUSE)
                await self._connection.connected()

    async def _create_own(self, path: str, member: Member) -> None:
        """Create the member's node, replacing one that an earlier session left."""
        while True:
            try:
                await self._connection.create(path, member.address.to_json().encode(), ephemeral=True)
                return
            except NotFound:  # deleted by hand
                await self._connection.make(self._paths[member.role].members)
            except AlreadyExists:
                if await self._is_own(path):
                    return
                await self._connection.delete(path)

    async def _is_own(self, path: str) -> bool:
        with suppress(NotFound):
            return (await self._connection.get(path)).owner == self._connection.session
        return False

    def _on_state(self, state: str) -> None:
        if state == "CONNECTED":
            self._register_again.set()

    def _require_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


async def _follow(
    read: Callable[[Role, Watch], Awaitable[None]], role: Role, seen: asyncio.Event, connection: Connection
) -> None:
    """Call a function now, and again after each change."""
    while True:
        touched = asyncio.Event()
        try:
            await read(role, touched.set)
        except Unavailable:
            await asyncio.sleep(PAUSE)
            await connection.connected()
            continue
        seen.set()
        await touched.wait()


async def _all(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _address(value: bytes) -> Address | None:
    with suppress(ValueError):
        return Address.from_json(value.decode())
    return None


def _without(leaders: dict[Role, Address], role: Role) -> dict[Role, Address]:
    return {other: address for other, address in leaders.items() if other is not role}
