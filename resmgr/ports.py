"""What a resource manager needs of the host managers, in the model's terms. All calls raise PelotonError.

`timeout` (seconds) bounds a call with its repetitions; without `retry` there are none. Calls with `wait` wait
at hostmgr for up to `wait` seconds more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from peloton.errors import PelotonError
from peloton.model.ids import Run
from peloton.model.resources import ZERO, Resources
from peloton.model.shortage import HostGains, Shortage
from peloton.model.states import TaskState
from resmgr.core.state.classes import ClassCapacities, added
from resmgr.core.state.needs import Shape
from resmgr.core.state.placements import Handover

CALL_SECONDS = 10.0


class Amount(NamedTuple):
    """The capacity of a cluster."""

    normal: Resources = ZERO
    slack: Resources = ZERO
    pooled: bool = False
    """Whether its hosts are in host pools."""
    classes: ClassCapacities = MappingProxyType({})
    """The same amounts by class of hosts."""

    def __add__(self, other: tuple[object, ...]) -> Amount:
        """Return the sum."""
        assert isinstance(other, Amount)
        return Amount(
            self.normal + other.normal,
            self.slack + other.slack,
            self.pooled or other.pooled,
            added(self.classes, other.classes),
        )


class Capacities(Protocol):
    """The capacity of a Mesos cluster, or of all."""

    async def capacity(self, timeout: float, retry: bool = True) -> Amount:
        """Return the capacity of one cluster."""
        ...

    async def pools_with_hosts(self, timeout: float) -> Collection[str]:
        """Return the host pools that have hosts, of all clusters."""
        ...


class ClusterCapacities(Capacities, Protocol):
    """The capacities of all Mesos clusters."""

    def clusters(self) -> Sequence[str]:
        """Return the names of the clusters; of a cluster without a name, the empty one."""
        ...

    def of(self, cluster: str) -> Capacities:
        """Return the capacity of one cluster."""
        ...


class ClaimRelease(Protocol):
    """Claims on hosts."""

    async def release(self, claims: Sequence[Handover]) -> None:
        """Release the claims of placements."""
        ...


class EarlierClaims(Protocol):
    """Claims on hosts of one cluster."""

    async def shorten_claims(self, older_than: float) -> int:
        """Let claims that are older than `older_than` seconds end early; return their number. Made once."""
        ...


class DrainingHosts(Protocol):
    """Hosts in maintenance."""

    async def draining(self, wait: float) -> Sequence[str]:
        """Return the names of draining hosts, waiting for some."""
        ...

    async def mark_drained(self, hostname: str) -> None:
        """Report a host without runs. Raises Refused where hostmgr knows better."""
        ...


class Gains(NamedTuple):
    """What hosts have gained since a version of them."""

    version: str
    """The version now."""
    gains: HostGains | None
    """None: not known."""


class Hosts(Protocol):
    """Hosts as they would be without tasks."""

    async def gains(self, since: str) -> Gains:
        """Return what hosts have gained since a version."""
        ...

    async def check(
        self, shapes: Sequence[Shape], open_pools: frozenset[str], timeout: float = CALL_SECONDS
    ) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang fits on no hosts; nothing is confined to `open_pools`."""
        ...


class Found(NamedTuple):
    """Hosts that match."""

    total: int
    names: Sequence[str]
    """Of some of them."""


class PlannedHosts(Hosts, Protocol):
    """Hosts for plans."""

    async def find(self, shape: Shape, most: int, timeout: float) -> Found:
        """Return how many hosts match a shape of one task, with the names of up to `most` of them."""
        ...


class KnownHosts(Protocol):
    """All hosts."""

    async def hostnames(self) -> Sequence[str]:
        """Return the names of all registered hosts."""
        ...


class StreamLost(PelotonError):
    """The stream of statuses is a new one, or no longer holds the next event."""


class StateBatch(NamedTuple):
    """Successive events of the stream."""

    size: int
    """Number of events, those without a state of a run included."""
    end: int
    """Offset behind the last event."""
    states: Sequence[tuple[Run, TaskState]]
    saved: Sequence[tuple[Run, float]] = ()
    """Runs that have saved their work, with the seconds since."""


class StatusEvents(Protocol):
    """The stream of statuses of one cluster."""

    async def open_stream(self, timeout: float) -> tuple[str, int]:
        """Return the id of the stream and the offset of its first event."""
        ...

    async def states(self, stream: str, begin: int, limit: int, wait: float) -> StateBatch | None:
        """Return events from an offset on, waiting for some; None: there are none. Raises StreamLost."""
        ...


class Hostmgr(Capacities, EarlierClaims, DrainingHosts, StatusEvents, Protocol):
    """The host manager of one Mesos cluster."""


class Hostmgrs(ClusterCapacities, ClaimRelease, PlannedHosts, KnownHosts, Protocol):
    """The host managers of all Mesos clusters, as if there were one."""

    def of(self, cluster: str) -> Hostmgr:
        """Return the host manager of one cluster."""
        ...
