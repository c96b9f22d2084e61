"""Stateful jobs on a real API server: the tests of volumes that concern no agent, and claims."""

from __future__ import annotations

import asyncio
from typing import Any

from minicluster.servers.kubernetes import NAMESPACE
from peloton.api.v0.task import task_pb2
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.test_cli_services import peloton
from tests.cluster.test_volumes import (
    SECONDS,
    Database,
    test_a_volume_is_deleted_only_while_nobody_uses_it,
    test_an_instance_comes_back_to_its_volume,
    test_the_walk_of_the_user_guide,
)

__all__ = [
    "peloton",
    "test_a_volume_is_deleted_only_while_nobody_uses_it",
    "test_an_instance_comes_back_to_its_volume",
    "test_the_walk_of_the_user_guide",
]
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


def listed(harness: Harness, path: str) -> dict[str, dict[str, Any]]:
    async def ask() -> dict[str, Any]:
        async with ApiClient(from_kubeconfig(harness.cluster.layout.kubeconfig)) as client:
            return await client.call("GET", path)

    return {each["metadata"]["name"]: each for each in asyncio.run(ask())["items"]}


def test_a_volume_is_a_claim_that_is_bound_to_storage_of_its_node(harness: Harness) -> None:
    database = Database(harness)
    host = database.running(1).host
    [volume_id] = database.volumes()
    claim = listed(harness, CLAIMS)[volume_id]
    assert claim["status"]["phase"] == "Bound"
    assert claim["spec"]["resources"]["requests"]["storage"] == str(100 * 2**20)
    assert not claim["metadata"].get("ownerReferences")
    storage = listed(harness, "/api/v1/persistentvolumes")[claim["spec"]["volumeName"]]
    (term,) = storage["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [host]
    database.act("Stop")
    wait_for(lambda: harness.tasks(database.id)[0].runtime.state == task_pb2.KILLED, SECONDS)
    database.delete(volume_id)
    wait_for(lambda: volume_id not in listed(harness, CLAIMS), SECONDS)
    wait_for(lambda: claim["spec"]["volumeName"] not in listed(harness, "/api/v1/persistentvolumes"), SECONDS)


def test_a_volume_outlives_its_kubelet_and_leaders(harness: Harness) -> None:
    database = Database(harness)
    host = database.running(1).host
    [volume_id] = database.volumes()
    kubelet = next(
        part.name for part in harness.cluster.components() if f"--node={host}" in getattr(part, "flags", ())
    )
    for names in ([kubelet], ["hostmgr0", "resmgr0"]):
        harness.cluster.kill(names)
        harness.cluster.start(names)
    database.act("Restart")
    assert database.running(2).host == host
    wait_for(lambda: database.lines(volume_id) == 2, SECONDS)
    assert set(database.volumes()) == {volume_id}
