"""Discovery of the daemons of a cluster: by addresses that are given, by a folder, and by ZooKeeper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peloton.client.finding import (
    DEFAULT_ADDRESSES,
    Discovery,
    DiscoveryError,
    NoLeader,
    Tell,
    address_of,
    address_within,
    may_seek,
    members,
    others,
    watch,
)
from peloton.client.zookeeper import ZooKeeperDiscovery
from peloton.leaders import instead

if TYPE_CHECKING:
    from peloton.membership.interface import Address

__all__ = [
    "DEFAULT_ADDRESSES",
    "Discovery",
    "DiscoveryError",
    "InCluster",
    "LocalDiscovery",
    "NoLeader",
    "UrlDiscovery",
    "ZooKeeperDiscovery",
    "address_of",
]


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
        return self.address_within(role, None)

    def address_within(self, role: str, seconds: float | None) -> str:
        """Return what `address` does, within `seconds`."""
        if role not in self.urls and self.other is not None:
            return address_within(self.other, role, seconds)
        if role.startswith("hostmgr/"):
            raise DiscoveryError(
                f"{role.removeprefix('hostmgr/')}: a Mesos cluster is found by its name with ZooKeeper only; "
                "give the address of its hostmgr"
            )
        given = self._given(role)
        return address_of(given[next(self._turns) % len(given)] if given[1:] else given[0], role)

    def _given(self, role: str) -> list[str]:
        return (self.urls.get(role) or DEFAULT_ADDRESSES[role]).split(",")

    def watch(self, role: str, tell: Tell) -> None:
        """Let `other` tell who leads."""
        if role not in self.urls and self.other is not None:
            watch(self.other, role, tell)

    def others(self, role: str, leads: Callable[[str], bool], target: str) -> str:
        """Return another one of several addresses that leads."""
        if role not in self.urls and self.other is not None:
            return others(self.other, role, leads, target)
        return instead(target, (address_of(each, role) for each in self._given(role)), leads)

    def may_seek(self, role: str) -> bool:
        """Return whether `others` may know anything."""
        if role not in self.urls and self.other is not None:
            return may_seek(self.other, role)
        return len(self._given(role)) > 1

    def clusters(self) -> Sequence[str]:
        """Return the clusters that `other` finds, or the one whose host manager is given."""
        return self.other.clusters() if self.other is not None and "hostmgr" not in self.urls else ("",)

    def members(self, role: str) -> Sequence[Address]:
        """Return the processes of a role that `other` knows."""
        return members(self.other, role) if role not in self.urls and self.other is not None else ()

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
        return self.whole.address(self._named(role))

    def _named(self, role: str) -> str:
        own = getattr(self.whole, "own", "")  # the cluster that `hostmgr` alone stands for
        return f"{role}/{self.cluster}" if role == "hostmgr" and self.cluster != own else role

    def address_within(self, role: str, seconds: float | None) -> str:
        """Return what `address` does, within `seconds`."""
        return address_within(self.whole, self._named(role), seconds)

    def watch(self, role: str, tell: Tell) -> None:
        """Let `whole` tell who leads."""
        watch(self.whole, self._named(role), tell)

    def others(self, role: str, leads: Callable[[str], bool], target: str) -> str:
        """Return which other address leads."""
        return others(self.whole, self._named(role), leads, target)

    def may_seek(self, role: str) -> bool:
        """Return whether `others` may know anything."""
        return may_seek(self.whole, self._named(role))

    def clusters(self) -> Sequence[str]:
        """Return this cluster only."""
        return (self.cluster,)

    def members(self, role: str) -> Sequence[Address]:
        """Return the processes of a role."""
        return members(self.whole, self._named(role))

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

    def address(self, role: str) -> str:
        """Return the address of the leader. Raises NoLeader."""
        return self.leader(role).target

    def leader(self, role: str) -> Address:
        """Return the address of the leader as it is registered. Raises NoLeader."""
        from peloton.membership.folder import registered
        from peloton.membership.interface import Group

        leader = registered(self.directory).leaders.get(Group.parse(role))
        if leader is None:
            raise NoLeader(f"{self.directory} shows no leader of {role}: is the cluster up?")
        return leader

    def address_within(self, role: str, seconds: float | None) -> str:
        """Return what `address` does: a folder is read at once."""
        return self.address(role)

    def watch(self, role: str, tell: Tell) -> None:
        """Tell nothing: a folder is read again while a call is without an answer."""

    def others(self, role: str, leads: Callable[[str], bool], target: str) -> str:
        """Return who leads by the folder now."""
        try:
            found = self.address(role)
        except NoLeader:
            return ""
        return found if found != target else ""

    def may_seek(self, role: str) -> bool:
        """Return that the folder may tell another leader."""
        return True

    def clusters(self) -> Sequence[str]:
        """Return the clusters that have a host manager, or had one and have a name."""
        from peloton.membership.folder import registered
        from peloton.membership.interface import Group, Role

        found = registered(self.directory)
        named = sorted(group.cluster for group in found.members if group.cluster)
        unnamed = not named or bool(found.members[Group(Role.HOSTMGR)])
        return [""] * unnamed + named

    def members(self, role: str) -> Sequence[Address]:
        """Return the processes of a role."""
        from peloton.membership.folder import registered
        from peloton.membership.interface import Group

        found = registered(self.directory).members.get(Group.parse(role), {})
        return [member.address for _, member in sorted(found.items())]

    def follows(self, role: str) -> bool:
        """Return that the address may change."""
        return True

    def close(self) -> None:
        """Do nothing: no connection is open."""
