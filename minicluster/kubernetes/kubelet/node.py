"""The node that a kubelet registers, and the lease by which it shows that it lives."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from peloton.kubernetes.client import MERGE, ApiClient, ApiError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 40
MOST_PODS = 250
PORTS = "peloton/ports"
"""The annotation by which hostmgr knows them."""
_CONFLICT, _NOT_FOUND = 409, 404


def node_object(
    name: str, amounts: Mapping[str, str], labels: Mapping[str, str], ip: str, ports: str = "", port: int = 0
) -> dict[str, Any]:
    """Return a node that is ready, with these amounts.

    `ports` are those for tasks of Peloton, `port` is that of the kubelet's server; 0: it has none.
    """
    all_amounts = {**amounts, "pods": str(MOST_PODS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}, **_annotated(ports)},
        "status": {
            "capacity": all_amounts,
            "allocatable": all_amounts,
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _annotated(ports: str) -> dict[str, Any]:
    return {"annotations": {PORTS: ports}} if ports else {}


async def register(client: ApiClient, node: dict[str, Any]) -> None:
    """Create the node, or bring what is there up to date. Raise ApiError, Unavailable."""
    name = node["metadata"]["name"]
    try:
        await client.call("POST", "/api/v1/nodes", node)
    except ApiError as error:
        if error.status != _CONFLICT:
            raise
        labels = {"metadata": {"labels": node["metadata"]["labels"]}}
        await client.call("PATCH", f"/api/v1/nodes/{name}", labels, content_type=MERGE)
    await client.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": node["status"]}, content_type=MERGE)


async def renew_lease(client: ApiClient, name: str) -> None:
    """Show that the node lives. Raise ApiError, Unavailable."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": stamp}
    try:
        await client.call("PATCH", f"{LEASES}/{name}", {"spec": spec}, content_type=MERGE)
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        lease = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec,
        }  # fmt: skip
        await client.call("POST", LEASES, lease)
