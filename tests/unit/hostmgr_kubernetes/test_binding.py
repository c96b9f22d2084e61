"""Binding pods of others against an API server whose faults a test chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hostmgr.backend.interface import Backend
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.core.foreign import ForeignRules
from hostmgr.kubernetes.core.pods import EARLIER_POD_GROUP, POD_GROUP
from hostmgr.kubernetes.manifest import PodRules
from peloton.api.v0.task import task_pb2
from peloton.clock import SystemClock
from peloton.errors import InvalidArgument
from peloton.kubernetes.access import Access
from peloton.kubernetes.client import ApiClient
from peloton.model.foreign_pod import Told
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.model.task import Launch
from tests.contract.backend.recorder import Recorder, leading
from tests.servers.api_server import ApiServer, Key

POD: Key = ("pods", "team", "web")
ONE = Resources.of(cpu=1, memory=100)


class Cluster:
    """An API server with one node, and a pod that waits."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        amounts = {"cpu": "4", "memory": "1000Mi", "ephemeral-storage": "1000Mi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        api.put(
            ("nodes", "", "n1"), {"metadata": {}, "status": {"allocatable": amounts, "conditions": ready}}
        )
        requests = {"requests": {"cpu": "1", "memory": "100Mi"}}
        container = {"name": "main", "image": "i", "resources": requests}
        spec = {"schedulerName": "peloton", "containers": [container], "terminationGracePeriodSeconds": 5}
        made = {
            "metadata": {"annotations": {"peloton/pool": "/team"}},
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        self.uid = str(api.put(POD, made)["metadata"]["uid"])

    @property
    def run(self) -> str:
        return f"{self.uid}-0-1"

    @asynccontextmanager
    async def backend(self, framework_id: str = "") -> AsyncIterator[Backend]:
        client = ApiClient(Access(self.api.url), timeout=5.0)
        yield KubernetesBackend(
            client, "", framework_id, ClusterRules("peloton"), PodRules("peloton", "i"), SystemClock(),
            foreign=ForeignRules(enabled=True),
        )  # fmt: skip

    def launch(self, **changes: str) -> Launch:
        config = task_pb2.TaskConfig()
        given = {"namespace": "team", "name": "web", "uid": self.uid, **changes}
        config.foreignPod.CopyFrom(task_pb2.ForeignPod(**given))
        return Launch(self.run, ONE, config)

    def pod(self) -> dict[str, Any]:
        return self.api.objects[POD]

    def bindings(self) -> int:
        return len([path for method, path in self.api.calls if path.endswith("/binding")])

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It ends with the fixture."""

    stop_server = start_server = start

    def kill_host(self, name: str) -> None:
        self.api.remove(("nodes", "", name))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ApiServer().running() as api:
        yield Cluster(api)


@pytest.fixture
async def leader(cluster: Cluster) -> AsyncIterator[Recorder]:
    async with leading(cluster) as it:
        yield it


def node_of(cluster: Cluster) -> str:
    return str(cluster.pod()["spec"].get("nodeName", ""))


async def test_a_pod_is_bound_and_its_phases_are_those_of_the_run(cluster: Cluster, leader: Recorder) -> None:
    leader.launch(cluster.launch())
    await leader.until(lambda: node_of(cluster) == "n1", "the pod is bound")
    assert cluster.pod()["metadata"]["annotations"]["peloton/run"] == cluster.run
    cluster.api.change(POD, {"status": {"phase": "Running"}})
    await leader.runs(cluster.run)
    cluster.api.change(POD, {"status": {"phase": "Succeeded"}})
    assert (await leader.ends(cluster.run)).status.state is TaskState.SUCCEEDED
    assert leader.states(cluster.run) == [TaskState.STARTING, TaskState.RUNNING, TaskState.SUCCEEDED]
    assert POD in cluster.api.objects


async def test_a_lost_answer_binds_nothing_twice(cluster: Cluster, leader: Recorder) -> None:
    cluster.api.after_effect.append("POST")
    leader.launch(cluster.launch())
    await leader.until(lambda: TaskState.STARTING in leader.states(cluster.run), "the pod is bound")
    await leader.until(lambda: cluster.bindings() == 2, "the call is repeated")
    assert leader.states(cluster.run) == [TaskState.STARTING]


async def test_a_pod_that_is_gone_fails_its_run(cluster: Cluster, leader: Recorder) -> None:
    launch = cluster.launch()
    cluster.api.fail_next.append(("POST", 404, "no such pod"))
    cluster.api.fail_next.append(("GET", 404, "no such pod"))
    leader.launch(launch)
    end = (await leader.ends(cluster.run)).status
    assert (end.state, end.message) == (TaskState.FAILED, "the pod was deleted before it was bound")


async def test_a_pod_that_somebody_else_has_bound_fails_its_run(cluster: Cluster, leader: Recorder) -> None:
    launch = cluster.launch()
    cluster.api.change(POD, {"spec": {"nodeName": "n9"}})
    leader.launch(launch)
    end = (await leader.ends(cluster.run)).status
    assert (end.state, end.message) == (TaskState.FAILED, "somebody else has bound the pod to n9")


async def test_a_refusal_for_now_lets_the_run_be_placed_again(cluster: Cluster, leader: Recorder) -> None:
    cluster.api.fail_next.append(("POST", 403, "no right to bind"))
    leader.launch(cluster.launch())
    end = (await leader.ends(cluster.run)).status
    assert (end.state, end.reason) == (TaskState.LOST, "INVALID_OFFERS")
    assert "no right to bind" in end.message
    assert node_of(cluster) == ""


async def test_a_run_that_is_killed_before_its_pod_is_bound_takes_the_pod_with_it(
    cluster: Cluster, leader: Recorder
) -> None:
    leader.launch(cluster.launch())
    leader.backend.kill([(cluster.run, "")])
    assert (await leader.ends(cluster.run)).status.state is TaskState.KILLED
    await leader.until(lambda: POD not in cluster.api.objects, "the pod is gone")
    assert cluster.bindings() == 0


async def test_a_new_leader_goes_on_with_a_pod_that_was_bound(cluster: Cluster, leader: Recorder) -> None:
    leader.launch(cluster.launch())
    await leader.until(lambda: node_of(cluster) == "n1", "the pod is bound")
    await leader.stop()
    async with leading(cluster) as other:
        other.backend.reconcile([])
        await other.until(lambda: TaskState.STARTING in other.states(cluster.run), "it is found")
        other.backend.kill([(cluster.run, "")])
        await other.until(lambda: cluster.pod()["metadata"].get("deletionTimestamp"), "it is deleted")
        assert cluster.pod()["metadata"]["deletionGracePeriodSeconds"] == 5
        cluster.api.remove(POD)
        assert (await other.ends(cluster.run)).status.state is TaskState.KILLED


@pytest.mark.parametrize("wrong", [{"uid": "another"}, {"uid": ""}])
async def test_only_the_pod_of_the_run_can_be_bound(
    cluster: Cluster, leader: Recorder, wrong: dict[str, str]
) -> None:
    with pytest.raises(InvalidArgument, match="foreignPod"):
        leader.launch(cluster.launch(**wrong))
    other = {**cluster.pod(), "metadata": {**cluster.pod()["metadata"]}}
    uid = str(cluster.api.put(("pods", "team", "other"), other)["metadata"]["uid"])
    source = leader.backend.foreign
    assert source is not None
    await leader.until(lambda: source.get(uid) is not None, "the pod is seen")  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=f"a pod of job {cluster.uid}"):
        leader.launch(cluster.launch(uid=uid))


async def test_who_follows_pods_sees_them_and_tells_their_owners(cluster: Cluster, leader: Recorder) -> None:
    source = leader.backend.foreign
    assert source is not None
    assert source.enabled
    found = await source.changes("", 0, 1.0)
    assert [(each.name, each.pool, each.waits) for each in found.pods] == [("web", "/team", True)]
    for text in ("the first", "the second"):
        source.tell([Told(cluster.uid, "Waiting", text), Told("nobody", "Waiting", text)])
        await leader.until(lambda text=text: _events(cluster) == [("Waiting", text)], text)  # type: ignore[misc]
    cluster.api.remove(POD)
    found = await source.changes(found.stream, found.last, 5.0)
    assert (found.pods, found.gone) == ((), (cluster.uid,))


GROUP: Key = ("podgroups", "team", "g")


def _gang(leader: Recorder, cluster: Cluster) -> tuple[str, int, str]:
    source = leader.backend.foreign
    assert source is not None
    pod = source.get(cluster.uid)  # type: ignore[attr-defined]
    return ("", 0, "none") if pod is None else (pod.gang, pod.gang_size, pod.refusal)


@pytest.mark.parametrize("label", [POD_GROUP, EARLIER_POD_GROUP])
async def test_pod_groups_are_followed(cluster: Cluster, label: str) -> None:
    """Also those that come, change and go later than their pods."""
    cluster.api.unknown.clear()
    cluster.api.put(GROUP, {"spec": {"minMember": 2}})
    cluster.api.change(POD, {"metadata": {"labels": {label: "g"}}})
    async with leading(cluster) as leader:
        assert _gang(leader, cluster) == ("g", 2, ""), "it is known before anything is told"
        cluster.api.change(GROUP, {"spec": {"minMember": 3}})
        await leader.until(lambda: _gang(leader, cluster) == ("g", 3, ""), "the change is seen")
        cluster.api.cut()
        cluster.api.remove(GROUP)
        await leader.until(lambda: "there is no PodGroup 'g'" in _gang(leader, cluster)[2], "it is gone")
        cluster.api.put(GROUP, {"spec": {"minMember": 1}})
        await leader.until(lambda: _gang(leader, cluster) == ("g", 1, ""), "it is back")


@pytest.mark.parametrize("forbidden", [False, True])
async def test_pod_groups_are_read_once_there_is_the_kind_and_the_right(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, forbidden: bool
) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.pod_groups.AGAIN_SECONDS", 0.05)
    if forbidden:
        cluster.api.unknown.clear()
        cluster.api.forbidden.add("podgroups")
    cluster.api.change(POD, {"metadata": {"labels": {EARLIER_POD_GROUP: "g"}}})
    async with leading(cluster) as leader:
        assert _gang(leader, cluster) == ("", 0, "")
        cluster.api.put(GROUP, {"spec": {"minMember": 2}})
        cluster.api.unknown.clear()
        cluster.api.forbidden.clear()
        await leader.until(lambda: _gang(leader, cluster) == ("g", 2, ""), "the kind is there")


def _events(cluster: Cluster) -> list[tuple[str, str]]:
    return [
        (wire["reason"], wire["message"]) for key, wire in cluster.api.objects.items() if key[0] == "events"
    ]
