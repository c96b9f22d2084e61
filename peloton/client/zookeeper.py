"""Leaders as their elections announce them in ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peloton.client.finding import DiscoveryError, NoLeader, Tell
from peloton.model.amounts import duration

if TYPE_CHECKING:
    from peloton.client.tls import Tls
    from peloton.membership.interface import Address

SESSION_SECONDS = 4.0
"""The shortest session that ZooKeeper servers grant by default. A client may wait for so long for a server
that is starting; one that only reads gains nothing by a longer session."""


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
    tls: Tls | None = None
    """What encrypts the connection."""
    patient: bool = True
    """Whether a root that does not exist may be made yet, so that callers go on asking."""
    _watched: dict[str, Tell] = field(default_factory=dict, repr=False)
    _live: Any = field(default=None, repr=False)
    _client: Any = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def address(self, role: str) -> str:
        """Return the address of the leader. Raises DiscoveryError."""
        return self.leader(role).target

    def address_within(self, role: str, seconds: float | None) -> str:
        """Return the address of the leader, found within `seconds`. Raises DiscoveryError."""
        return self.leader(role, seconds).target

    def leader(self, role: str, seconds: float | None = None) -> Address:
        """Return the address of the leader as it is registered. Raises DiscoveryError."""
        from peloton.membership.interface import Address

        limit = self.timeout if seconds is None else min(self.timeout, seconds)
        end = time.monotonic() + limit
        hosts, below = self._parts()
        place, source = self._place(role), f"ZooKeeper ({self.servers})"
        client = self._connected(hosts, limit)
        with _asked(source):
            value = self._read(client, f"{below}{place}/leader", end)
            if value is None and self._read(client, below + place, end) is None:
                missing = NoLeader if self.patient else DiscoveryError
                raise missing(f"{source} has no {place}: is the cluster's root {self.root}?")
        if value is None:
            raise NoLeader(f"{source} shows no leader of {role} at {place}")
        try:
            return Address.from_json(value.decode())
        except ValueError as error:
            raise DiscoveryError(f"{source} {place}/leader: {error}") from None

    def _place(self, role: str) -> str:
        from peloton.membership.interface import Group

        return f"{self.root.rstrip('/')}/{Group.parse(role).path}"

    def watch(self, role: str, tell: Tell) -> None:
        """Tell each new leader from now on, by kazoo's threads."""
        with self._lock:
            self._watched[role] = tell
            client = self._client
        if client is not None:
            self._follow(client, role, tell)

    def _follow(self, client: Any, role: str, tell: Tell) -> None:
        from peloton.membership.interface import Address

        def told(value: bytes | None) -> None:
            try:
                tell(Address.from_json(value.decode()).target if value is not None else "")
            except ValueError:
                return  # the next look-up raises what is wrong with it

        _Follower(client, f"{self._parts()[1]}{self._place(role)}/leader", told).begin()

    def may_seek(self, role: str) -> bool:
        """Return that it tells who leads, and needs not be asked."""
        return False

    def clusters(self) -> Sequence[str]:
        """Return the clusters that have a host manager, or had one and have a name. Raises DiscoveryError."""
        from peloton.membership.interface import Role
        from peloton.model.cluster import is_cluster_name

        hosts, below = self._parts()
        root = f"{below}{self.root.rstrip('/')}"
        client = self._connected(hosts, self.timeout)
        with _asked(f"ZooKeeper ({self.servers})"):
            named = sorted(filter(is_cluster_name, self._children(client, f"{root}/{Role.HOSTMGR.clusters}")))
            members = self._children(client, f"{root}/{Role.HOSTMGR.election}/members") if named else ()
        return [""] * (not named or bool(members)) + named

    def members(self, role: str) -> Sequence[Address]:
        """Return the processes of a role. Raises DiscoveryError."""
        from peloton.membership.interface import Address

        hosts, below = self._parts()
        end = time.monotonic() + self.timeout
        client, place = self._connected(hosts, self.timeout), f"{below}{self._place(role)}/members"
        found = []
        with _asked(f"ZooKeeper ({self.servers})"):
            for name in sorted(self._children(client, place)):
                value = self._read(client, f"{place}/{name}", end)
                with suppress(ValueError):
                    found += [Address.from_json(value.decode())] if value is not None else []
        return found

    def _children(self, client: Any, path: str) -> list[str]:
        """Return the names of the children of a node, none where there is no node."""
        from kazoo.exceptions import NoNodeError

        try:
            return list(client.get_children_async(path).get(timeout=self.timeout))
        except NoNodeError:
            return []

    def _read(self, client: Any, path: str, end: float) -> bytes | None:
        """Read a node, None where there is none; wait for servers until a time."""
        from kazoo.exceptions import NoNodeError

        try:
            value: bytes = client.get_async(path).get(timeout=_rest(end))[0]
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
            client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _connected(self, hosts: str, seconds: float) -> Any:
        """Return the connected client. Raises NoLeader where the servers do not answer within `seconds`."""
        with self._lock:
            if self._client is None or self._client.given_up():
                self._client = self._begun(hosts)
                self._live = self._client.start_async()
                for role, tell in self._watched.items():
                    self._follow(self._client, role, tell)
            client, live = self._client, self._live
        if not live.wait(seconds):
            why = f": {client.tls_trouble}" if client.tls_trouble else ""
            raise NoLeader(f"ZooKeeper ({self.servers}) did not answer within {duration(seconds)}{why}")
        return client

    def _begun(self, hosts: str) -> Any:
        """Return a client that connects when it is started. Raises DiscoveryError."""
        import logging

        from peloton.membership.client import Client

        quiet = logging.getLogger(f"{__name__}.kazoo")
        quiet.setLevel(logging.CRITICAL)  # failures are raised, not logged
        try:
            return Client(
                hosts,
                SESSION_SECONDS,
                self.tls.context if self.tls is not None else None,
                connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
                logger=quiet,
            )
        except ValueError:
            raise DiscoveryError(f"ZooKeeper servers {self.servers!r} are not host:port,host:port…") from None


class _Follower:
    """Reads a node of ZooKeeper whenever it changes, by kazoo's threads, until its client is closed."""

    def __init__(self, client: Any, path: str, tell: Callable[[bytes | None], None]) -> None:
        self._client = client
        self._path = path
        self._tell = tell

    def begin(self) -> None:
        """Read now, and whenever a connection is back: kazoo forgets its watches with a connection."""
        self._client.add_listener(self._on_connection)
        self._ask()

    def _on_connection(self, state: str) -> None:
        from kazoo.client import KazooState

        if state == KazooState.CONNECTED:
            self._ask()

    def _ask(self, event: object = None) -> None:
        self._client.get_async(self._path, self._ask).rawlink(self._on_value)

    def _on_value(self, answer: Any) -> None:
        from kazoo.exceptions import NoNodeError

        if answer.exception is None:
            self._tell(answer.value[0])
        elif isinstance(answer.exception, NoNodeError):
            self._tell(None)
            self._client.exists_async(self._path, self._ask).rawlink(self._on_existence)
        # Any other failure is one of the connection.

    def _on_existence(self, answer: Any) -> None:
        if answer.exception is None and answer.value is not None:
            self._ask()  # made between the two


def _rest(end: float) -> float:
    return max(end - time.monotonic(), 0.001)


@contextmanager
def _asked(source: str) -> Iterator[None]:
    """Raise NoLeader for what is wrong with a connection."""
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        yield
    except (KazooException, KazooTimeoutError) as error:
        raise NoLeader(f"{source} cannot be asked: {type(error).__name__}") from None
