"""Membership in ZooKeeper, with the nodes by which clients find leaders (docs/behaviour/system.md).

    <root>/<role>/leader          ephemeral; the leader's address as JSON
    <root>/<role>/members/ID      ephemeral; a process's address

The host managers of a named cluster have the same below <root>/hostmanager/clusters/<name>.
The election's own nodes are in `election`. The last known state is kept while the servers cannot be
reached: a process is not gone because ZooKeeper is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from peloton.config.membership import ZooKeeperMembershipSettings, ZooKeeperTlsSettings
from peloton.config.private import require_private_key
from peloton.config.tls import client_context
from peloton.errors import AlreadyExists, NotFound, PelotonError, Unavailable
from peloton.membership.client import SETTING, Tls
from peloton.membership.connection import Connection, Credentials, Watch
from peloton.membership.election import Election
from peloton.membership.interface import Address, Group, Leadership, Member, Role
from peloton.membership.kept_lease import PAUSE
from peloton.membership.leadership import Paths
from peloton.membership.watching import follow
from peloton.membership.zookeeper_shards import ZooKeeperShards
from peloton.model.cluster import UNNAMED, is_cluster_name

log = logging.getLogger(__name__)


def open_membership(settings: ZooKeeperMembershipSettings) -> ZooKeeperMembership:
    """Open the adapter. Raises ConfigError for unreadable credentials and invalid addresses."""
    connection, root = connection_of(settings)
    return ZooKeeperMembership(connection, root, settings.session_seconds, settings.stuck_seconds)


def connection_of(settings: ZooKeeperMembershipSettings) -> tuple[Connection, str]:
    """Return a connection that is not open yet, and the root of our nodes. Raises ConfigError."""
    credentials = Credentials.read(settings.credentials_file) if settings.credentials_file else None
    # kazoo's chroot cannot create its own root node.
    hosts, slash, below = settings.servers.partition("/")
    connection = Connection(hosts, settings.session_seconds, credentials, tls_of(settings.tls))
    return connection, f"{slash}{below}".rstrip("/") + settings.root


def tls_of(settings: ZooKeeperTlsSettings) -> Tls | None:
    """Return what reads the files for a connection; None without TLS. Raises ConfigError."""
    if not settings.enabled:
        return None
    require_private_key(SETTING, settings.certificate_file, settings.key_file)
    read = partial(client_context, SETTING, settings.ca_file, settings.certificate_file, settings.key_file)
    read()
    return read


class ZooKeeperMembership:
    """Membership as described in `interface.Membership`."""

    def __init__(
        self, connection: Connection, root: str = "/peloton", session: float = 5.0, patience: float = 30.0
    ) -> None:
        """Lead as long as the event loop is silent for less than `patience` seconds."""
        self._connection = connection
        self._root = root
        self._session = session
        self._patience = patience
        self._leaders: dict[Group, Address] = {}
        self._members: dict[Group, dict[str, Member]] = {}
        self._clusters: dict[str, list[asyncio.Task[None]]] = {}
        """What follows the group of each named cluster."""
        self._own: list[Member] = []
        self._change = asyncio.Event()
        self._register_again = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Wait for the servers, and log that. Raises Refused where they reject us."""
        await self._connection.open()
        for role in Role:
            await self._ensure_group(Group(role))
        await self._ensure(self._path_of_clusters)
        await self._warn_of_unprotected()
        seen = [asyncio.Event()]
        self._tasks.append(asyncio.create_task(follow(self._read_clusters, seen[0], self._connection)))
        for role in Role:
            self._tasks += self._followers(Group(role), seen)
        self._connection.on_state.append(self._on_state)
        self._tasks.append(asyncio.create_task(self._stay_registered(), name="membership"))
        for task in self._tasks:
            task.add_done_callback(lambda ended: self._notify())
        await _first(asyncio.create_task(_all(seen)), *self._tasks)
        self._require_tasks()

    def _followers(self, group: Group, seen: list[asyncio.Event]) -> list[asyncio.Task[None]]:
        """Follow a group; add the events that are set when its leader and its members are read."""
        tasks = []
        for read in (self._read_leader, self._read_members):
            seen.append(asyncio.Event())
            work = follow(partial(read, group), seen[-1], self._connection)
            tasks.append(asyncio.create_task(work, name=f"membership of {group}"))
        return tasks

    async def join(self, member: Member) -> None:
        """Register a member until its process ends or leaves."""
        await self._ensure_group(member.group)
        self._own.append(member)
        await self._register(member)

    async def campaign(self, member: Member) -> Leadership:
        """Wait until elected."""
        await self._ensure_group(member.group)
        paths = self._paths(member.group)
        return await Election(self._connection, paths, member, self._session, self._patience).win()

    def shards(self) -> ZooKeeperShards:
        """Return the registry of the job managers' shards, which uses this connection."""
        root = f"{self._root}/{Role.JOBMGR.election}/shards"
        return ZooKeeperShards(self._connection, root, self._session, self._patience)

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        """Return the leader of a role, in a cluster, as last seen."""
        return self._leaders.get(Group(role, cluster))

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        """Return the members of a role, in a cluster, by id, as last seen."""
        return self._members.get(Group(role, cluster), {})

    def clusters(self) -> Sequence[str]:
        """Return the names of the clusters that have a name."""
        return sorted(self._clusters)

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
        tasks = [*self._tasks, *(task for followers in self._clusters.values() for task in followers)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        await self._connection.close()

    def _paths(self, group: Group) -> Paths:
        return Paths(f"{self._root}/{group.path}")

    @property
    def _path_of_clusters(self) -> str:
        return f"{self._root}/{Role.HOSTMGR.clusters}"

    async def _ensure_group(self, group: Group) -> None:
        """Create the persistent nodes of a group."""
        paths = self._paths(group)
        await self._ensure(paths.contenders)
        await self._ensure(paths.members)

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
        paths = [path for role in Role for path in self._paths(Group(role)).persistent]
        with suppress(PelotonError):  # only a warning
            if unprotected := [path for path in paths if await self._connection.is_unprotected(path)]:
                log.warning(
                    "ZooKeeper: %s and %d more may be changed by anybody: they were made without "
                    "membership.credentials_file; set their ACLs, or remove them while no daemon runs",
                    unprotected[0],
                    len(unprotected) - 1,
                )

    async def _read_clusters(self, watch: Watch) -> None:
        """Begin to follow new clusters, and leave those whose nodes are deleted."""
        names = {
            name for name in await self._children(self._path_of_clusters, watch) if is_cluster_name(name)
        }
        for name in names - self._clusters.keys():
            seen: list[asyncio.Event] = []
            self._clusters[name] = self._followers(Group(Role.HOSTMGR, name), seen)
            for task in self._clusters[name]:
                task.add_done_callback(lambda ended: self._notify())
            await _first(asyncio.create_task(_all(seen)), *self._clusters[name])
        for name in self._clusters.keys() - names:
            for task in self._clusters.pop(name):
                task.cancel()
            self._leaders = _without(self._leaders, Group(Role.HOSTMGR, name))
            self._members.pop(Group(Role.HOSTMGR, name), None)
            self._notify()

    async def _read_leader(self, group: Group, watch: Watch) -> None:
        path, found = self._paths(group).leader, None
        try:
            value = (await self._connection.get(path, watch)).value
            found = _address(value)
            if found is None:
                log.warning("%s is no address of a leader: %.200r", path, value)
        except NotFound:
            if await self._connection.exists(path, watch):
                watch()  # created between the two calls
        if found != self._leaders.get(group):
            self._leaders = {**self._leaders, group: found} if found else _without(self._leaders, group)
            self._notify()

    async def _read_members(self, group: Group, watch: Watch) -> None:
        held, found = self._members.get(group, {}), dict[str, Member]()
        for name in await self._member_names(group, watch):
            member = held.get(name) or await self._member(group, name)
            if member is not None:
                found[name] = member
        if found != held:
            self._members[group] = found
            self._notify()
        if any(own.id not in found for own in self._own if own.group == group):
            self._register_again.set()

    async def _member_names(self, group: Group, watch: Watch) -> list[str]:
        """Return the ids of members. The nodes of a cluster that no longer exists stay away."""
        path = self._paths(group).members
        if not group.cluster:
            return await self._children(path, watch)
        try:
            return await self._connection.children(path, watch)
        except NotFound:
            if await self._connection.exists(path, watch):
                watch()  # created between the two calls
            return []

    async def _children(self, path: str, watch: Watch) -> list[str]:
        while True:
            try:
                return await self._connection.children(path, watch)
            except NotFound:  # deleted by hand
                await self._connection.make(path)

    async def _member(self, group: Group, name: str) -> Member | None:
        with suppress(NotFound):
            node = await self._connection.get(f"{self._paths(group).members}/{name}")
            address = _address(node.value)
            return Member(group.role, name, address, group.cluster) if address else None
        return None

    async def _stay_registered(self) -> None:
        """Keep the member registered: a new session has no nodes, and any may be deleted by hand."""
        while True:
            await self._register_again.wait()
            self._register_again.clear()
            for member in self._own:
                await self._register(member)

    async def _register(self, member: Member) -> None:
        path = f"{self._paths(member.group).members}/{member.id}"
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
                await self._connection.make(self._paths(member.group).members)
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
        followers = (task for tasks in self._clusters.values() for task in tasks)
        for task in (*self._tasks, *followers):
            if task.done() and not task.cancelled():
                task.result()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


async def _first(*tasks: asyncio.Task[None]) -> None:
    """Wait until one of the tasks has ended."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _all(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _address(value: bytes) -> Address | None:
    with suppress(ValueError):
        return Address.from_json(value.decode())
    return None


def _without(leaders: dict[Group, Address], group: Group) -> dict[Group, Address]:
    return {other: address for other, address in leaders.items() if other != group}
