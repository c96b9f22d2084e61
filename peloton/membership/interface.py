"""The membership port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Protocol

from peloton import __version__
from peloton.membership.lease import Standing


class Role(Enum):
    """A kind of daemon, by its short name."""

    JOBMGR = "jobmgr"
    RESMGR = "resmgr"
    HOSTMGR = "hostmgr"
    PLACEMENT = "placement"

    @property
    def election(self) -> str:
        """Name of the role's node below the election root."""
        return _ELECTIONS[self.value]

    @property
    def service(self) -> str:
        """Name that clients send as `rpc-service`."""
        return f"peloton-{self.value}"


_ELECTIONS = {
    "jobmgr": "jobmanager",
    "resmgr": "resourcemanager",
    "hostmgr": "hostmanager",
    "placement": "placement",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon answers, as the leader's node holds it."""

    hostname: str
    ip: str
    http: int
    grpc: int
    version: str = __version__

    @property
    def target(self) -> str:
        """For gRPC."""
        return f"[{self.ip}]:{self.grpc}" if ":" in self.ip else f"{self.ip}:{self.grpc}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Address:
        """Raises ValueError for what is no address; further keys are left out."""
        held = json.loads(text)
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


@dataclass(frozen=True, slots=True)
class Member:
    """One process. `id` is new for every process, so that its leases end with it."""

    role: Role
    id: str
    address: Address


class Leadership(Protocol):
    """Held from a won election until it is lost or given up."""

    @property
    def term(self) -> int:
        """Larger than that of every leader of this role before."""
        ...

    def standing(self, now: float) -> Standing:
        """Whether what a leader does may be done now (`now`: seconds on the monotonic clock)."""
        ...

    async def lost(self) -> None:
        """Returns when leadership is over for a reason of its own."""
        ...

    async def resign(self) -> None: ...


class Membership(Protocol):
    async def start(self) -> None:
        """Begin to watch. Raises Unavailable where the registry cannot be reached, or waits for it."""
        ...

    async def join(self, member: Member) -> None:
        """Be listed until the process ends or leaves."""
        ...

    async def campaign(self, member: Member) -> Leadership:
        """Returns when elected."""
        ...

    def leader(self, role: Role) -> Address | None:
        """As last seen."""
        ...

    def members(self, role: Role) -> Mapping[str, Member]:
        """As last seen, by id."""
        ...

    async def changed(self) -> None:
        """Returns after the next change of a leader or a member."""
        ...

    def trouble(self) -> str:
        """Why the registry cannot be heard; empty where it can."""
        ...

    async def close(self) -> None: ...
