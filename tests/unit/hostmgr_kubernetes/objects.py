"""Nodes and pods for tests."""

from __future__ import annotations

from typing import Any

from hostmgr.kubernetes.core.cluster import ClusterRules, KubernetesCluster
from hostmgr.kubernetes.core.instructions import Turn
from hostmgr.kubernetes.core.nodes import Node
from hostmgr.kubernetes.core.pods import Container, Pod
from peloton.model.resources import Resources

NAMESPACE = "peloton"
JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
RUN = f"{JOB}-0-1"
ONE = Resources.of(cpu=1, memory=100)


def node(name: str = "n1", **changes: Any) -> Node:
    """Return a node of 4 cores and 1,000 MB."""
    total = Resources.of(cpu=4, memory=1000, disk=5000)
    return Node(**{"name": name, "uid": f"uid-{name}", "total": total, "pods": 10, **changes})


def pod(name: str = RUN, **changes: Any) -> Pod:
    """Return a pod of one core, ours unless it is said to be foreign."""
    given = {
        "namespace": NAMESPACE, "name": name, "uid": f"uid-{name}", "node": "n1", "requests": ONE,
        "ports": frozenset(), "ours": True, "phase": "Pending", **changes,
    }  # fmt: skip
    return Pod(**given)


def running(name: str = RUN, **changes: Any) -> Pod:
    return pod(name, **{"phase": "Running", "container": Container("running"), **changes})


def ended(code: int = 0, name: str = RUN, **changes: Any) -> Pod:
    phase = "Failed" if code else "Succeeded"
    container = Container("terminated", "Error" if code else "Completed", exit_code=code)
    return pod(name, **{"phase": phase, "container": container, **changes})


def connected(*nodes: Node, **rules: Any) -> KubernetesCluster:
    """Return a connected cluster whose first turn is taken."""
    cluster = KubernetesCluster(ClusterRules(NAMESPACE, **rules))
    cluster.replace_nodes(nodes or (node(),), 0.0)
    cluster.replace_pods(())
    cluster.connected()
    cluster.take()
    return cluster


def states(turn: Turn) -> list[tuple[str, str, str]]:
    """Return run, state and reason of the statuses of a turn."""
    return [(each.run, each.state.name, each.reason) for each in turn.statuses]
