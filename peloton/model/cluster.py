"""Names of Mesos clusters, and of hosts in one of several clusters.

One cluster may have no name: an installation with a single cluster. Its hosts have the names that Mesos
gives them. The hosts of a named cluster are `<cluster>/<hostname>` everywhere outside of the Mesos adapter:
equal names in two clusters stay apart, in the store too, and a host's name tells which cluster to call.
"""

from __future__ import annotations

import re

UNNAMED = ""
"""The name of the cluster without one."""
LABEL = "cluster"
"""The host label with the name of the cluster."""
SEPARATOR = "/"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z")


def is_cluster_name(text: str) -> bool:
    """Return whether a text may name a cluster: up to 63 letters, digits and `_.-`, no sign at an end."""
    return _NAME.match(text) is not None


def cluster_of(hostname: str) -> str:
    """Return the cluster of a host, given by its name in Peloton."""
    cluster, separator, _ = hostname.partition(SEPARATOR)
    return cluster if separator else UNNAMED


def in_cluster(cluster: str, hostname: str) -> str:
    """Return the name in Peloton of a host that Mesos calls `hostname`."""
    return f"{cluster}{SEPARATOR}{hostname}" if cluster else hostname


def mesos_hostname(hostname: str) -> str:
    """Return the name in Mesos of a host, given by its name in Peloton."""
    cluster, separator, rest = hostname.partition(SEPARATOR)
    return rest if separator else cluster
