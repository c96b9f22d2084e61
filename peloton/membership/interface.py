"""The membership port."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from peloton import __version__
from peloton.membership.lease import Standing
from peloton.model.cluster import UNNAMED
from peloton.plainjson import parse_json


class Role(Enum):
    """A kind of daemon."""

    JOBMGR = "jobmgr"
    RESMGR = "resmgr"
    HOSTMGR = "hostmgr"
    PLACEMENT = "placement"
    ARCHIVER = "archiver"

    @property
    def election(self) -> str:
        """Name of the role's node below the election root."""
        return _ELECTIONS[self.value]

    @property
    def clusters(self) -> str:
        """Path below the election root of the nodes of named clusters, each with a leader of its own."""
        return f"{self.election}/clusters"

    @property
    def service(self) -> str:
        """Name that clients send as `rpc-service`."""
        return f"peloton-{self.value}"


_ELECTIONS = {
    "jobmgr": "jobmanager",
    "resmgr": "resourcemanager",
    "hostmgr": "hostmanager",
    "placement": "placement",
    "archiver": "archiver",
}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a daemon, as the leader's node holds it."""

    hostname: str
    ip: str
    http: int
    grpc: int
    version: str = __version__

    @property
    def target(self) -> str:
        """The address for gRPC."""
        return f"[{self.ip}]:{self.grpc}" if ":" in self.ip else f"{self.ip}:{self.grpc}"

    def to_json(self) -> str:
        """Encode the address."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Address:
        """Decode an address, ignoring unknown keys. Raises ValueError for an invalid one."""
        held = parse_json(text)
        try:
            return cls(
                str(held["hostname"]),
                str(held["ip"]),
                int(held["http"]),
                int(held["grpc"]),
                str(held.get("version", "")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an address: {text!r}: {error!r}") from None


class Group(NamedTuple):
    """The processes of a role of which one leads; those of host managers are of one Mesos cluster."""

    role: Role
    cluster: str = UNNAMED

    @property
    def path(self) -> str:
        """Path of the group's node below the election root."""
        return f"{self.role.clusters}/{self.cluster}" if self.cluster else self.role.election

    @classmethod
    def parse(cls, text: str) -> Group:
        """Read the name of a group. Raises ValueError for an unknown role."""
        role, _, cluster = text.partition("/")
        return cls(Role(role), cluster)

    def __str__(self) -> str:
        """Return the name of the group, under which its terms are counted."""
        return f"{self.role.value}/{self.cluster}" if self.cluster else self.role.value


def groups(clusters: Iterable[str]) -> list[Group]:
    """Return all groups, with those of the named Mesos clusters."""
    return [*map(Group, Role), *(Group(Role.HOSTMGR, name) for name in clusters)]


@dataclass(frozen=True, slots=True)
class Member:
    """A process. `id` is new for every process, so that its leases end with it."""

    role: Role
    id: str
    address: Address
    cluster: str = UNNAMED
    """The Mesos cluster that a host manager serves."""

    @property
    def group(self) -> Group:
        """Return the group in which it may lead."""
        return Group(self.role, self.cluster)


class Leadership(Protocol):
    """Leadership from a won election until it is lost or resigned."""

    @property
    def term(self) -> int:
        """Number of the term, larger than that of every earlier leader of this role."""
        ...

    def standing(self, now: float) -> Standing:
        """Return whether a leader may act at `now` (seconds on the monotonic clock)."""
        ...

    async def lost(self) -> None:
        """Wait until leadership is over by itself."""
        ...

    async def resign(self) -> None:
        """Give up leadership."""
        ...


class Membership(Protocol):
    """Access to the registry of members and leaders."""

    async def start(self) -> None:
        """Start to watch. Raises Unavailable where the registry cannot be reached, or waits for it."""
        ...

    async def join(self, member: Member) -> None:
        """Register a member until its process ends or leaves."""
        ...

    async def campaign(self, member: Member) -> Leadership:
        """Wait until elected."""
        ...

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        """Return the leader of a role, in a cluster, as last seen."""
        ...

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        """Return the members of a role, in a cluster, by id, as last seen."""
        ...

    def clusters(self) -> Sequence[str]:
        """Return the names of the Mesos clusters that have a name, in order.

        A cluster is known from the start of its first host manager until its node is deleted.
        """
        ...

    async def changed(self) -> None:
        """Wait for the next change of a leader or a member."""
        ...

    def trouble(self) -> str:
        """Return why the registry cannot be reached, empty where it can."""
        ...

    async def close(self) -> None:
        """Leave the registry."""
        ...
