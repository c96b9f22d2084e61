"""Nodes of Kubernetes that run nothing: each pod that is bound to one is said to run until it is deleted.

    python -m benchmarks.fake_kubelets --kubeconfig FILE [--nodes 10]

One process for all nodes: it makes them, renews their leases, and patches the statuses of their pods.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from minicluster.kubernetes.kubelet.node import node_object, register, renew_lease
from minicluster.kubernetes.kubelet.pod_status import text_of
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Replaced
from peloton.kubernetes.tasks import until_first_ends

CALLS_AT_ONCE = 16
RENEW_SECONDS = 10.0
AMOUNTS = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti"}
PODS_EACH = "2000"
_GONE = (404, 409)
_UNTAINTED = {"spec": {"taints": None}}


class FakeKubelets:
    """Move pods through their life."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._due: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self._said: set[tuple[str, str]] = set()
        """What was queued already: uid, and what is to be done."""

    async def run(self, nodes: int) -> NoReturn:
        """Make nodes, and follow their pods for ever."""
        names = [f"fake{number}" for number in range(nodes)]
        for name in names:
            node = node_object(name, AMOUNTS, {}, "127.0.0.1")
            for kind in ("capacity", "allocatable"):
                node["status"][kind] = {**AMOUNTS, "pods": PODS_EACH}
            await renew_lease(self._client, name)
            await register(self._client, node)
            # The API server adds a taint to new nodes, which a controller takes away; none runs here.
            await self._client.call("PATCH", f"/api/v1/nodes/{name}", _UNTAINTED, content_type=MERGE)
        print("ready", flush=True)
        works = [self._work() for _ in range(CALLS_AT_ONCE)]
        following = follow(self._client, "/api/v1/pods", self._take, fieldSelector="spec.nodeName!=")
        await until_first_ends(self._renew(names), following, *works)
        raise AssertionError("these works do not end")

    async def _renew(self, names: list[str]) -> NoReturn:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for name in names:
                await renew_lease(self._client, name)

    def _take(self, change: Change) -> None:
        pods = change.objects if isinstance(change, Replaced) else [change.object]
        for pod in pods if isinstance(change, Replaced | Changed) else ():
            self._judge(pod)

    def _judge(self, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        what = "delete" if metadata.get("deletionTimestamp") else "run"
        if (metadata["uid"], what) in self._said or (what == "run" and pod["status"]["phase"] != "Pending"):
            return
        self._said.add((metadata["uid"], what))
        name = pod["spec"]["containers"][0]["name"]
        self._due.put_nowait(
            (f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", what, name)
        )

    async def _work(self) -> NoReturn:
        while True:
            path, what, container = await self._due.get()
            try:
                if what == "delete":
                    await self._client.call("DELETE", path, {"gracePeriodSeconds": 0})
                else:
                    await self._client.call(
                        "PATCH", f"{path}/status", _running(container), content_type=MERGE
                    )
            except ApiError as error:
                if error.status not in _GONE:
                    raise


def _running(container: str) -> dict[str, Any]:
    now = text_of(time.time())
    state = {
        "name": container, "image": "fake", "imageID": "", "restartCount": 0, "ready": True, "started": True,
        "state": {"running": {"startedAt": now}},
    }  # fmt: skip
    conditions = [
        {"type": kind, "status": "True"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": [state]}
    return {"status": status}


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=10)
    options = parser.parse_args()
    async with ApiClient(from_kubeconfig(options.kubeconfig)) as client:
        await FakeKubelets(client).run(options.nodes)


if __name__ == "__main__":
    asyncio.run(main())
