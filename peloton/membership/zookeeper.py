"""Membership in ZooKeeper, with the nodes by which clients find leaders (docs/behaviour/system.md).

    <root>/<role>/leader          ephemeral; the leader's address as JSON
    <root>/<role>/members/ID      ephemeral; a process's address

The election's own nodes are in `election`. What was last seen stays while the servers cannot be heard: a
process is not gone because ZooKeeper is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from peloton.config.settings import ZooKeeperMembershipSettings
from peloton.errors import AlreadyExists, NotFound, PelotonError, Unavailable
from peloton.membership.connection import Connection, Credentials, Watch
from peloton.membership.election import PAUSE, Election, Places
from peloton.membership.interface import Address, Leadership, Member, Role

log = logging.getLogger(__name__)


def open_membership(settings: ZooKeeperMembershipSettings) -> ZooKeeperMembership:
    """Open the adapter. Raises ConfigError for unreadable credentials and invalid addresses."""
    credentials = Credentials.read(settings.credentials_file) if settings.credentials_file else None
    # kazoo's own way to lie below a node cannot make that node.
    hosts, slash, below = settings.servers.partition("/")
    connection = Connection(hosts, settings.session_seconds, credentials)
    root = f"{slash}{below}".rstrip("/") + settings.root
    return ZooKeeperMembership(connection, root, settings.session_seconds)


class ZooKeeperMembership:
    """Membership as described in `interface.Membership`."""

    def __init__(self, connection: Connection, root: str = "/peloton", session: float = 5.0) -> None:
        self._connection = connection
        self._places = {role: Places(f"{root}/{role.election}") for role in Role}
        self._session = session
        self._leaders: dict[Role, Address] = {}
        self._members: dict[Role, dict[str, Member]] = {role: {} for role in Role}
        self._own: list[Member] = []
        self._change = asyncio.Event()
        self._listing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Wait for the servers, and log that. Raises Refused where they reject us."""
        await self._connection.open()
        for places in self._places.values():
            await self._made(places.contenders)
            await self._made(places.members)
        await self._look_at_guards()
        seen: list[asyncio.Event] = []
        for role in Role:
            for look in (self._look_for_leader, self._look_for_members):
                seen.append(asyncio.Event())
                self._tasks.append(asyncio.create_task(_follow(look, role, seen[-1], self._connection)))
        self._connection.on_state.append(self._on_state)
        self._tasks.append(asyncio.create_task(self._stay_listed(), name="membership"))
        for task in self._tasks:
            task.add_done_callback(lambda ended: self._tell())
        await asyncio.wait(
            [asyncio.create_task(_all(seen)), *self._tasks], return_when=asyncio.FIRST_COMPLETED
        )
        self._require_tasks()

    async def join(self, member: Member) -> None:
        """Register a member until its process ends or leaves."""
        self._own.append(member)
        await self._list(member)

    async def campaign(self, member: Member) -> Leadership:
        """Wait until elected."""
        election = Election(self._connection, self._places[member.role], member, self._session)
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

    async def _made(self, path: str) -> None:
        """Make a lasting node, however often the connection breaks meanwhile."""
        while True:
            try:
                await self._connection.make(path)
                return
            except Unavailable as error:
                log.warning("%s, trying again", error)
                await self._connection.connected()

    async def _look_at_guards(self) -> None:
        """Warn of nodes that anybody may change: a node keeps the ACL with which it was made."""
        paths = [path for places in self._places.values() for path in places.lasting]
        with suppress(PelotonError):  # it is only to be told
            if unguarded := [path for path in paths if await self._connection.unguarded(path)]:
                log.warning(
                    "ZooKeeper: %s and %d more may be changed by anybody: they were made without "
                    "membership.credentials_file; set their ACLs, or remove them while no daemon runs",
                    unguarded[0],
                    len(unguarded) - 1,
                )

    async def _look_for_leader(self, role: Role, watch: Watch) -> None:
        path, found = self._places[role].leader, None
        try:
            value = (await self._connection.get(path, watch)).value
            found = _address(value)
            if found is None:
                log.warning("%s is no address of a leader: %.200r", path, value)
        except NotFound:
            if await self._connection.exists(path, watch):
                watch()  # it came between the two
        if found != self._leaders.get(role):
            self._leaders = {**self._leaders, role: found} if found else _without(self._leaders, role)
            self._tell()

    async def _look_for_members(self, role: Role, watch: Watch) -> None:
        held, found = self._members[role], dict[str, Member]()
        for name in await self._member_names(role, watch):
            member = held.get(name) or await self._member(role, name)
            if member is not None:
                found[name] = member
        if found != held:
            self._members[role] = found
            self._tell()
        if any(own.id not in found for own in self._own if own.role is role):
            self._listing.set()

    async def _member_names(self, role: Role, watch: Watch) -> list[str]:
        while True:
            try:
                return await self._connection.children(self._places[role].members, watch)
            except NotFound:  # somebody cleared it away
                await self._connection.make(self._places[role].members)

    async def _member(self, role: Role, name: str) -> Member | None:
        with suppress(NotFound):
            node = await self._connection.get(f"{self._places[role].members}/{name}")
            address = _address(node.value)
            return Member(role, name, address) if address else None
        return None

    async def _stay_listed(self) -> None:
        """Keep the member registered: a new session has no nodes, and any may be deleted by hand."""
        while True:
            await self._listing.wait()
            self._listing.clear()
            for member in self._own:
                await self._list(member)

    async def _list(self, member: Member) -> None:
        path = f"{self._places[member.role].members}/{member.id}"
        while True:
            try:
                await self._make_own(path, member)
                return
            except Unavailable:
                await asyncio.sleep(PAUSE)
                await self._connection.connected()

    async def _make_own(self, path: str, member: Member) -> None:
        """Make the member's node, in place of one that an earlier session left."""
        while True:
            try:
                await self._connection.create(path, member.address.to_json().encode(), ephemeral=True)
                return
            except NotFound:  # somebody cleared all away
                await self._connection.make(self._places[member.role].members)
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
            self._listing.set()

    def _require_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


async def _follow(
    look: Callable[[Role, Watch], Awaitable[None]], role: Role, seen: asyncio.Event, connection: Connection
) -> None:
    """Call a function now, and again after each change."""
    while True:
        touched = asyncio.Event()
        try:
            await look(role, touched.set)
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
