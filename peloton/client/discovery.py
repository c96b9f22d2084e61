"""Where the daemons of a cluster are: the seam by which a client finds each role's leader."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peloton.errors import PelotonError

DEFAULT_ADDRESSES: Mapping[str, str] = {
    "jobmgr": "localhost:5392",
    "resmgr": "localhost:5394",
    "hostmgr": "localhost:5391",
}
"""gRPC addresses by role where nothing else is said (behaviour 1.1)."""

_SCHEME = re.compile(r"^(grpc|http|https|dns)://+", re.IGNORECASE)


class DiscoveryError(PelotonError):
    """The address of a daemon cannot be found out; the message says what to give instead."""


class Discovery(Protocol):
    """Finds the gRPC address of a role's leader."""

    def address(self, role: str) -> str:
        """`host:port` of the leader of `jobmgr`, `resmgr` or `hostmgr`. Raises DiscoveryError."""
        ...


@dataclass(frozen=True, slots=True)
class UrlDiscovery:
    """Addresses that the caller gave; a role without one is asked of `other`, or is at its default."""

    urls: Mapping[str, str]
    other: Discovery | None = None

    def address(self, role: str) -> str:
        if role not in self.urls and self.other is not None:
            return self.other.address(role)
        return address_of(self.urls.get(role) or DEFAULT_ADDRESSES[role], role)


@dataclass(frozen=True, slots=True)
class LocalDiscovery:
    """Leaders as the registry folder of a one-machine cluster shows them (`peloton.membership.local`)."""

    directory: Path

    def address(self, role: str) -> str:
        from peloton.membership.interface import Role
        from peloton.membership.local import registered

        leaders, _ = registered(self.directory)
        leader = leaders.get(Role(role))
        if leader is None:
            raise DiscoveryError(f"{self.directory} shows no leader of {role}: is the cluster up?")
        return leader.target


@dataclass(frozen=True, slots=True)
class ZooKeeperDiscovery:
    """Leaders as their election announces them in ZooKeeper (behaviour 1.2)."""

    servers: str
    root: str = "/peloton"

    def address(self, role: str) -> str:
        raise DiscoveryError(
            f"{role} cannot be found through ZooKeeper ({self.servers}): that is not built yet, "
            "give the address as host:port instead"
        )


def address_of(url: str, role: str) -> str:
    """`host:port` of a URL or address such as `http://localhost:5392/`, `[::1]:5392` or `myhost:5392`.

    Raises DiscoveryError when there is no port in it.
    """
    text = _SCHEME.sub("", url.strip()).rstrip("/")
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        example = DEFAULT_ADDRESSES.get(role, "localhost:5392")
        raise DiscoveryError(f"address of {role}: {url!r} is not host:port, such as {example}")
    return text
