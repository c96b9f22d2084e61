"""The host managers of several Mesos clusters, where the address of one is given: it knows the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peloton.client.discovery import DiscoveryError, NoLeader

if TYPE_CHECKING:
    from peloton.client.client import PelotonClient
    from peloton.client.discovery import UrlDiscovery

ASK_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The Mesos clusters as a host manager tells them."""

    own: str = ""
    """The one whose host manager answers."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Of the leading host managers by cluster; empty where none leads."""


@dataclass(slots=True)
class AskingDiscovery:
    """Given addresses; the given host manager is asked for those of further Mesos clusters."""

    given: UrlDiscovery
    ask: Callable[[], Asked]
    _asked: Asked | None = field(default=None, repr=False)

    @property
    def own(self) -> str:
        """The name of the Mesos cluster whose host manager is given."""
        return self._known().own

    def address(self, role: str) -> str:
        """Return the given address, or that of a cluster's host manager. Raises DiscoveryError."""
        of, slash, cluster = role.partition("/")
        if not slash or (cluster == self.own and self._known().addresses):
            return self.given.address(of)
        addresses = self._known().addresses
        if cluster not in addresses:
            some = ", ".join(name or "one without a name" for name in addresses) or "not known"
            raise DiscoveryError(f"there is no Mesos cluster {cluster}; those that there are: {some}")
        if not addresses[cluster]:
            raise NoLeader(
                f"no host manager leads the Mesos cluster {cluster or 'without a name'} at the moment"
            )
        return addresses[cluster]

    def others(self, role: str, leads: Callable[[str], bool], target: str) -> str:
        """Return which other one of several given addresses leads."""
        return self.given.others(role, leads, target)

    def may_seek(self, role: str) -> bool:
        """Return whether `others` may know anything."""
        return "/" not in role and self.given.may_seek(role)

    def clusters(self) -> Sequence[str]:
        """Return the names of the Mesos clusters; the one that is given where it does not tell."""
        return tuple(self._known().addresses) or self.given.clusters()

    def follows(self, role: str) -> bool:
        """Return whether the address may change."""
        return self.given.follows(role)

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _known(self) -> Asked:
        if self._asked is None:
            self._asked = self.ask()
        return self._asked


def asked(client: PelotonClient) -> Asked:
    """Ask the host manager of a client for the clusters; nothing is known where it does not tell."""
    import grpc

    from peloton.errors import PelotonError
    from peloton.private.hostmgr.registry import registry_pb2 as pb

    try:
        answer = client.host_registry_svc.ListClusters(pb.ListClustersRequest(), timeout=ASK_SECONDS)
    except (grpc.RpcError, PelotonError):  # an older one, one that is away: the call that follows says so
        return Asked()
    finally:
        client.close()
    return Asked(answer.own, {each.name: each.address for each in answer.clusters})
