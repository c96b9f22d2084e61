"""Discovery of the daemons of a cluster: the port by which a client finds the leader of each role."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from peloton.errors import PelotonError

if TYPE_CHECKING:
    from peloton.client.tls import Tls
    from peloton.membership.interface import Address

DEFAULT_ADDRESSES: Mapping[str, str] = {
    "jobmgr": "localhost:5392",
    "resmgr": "localhost:5394",
    "hostmgr": "localhost:5391",
}
"""gRPC addresses by role where none are given (docs/behaviour/system.md)."""

SESSION_SECONDS = 4.0
"""The shortest session that ZooKeeper servers grant by default. A client may wait for so long for a server
that is starting; one that only reads gains nothing by a longer session."""

_SCHEME = re.compile(r"^(grpc|http|https|dns)://+", re.IGNORECASE)


class DiscoveryError(PelotonError):
    """The address of a daemon cannot be found; the message says what to give instead."""


class NoLeader(DiscoveryError):
    """Nobody leads at the moment; after an election somebody will."""


class Discovery(Protocol):
    """Finds the gRPC address of a role's leader."""

    def address(self, role: str) -> str:
        """Return `host:port` of the leader of `jobmgr`, `resmgr` or `hostmgr` now. Raises DiscoveryError.

        `hostmgr/NAME` is the host manager of the Mesos cluster of that name.
        """
        ...

    def clusters(self) -> Sequence[str]:
        """Return the names of the Mesos clusters, empty for the unnamed one. Raises DiscoveryError."""
        ...

    def follows(self, role: str) -> bool:
        """Return whether the address is looked up again after a failure, and the call made again there."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class UrlDiscovery:
    """Addresses that the caller gave; `other` finds roles without one, else the defaults are taken.

    Where several are given for a role, with commas between them, each look-up tells the next one.
    """

    urls: Mapping[str, str]
    other: Discovery | None = None
    patient: bool = False
    """Whether callers go on asking for an address that does not answer."""
    _turns: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    def address(self, role: str) -> str:
        """Return the given address, that of `other`, or the default."""
        if role not in self.urls and self.other is not None:
            return self.other.address(role)
        if role.startswith("hostmgr/"):
            raise DiscoveryError(
                f"{role.removeprefix('hostmgr/')}: a Mesos cluster is found by its name with ZooKeeper only; "
                "give the address of its hostmgr"
            )
        given = (self.urls.get(role) or DEFAULT_ADDRESSES[role]).split(",")
        return address_of(given[next(self._turns) % len(given)] if given[1:] else given[0], role)

    def clusters(self) -> Sequence[str]:
        """Return the clusters that `other` finds, or the one whose host manager is given."""
        return self.other.clusters() if self.other is not None and "hostmgr" not in self.urls else ("",)

    def follows(self, role: str) -> bool:
        """Return whether calls go on at the same address, or at another that is found."""
        if role in self.urls or self.other is None:
            return self.patient
        return self.other.follows(role)

    def close(self) -> None:
        """Close `other`."""
        if self.other is not None:
            self.other.close()


@dataclass(frozen=True, slots=True)
class InCluster:
    """Finds the host manager of one Mesos cluster, and the other daemons as `whole` does."""

    whole: Discovery
    cluster: str

    def address(self, role: str) -> str:
        """Return the address of the leader. Raises DiscoveryError."""
        return self.whole.address(f"{role}/{self.cluster}" if role == "hostmgr" and self.cluster else role)

    def clusters(self) -> Sequence[str]:
        """Return this cluster only."""
        return (self.cluster,)

    def follows(self, role: str) -> bool:
        """Return whether the address may change."""
        return self.whole.follows(role)

    def close(self) -> None:
        """Close connections."""
        self.whole.close()


@dataclass(frozen=True, slots=True)
class LocalDiscovery:
    """Leaders in the registry folder of a one-machine cluster (`peloton.membership.local`)."""

    directory: Path

    @property
    def minicluster(self) -> Path:
        """The folder of the minicluster."""
        return self.directory.parent

    def address(self, role: str) -> str:
        """Return the address of the leader. Raises NoLeader."""
        from peloton.membership.folder import registered
        from peloton.membership.interface import Group

        leader = registered(self.directory).leaders.get(Group.parse(role))
        if leader is None:
            raise NoLeader(f"{self.directory} shows no leader of {role}: is the cluster up?")
        return leader.target

    def clusters(self) -> Sequence[str]:
        """Return the clusters that have a host manager, or had one and have a name."""
        from peloton.membership.folder import registered
        from peloton.membership.interface import Group, Role

        found = registered(self.directory)
        named = sorted(group.cluster for group in found.members if group.cluster)
        unnamed = not named or bool(found.members[Group(Role.HOSTMGR)])
        return [""] * unnamed + named

    def follows(self, role: str) -> bool:
        """Return that the address may change."""
        return True

    def close(self) -> None:
        """Do nothing: no connection is open."""


@dataclass(slots=True)
class ZooKeeperDiscovery:
    """Leaders as their elections announce them in ZooKeeper (docs/behaviour/system.md).

    `servers` are host:port,host:port…, followed by a path where everything is below it. The connection is
    made when it is first needed, and kept.
    """

    servers: str
    root: str = "/peloton"
    timeout: float = 5.0
    """Seconds to wait for the servers."""
    minicluster: Path | None = None
    """The folder of the minicluster whose servers they are, where they are one's."""
    tls: Tls | None = None
    """What encrypts the connection."""
    _client: Any = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def address(self, role: str) -> str:
        """Return the address of the leader. Raises DiscoveryError."""
        return self.leader(role).target

    def leader(self, role: str) -> Address:
        """Return the address of the leader as it is registered. Raises DiscoveryError."""
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        from peloton.membership.interface import Address, Group

        hosts, below = self._parts()
        place, source = f"{self.root.rstrip('/')}/{Group.parse(role).path}", f"ZooKeeper ({self.servers})"
        client = self._connected(hosts)
        try:
            value = self._read(client, f"{below}{place}/leader")
            if value is None and self._read(client, below + place) is None:
                raise DiscoveryError(f"{source} has no {place}: is the cluster's root {self.root}?")
        except (KazooException, KazooTimeoutError) as error:
            raise NoLeader(f"{source} cannot be asked: {type(error).__name__}") from None
        if value is None:
            raise NoLeader(f"{source} shows no leader of {role} at {place}")
        try:
            return Address.from_json(value.decode())
        except ValueError as error:
            raise DiscoveryError(f"{source} {place}/leader: {error}") from None

    def clusters(self) -> Sequence[str]:
        """Return the clusters that have a host manager, or had one and have a name. Raises DiscoveryError."""
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        from peloton.membership.interface import Role
        from peloton.model.cluster import is_cluster_name

        hosts, below = self._parts()
        root, client = f"{below}{self.root.rstrip('/')}", self._connected(hosts)
        try:
            named = sorted(filter(is_cluster_name, self._children(client, f"{root}/{Role.HOSTMGR.clusters}")))
            members = self._children(client, f"{root}/{Role.HOSTMGR.election}/members") if named else ()
        except (KazooException, KazooTimeoutError) as error:
            raise NoLeader(f"ZooKeeper ({self.servers}) cannot be asked: {type(error).__name__}") from None
        return [""] * (not named or bool(members)) + named

    def _children(self, client: Any, path: str) -> list[str]:
        """Return the names of the children of a node, none where there is no node."""
        from kazoo.exceptions import NoNodeError

        try:
            return list(client.get_children_async(path).get(timeout=self.timeout))
        except NoNodeError:
            return []

    def _read(self, client: Any, path: str) -> bytes | None:
        """Read a node, None where there is none; wait for servers for up to the time-out."""
        from kazoo.exceptions import NoNodeError

        try:
            value: bytes = client.get_async(path).get(timeout=self.timeout)[0]
        except NoNodeError:
            return None
        return value

    def _parts(self) -> tuple[str, str]:
        """Return servers and path apart: kazoo warns of a path that does not exist yet."""
        hosts, slash, below = self.servers.removeprefix("zk://").partition("/")
        return hosts, f"{slash}{below}".rstrip("/")

    def follows(self, role: str) -> bool:
        """Return that the address may change."""
        return True

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._client is not None:
                self._client.stop()
                self._client.close()
                self._client = None

    def _connected(self, hosts: str) -> Any:
        """Return the connected client. Raises DiscoveryError where the servers do not answer."""
        import logging

        from kazoo.handlers.threading import KazooTimeoutError

        from peloton.membership.client import Client

        with self._lock:
            if self._client is not None and not self._client.given_up():
                return self._client
            quiet = logging.getLogger(f"{__name__}.kazoo")
            quiet.setLevel(logging.CRITICAL)  # failures are raised, not logged
            try:
                client = Client(
                    hosts,
                    SESSION_SECONDS,
                    self.tls.context if self.tls is not None else None,
                    connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
                    logger=quiet,
                )
                client.start(self.timeout)
            except KazooTimeoutError:
                why = f": {client.tls_trouble}" if client.tls_trouble else ""
                raise DiscoveryError(
                    f"ZooKeeper ({self.servers}) did not answer within {self.timeout:g} s{why}"
                ) from None
            except ValueError:
                raise DiscoveryError(
                    f"ZooKeeper servers {self.servers!r} are not host:port,host:port…"
                ) from None
            self._client = client
            return client


def address_of(url: str, role: str) -> str:
    """Return `host:port` of a URL or address such as `http://localhost:5392/`, `[::1]:5392` or `myhost:5392`.

    Raises DiscoveryError where it has no port.
    """
    text = _SCHEME.sub("", url.strip()).rstrip("/")
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        example = DEFAULT_ADDRESSES.get(role, "localhost:5392")
        raise DiscoveryError(f"address of {role}: {url!r} is not host:port, such as {example}")
    return text
