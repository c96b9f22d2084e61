"""Names of the hosts of a named Mesos cluster, and the label that tells it (`peloton.model.cluster`)."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.model.cluster import LABEL, in_cluster


class HostNames:
    """Name hosts in messages of Mesos as Peloton does. Without a name of the cluster nothing is changed."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def name(self, host: mesos_pb2.Offer | mesos_pb2.AgentInfo) -> None:
        """Put the host's name in Peloton into its message, and the cluster among its attributes."""
        if not self._cluster:
            return
        host.hostname = in_cluster(self._cluster, host.hostname)
        host.attributes.add(name=LABEL, type=mesos_pb2.Value.TEXT).text.value = self._cluster

    def host(self, machine: str) -> str:
        """Return the name in Peloton of a machine of Mesos."""
        return in_cluster(self._cluster, machine)
