"""The port by which a client finds the leader of each role, and what its adapters share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from peloton.errors import PelotonError

if TYPE_CHECKING:
    from peloton.membership.interface import Address

DEFAULT_ADDRESSES: Mapping[str, str] = {
    "jobmgr": "localhost:5392",
    "resmgr": "localhost:5394",
    "hostmgr": "localhost:5391",
}
"""gRPC addresses by role where none are given (docs/behaviour/system.md)."""

Tell = Callable[[str], object]
"""Takes the address of a leader; empty while nobody leads."""

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


class Watching(Discovery, Protocol):
    """A discovery that knows more. The client does without these methods where there are none."""

    def address_within(self, role: str, seconds: float | None) -> str:
        """Return what `address` does, within `seconds` (None: as long as it takes)."""
        ...

    def watch(self, role: str, tell: Tell) -> None:
        """Tell each new leader from now on, by a thread of its own. Nothing is told where nobody knows."""
        ...

    def others(self, role: str, leads: Callable[[str], bool], target: str) -> str:
        """Return which other address leads in place of this one, which does not answer; empty if none.

        `leads` asks a server. Called where nothing is told.
        """
        ...

    def may_seek(self, role: str) -> bool:
        """Return whether `others` may know anything."""
        ...


def address_within(discovery: Discovery, role: str, seconds: float | None) -> str:
    """Return the address of a leader, found within `seconds` if that can be. Raises DiscoveryError."""
    asked = getattr(discovery, "address_within", None)
    return discovery.address(role) if asked is None else str(asked(role, seconds))


def watch(discovery: Discovery, role: str, tell: Tell) -> None:
    """Let a discovery tell each new leader, where it can."""
    watched = getattr(discovery, "watch", None)
    if watched is not None:
        watched(role, tell)


def may_seek(discovery: Discovery, role: str) -> bool:
    """Return whether `others` may know anything."""
    asked = getattr(discovery, "may_seek", None)
    return False if asked is None else bool(asked(role))


def others(discovery: Discovery, role: str, leads: Callable[[str], bool], target: str) -> str:
    """Return which other address leads in place of one that does not answer; empty if none is known."""
    return str(discovery.others(role, leads, target)) if may_seek(discovery, role) else ""  # type: ignore[attr-defined]


def members(discovery: Discovery, role: str) -> Sequence[Address]:
    """Return the processes of a role, whether they lead or not; none where nobody knows them.

    Raises DiscoveryError.
    """
    asked = getattr(discovery, "members", None)
    return () if asked is None else list(asked(role))


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
