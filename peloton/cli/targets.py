"""The cluster that a command talks to (docs/behaviour/command-line.md).

Flags win over the environment; without either, a minicluster that runs on this machine is taken, else the
default addresses. A whole cluster (by name or by ZooKeeper) and addresses of single daemons
never mix: half of a command would reach another cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from peloton.errors import InvalidArgument

if TYPE_CHECKING:
    from peloton.client import Discovery
    from peloton.client.extensions import LocalCluster

ROLES = ("jobmgr", "resmgr", "hostmgr")
NAMES = {
    "cluster": ("-e/--clusterName", "CLUSTER_NAME"),
    "zk_servers": ("-z/--zkservers", "ZK_SERVERS"),
    "jobmgr": ("-m/--jobmgr", "JOBMGR_URL"),
    "resmgr": ("-v/--resmgr", "RESMGR_URL"),
    "hostmgr": ("-u/--hostmgr", "HOSTMGR_URL"),
}
"""Flag and variable of the environment, by parameter."""


@dataclass(frozen=True, slots=True)
class TargetSource:
    """What the flags or the environment give to find a cluster by."""

    cluster: str = ""
    zk_servers: tuple[str, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    """By role."""

    @staticmethod
    def of(values: Mapping[str, Any]) -> TargetSource:
        """Take parameters by name, ignoring empty ones."""
        addresses = {role: values[role] for role in ROLES if values.get(role)}
        return TargetSource(values.get("cluster") or "", tuple(values.get("zk_servers") or ()), addresses)

    def names(self, source: int) -> list[str]:
        """Return the names of what is given: flags (source 0) or variables (1)."""
        whole = [name for name in ("cluster", "zk_servers") if getattr(self, name)]
        return [NAMES[name][source] for name in (*whole, *self.addresses)]


@dataclass(frozen=True, slots=True)
class Found:
    """The cluster that a command talks to."""

    discovery: Discovery
    local: LocalCluster | None = None
    """The cluster where it is one of this machine's own."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Everything that is given to find the daemons by."""

    flags: TargetSource = TargetSource()
    environment: TargetSource = TargetSource()
    zk_root: str = "/peloton"
    timeout: float = 20.0
    """Seconds to wait for ZooKeeper."""
    zk_tls: tuple[str | None, str | None, str | None] | None = None
    """Where ZooKeeper is asked by TLS, the files of authorities, of the own certificate and of its key."""

    def found(self, say: Callable[[str], object]) -> Found:
        """Return how to find the daemons.

        Raises UsageError for contradictions, PelotonError for a cluster that cannot be found.
        """
        from peloton.client.discovery import UrlDiscovery

        chosen = self._chosen()
        servers = joined(chosen.zk_servers)
        if chosen.cluster:
            from peloton.client.clusters import zookeeper_of

            servers = zookeeper_of(chosen.cluster)
        if servers:
            return Found(self._by_zookeeper(servers))
        if chosen.addresses:
            return Found(UrlDiscovery(chosen.addresses))
        return self._local(say) or Found(UrlDiscovery({}))

    def _chosen(self) -> TargetSource:
        flags, environment = self.flags, self.environment
        if flags.cluster or flags.zk_servers:
            return _consistent(flags, 0)
        if flags.addresses:  # of the environment, addresses only
            return TargetSource(addresses={**environment.addresses, **flags.addresses})
        return _consistent(environment, 1)

    def _by_zookeeper(self, servers: str) -> Discovery:
        from peloton.client.discovery import ZooKeeperDiscovery

        tls = None
        if self.zk_tls is not None:
            from peloton.client.tls import Tls

            tls = Tls(*(file or "" for file in self.zk_tls))
        return ZooKeeperDiscovery(servers, self.zk_root, self.timeout, tls, patient=False)

    def _local(self, say: Callable[[str], object]) -> Found | None:
        """Return how to find a minicluster that runs on this machine, if there is one."""
        from peloton.client.discovery import LocalDiscovery
        from peloton.client.extensions import find_local_cluster

        cluster = find_local_cluster()
        if cluster is None:
            return None
        if cluster.notice:
            say(f"peloton: {cluster.notice}")
        if cluster.zookeeper:
            return Found(self._by_zookeeper(cluster.zookeeper), cluster)
        return Found(LocalDiscovery(cluster.membership), cluster)


def joined(servers: Iterable[str]) -> str:
    """Join lists of ZooKeeper servers into one: `a:2181,b:2181/path`.

    Raises InvalidArgument where their paths differ.
    """
    parts = [part.removeprefix("zk://") for text in servers for part in re.split(r"[,\s]+", text)]
    split = [part.partition("/") for part in parts if part]
    paths = list(dict.fromkeys(slash + path for _, slash, path in split if path))
    if len(paths) > 1:
        raise InvalidArgument(
            "zkservers", ",".join(parts), f"below one path: there are {' and '.join(paths)}"
        )
    return ",".join(dict.fromkeys(host for host, _, _ in split)) + "".join(paths)


def _consistent(given: TargetSource, source: int) -> TargetSource:
    """Return the source itself. Raises UsageError where it names more than one cluster."""
    ways = bool(given.cluster) + bool(given.zk_servers) + bool(given.addresses)
    if ways > 1:
        which = " and ".join(given.names(source))
        hint = (
            "leave out one of them" if source == 0 else "unset one, or give flags, which beat the environment"
        )
        raise click.UsageError(
            f"{which} do not go together: a command speaks to one cluster, by its name, by its ZooKeeper, "
            f"or by the addresses of its daemons; {hint}"
        )
    return given
