"""What hostmgr may do with pods of others by deploy/kubernetes/foreign-pods.yaml: no more than it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.core.foreign import ForeignRules
from hostmgr.kubernetes.manifest import PodRules
from peloton.api.v0.task import task_pb2
from peloton.clock import SystemClock
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.model.foreign_pod import Told
from peloton.model.resources import Resources
from peloton.model.task import Launch
from tests.contract.backend.recorder import Recorder
from tests.contract.backend.systems import NAMESPACE
from tests.kubernetes import pod_groups
from tests.kubernetes.real import RealKubernetes
from tests.kubernetes.rights import (
    EXISTS,
    FILE,
    FOLDER,
    SECONDS,
    Right,
    Rights,
    is_refused,
    named,
    noted,
    rights,
)

FOREIGN = FOLDER / "foreign-pods.yaml"
TEAM = "team-a"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
ONE = Resources.of(cpu=0.1, memory=16)


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rights]:
    system = RealKubernetes(tmp_path_factory.mktemp("rights"))
    try:
        system.start()
        yield Rights(system, FILE, FOREIGN)
    finally:
        system.stop()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return noted(monkeypatch)


async def everything(granted: Rights) -> None:
    """Bind pods, tell their owners, delete and evict them. Raises AssertionError where that is not done."""
    async with ApiClient(granted.admin) as admin:
        await begin(admin)
        backend = KubernetesBackend(
            ApiClient(granted.access), "", "", ClusterRules(NAMESPACE), PodRules(NAMESPACE), SystemClock(),
            foreign=ForeignRules(enabled=True),
        )  # fmt: skip
        leader = Recorder(backend)
        try:
            await leader.connected()
            deleted, evicted, taken = [await make(admin, name) for name in ("deleted", "evicted", "taken")]
            for text in ("first", "second"):
                backend.foreign.tell([Told(deleted, "Waiting", text)])
                await leader.until(lambda: not backend.foreign.waiting, "its owner is told")
            await bind(leader, deleted)
            await bind(leader, evicted)
            await leader.runs(f"{deleted}-0-1")
            await leader.runs(f"{evicted}-0-1")
            backend.kill([(f"{deleted}-0-1", "")])
            await leader.ends(f"{deleted}-0-1")
            backend.kill([(f"{evicted}-0-1", "")], maintenance=True)
            await leader.ends(f"{evicted}-0-1")
            target = {"apiVersion": "v1", "kind": "Node", "name": "host0"}
            await admin.call(
                "POST", f"{PODS}/taken/binding", {"metadata": {"name": "taken"}, "target": target}
            )
            await bind(leader, taken)
            await leader.ends(f"{taken}-0-1")
        finally:
            await leader.stop()


async def begin(admin: ApiClient) -> None:
    """Make the namespace of the team, without pods."""
    try:
        await admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
    except ApiError as error:
        assert error.status == EXISTS, error
    await admin.call("DELETE", PODS, {"gracePeriodSeconds": 0})
    try:
        await admin.call("POST", pod_groups.KINDS, pod_groups.KIND)
    except ApiError as error:
        assert error.status == EXISTS, error
    async with asyncio.timeout(SECONDS):
        while not await served(admin):  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.1)


async def served(admin: ApiClient) -> bool:
    """Return whether the API server has the kind PodGroup already."""
    try:
        await admin.call("GET", pod_groups.path_of(TEAM), limit=1)
    except ApiError as error:
        assert error.status == 404, error
        return False
    return True


async def make(admin: ApiClient, name: str) -> str:
    """Create a pod; return its uid."""
    container: dict[str, Any] = {"name": "main", "image": "process", "command": ["sleep", "1000"]}
    container["resources"] = {"requests": {"cpu": "100m", "memory": "16Mi"}}
    spec = {"schedulerName": "peloton", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    metadata = {"name": name, "annotations": {"peloton/pool": "/team"}}
    made = await admin.call("POST", PODS, {"metadata": metadata, "spec": {**spec, "containers": [container]}})
    return str(made["metadata"]["uid"])


async def bind(leader: Recorder, uid: str) -> None:
    source = leader.backend.foreign
    assert source is not None
    pod = await leader.until(lambda: source.get(uid), "the pod is seen")  # type: ignore[attr-defined]
    config = task_pb2.TaskConfig()
    config.foreignPod.CopyFrom(task_pb2.ForeignPod(namespace=TEAM, name=pod.name, uid=uid))
    await leader.until(lambda: leader.offers, "an offer")
    leader.launch(Launch(f"{uid}-0-1", ONE, config))


async def test_hostmgr_has_the_rights_that_it_needs(granted: Rights, refused: list[str]) -> None:
    await everything(granted)
    assert not refused


@pytest.mark.parametrize("right", rights(FOREIGN), ids=named)
async def test_hostmgr_has_no_right_that_it_does_not_need(
    granted: Rights, refused: list[str], right: Right
) -> None:
    await is_refused(granted, refused, right, everything(granted))
