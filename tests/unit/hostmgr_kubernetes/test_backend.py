"""The backend against an API server whose faults a test chooses."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hostmgr.backend.interface import Backend
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.manifest import PodRules
from peloton.clock import SystemClock
from peloton.errors import InvalidArgument, Unavailable
from peloton.kubernetes.access import Access
from peloton.kubernetes.client import ApiClient
from peloton.model.resources import Resources, milli
from peloton.model.states import TaskState
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from peloton.wire.secrets import add_secret
from tests.contract.backend.recorder import Recorder, leading
from tests.servers.api_server import ApiServer

NODE = ("nodes", "", "n1")


class Server:
    """An API server with one node, on which a test plays the kubelet."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.pods = PodRules("peloton", "i")
        self.fence: list[Exception] = []
        amounts = {"cpu": "4", "memory": "1000Mi", "ephemeral-storage": "1000Mi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        api.put(NODE, {"metadata": {}, "status": {"allocatable": amounts, "conditions": ready}})

    @asynccontextmanager
    async def backend(self, framework_id: str = "") -> AsyncIterator[Backend]:
        client = ApiClient(Access(self.api.url), timeout=5.0)
        rules = ClusterRules("peloton", keep_finished=0.0)
        clock = SystemClock()
        yield KubernetesBackend(client, "west", framework_id, rules, self.pods, clock, fence=self._check)

    def _check(self) -> None:
        if self.fence:
            raise self.fence[0]

    def pod(self, run: str) -> dict[str, Any]:
        return self.api.objects["pods", "peloton", run]

    def has(self, run: str) -> bool:
        return ("pods", "peloton", run) in self.api.objects

    def runs(self, run: str) -> None:
        self.status(run, "Running", {"running": {}})

    def ends(self, run: str, code: int = 0) -> None:
        self.status(run, "Failed" if code else "Succeeded", {"terminated": {"exitCode": code}})

    def status(self, run: str, phase: str, state: dict[str, Any]) -> None:
        statuses = [{"name": "task", "state": state}]
        status = {"phase": phase, "containerStatuses": statuses}
        self.api.change(("pods", "peloton", run), {"status": status})

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It ends with the fixture."""

    stop_server = start_server = start

    def kill_host(self, name: str) -> None:
        self.api.remove(("nodes", "", name))


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with ApiServer().running() as it:
        yield it


@pytest.fixture
def server(api: ApiServer) -> Iterator[Server]:
    """Give a server without the pods of the tests before."""
    for key in [key for key in api.objects if key[0] != "namespaces"]:
        api.remove(key)
    yield Server(api)
    api.fail_next.clear()
    api.faulty = "pods"
    api.after_effect.clear()
    api.budgets.clear()
    api.judge = lambda pod: ""
    api.forbidden.clear()


@pytest.fixture
async def leader(server: Server) -> AsyncIterator[Recorder]:
    async with leading(server) as it:
        yield it


async def begun(server: Server, leader: Recorder) -> str:
    """Launch a run, and wait until it is reported to run."""
    run = leader.run()
    leader.launch(leader.task("x"))
    await leader.until(lambda: server.has(run), "the pod is created")
    server.runs(run)
    await leader.runs(run)
    return run


async def test_watches_that_are_cut_go_on(server: Server, leader: Recorder) -> None:
    run = await begun(server, leader)
    watches = server.api.watches
    server.api.cut()
    server.ends(run, 2)
    assert (await leader.ends(run)).status.message == "Command exited with status 2"
    await leader.until(lambda: server.api.watches > watches, "it watches again")
    assert not leader.disconnections
    assert len(leader.registrations) == 1


async def test_a_history_that_is_forgotten_is_read_anew(server: Server, leader: Recorder) -> None:
    run = await begun(server, leader)
    server.api.remove(("pods", "peloton", run))
    gone = f"{run}9"
    server.api.compact()
    server.api.cut()
    assert (await leader.ends(run)).status.state is TaskState.KILLED
    assert not leader.of(gone)
    assert not leader.disconnections
    other = leader.run(1)
    leader.launch(leader.task("x", 1))
    await leader.until(lambda: server.has(other), "it goes on")


async def test_an_answer_that_is_lost_starts_nothing_twice(server: Server, leader: Recorder) -> None:
    server.api.after_effect.append("POST")
    posts = len([call for call in server.api.calls if call[0] == "POST"])
    run = leader.run()
    leader.launch(leader.task("x"))
    await leader.until(lambda: server.has(run), "the pod is created")
    uid = server.pod(run)["metadata"]["uid"]
    await leader.until(
        lambda: len([call for call in server.api.calls if call[0] == "POST"]) == posts + 2,
        "it is tried again",
    )
    server.runs(run)
    await leader.runs(run)
    assert server.pod(run)["metadata"]["uid"] == uid
    assert not any(each.status.state.terminal for each in leader.of(run))


async def test_a_name_that_is_anothers_is_no_launch(server: Server, leader: Recorder) -> None:
    run = leader.run()
    server.api.put(("pods", "peloton", run), {"metadata": {}, "spec": {}})
    leader.launch(leader.task("x"))
    end = await leader.ends(run)
    assert (end.status.state, end.status.reason) == (TaskState.LOST, "INVALID_OFFERS")
    assert "already exists" in end.status.message


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [(403, TaskState.LOST, "INVALID_OFFERS"), (422, TaskState.FAILED, "TASK_INVALID")],
)
async def test_a_pod_that_is_refused(
    server: Server, leader: Recorder, status: int, state: TaskState, reason: str
) -> None:
    server.api.fail_next.append(("POST", status, "exceeded quota: team, requested: cpu=1"))
    run = leader.run()
    leader.launch(leader.task("x"))
    end = await leader.ends(run)
    assert (end.status.state, end.status.reason) == (state, reason)
    assert end.status.message == "Kubernetes has refused the pod: exceeded quota: team, requested: cpu=1"
    await leader.until(lambda: leader.free().cpu == 4000, "its room is free again")


async def test_credentials_that_are_refused_make_no_task_fail(server: Server, leader: Recorder) -> None:
    """A token may end between two calls."""
    server.api.fail_next.append(("POST", 401, "Unauthorized"))
    run = await begun(server, leader)
    assert leader.states(run) == [TaskState.RUNNING] and not leader.disconnections


async def test_a_stale_leader_changes_nothing(server: Server, leader: Recorder) -> None:
    server.fence.append(Unavailable("this hostmgr no longer leads"))
    calls = len(server.api.calls)
    with pytest.raises(Unavailable, match="no longer leads"):
        leader.launch(leader.task("x"))
    with pytest.raises(Unavailable, match="no longer leads"):
        leader.backend.kill([(leader.run(), "")])
    assert not [call for call in server.api.calls[calls:] if call[0] != "GET"]


async def test_a_fence_that_falls_between_a_launch_and_its_call(server: Server, leader: Recorder) -> None:
    leader.launch(leader.task("x"))
    server.fence.append(Unavailable("this hostmgr no longer leads"))
    await leader.until(lambda: leader.disconnections, "the connection ends")
    assert not server.has(leader.run())
    server.fence.clear()
    await leader.until(lambda: len(leader.registrations) == 2, "it is connected again")
    leader.backend.reconcile([(leader.run(), "")])
    assert (await leader.ends(leader.run())).missing


async def test_a_burst_of_launches_and_kills(server: Server, leader: Recorder) -> None:
    runs = [leader.run(number) for number in range(40)]
    launches = [leader.task("x", number) for number in range(40)]
    for number, each in enumerate(launches):
        object.__setattr__(each, "resources", Resources.of(cpu=0.1, memory=10))
        assert each.mesos_task_id == runs[number]
    leader.launch(*launches)
    leader.backend.kill([(run, "") for run in runs[::2]])
    for run in runs[::2]:
        assert (await leader.ends(run)).status.state is TaskState.KILLED
    await leader.until(lambda: all(map(server.has, runs[1::2])), "the others are created")
    assert not any(
        server.has(run) and "deletionTimestamp" not in server.pod(run)["metadata"] for run in runs[::2]
    )


async def test_pods_are_deleted_after_their_ends_are_stored(server: Server, leader: Recorder) -> None:
    leader.acknowledging = False
    run = await begun(server, leader)
    server.ends(run)
    end = await leader.ends(run)
    began = time.monotonic()
    await leader.until(lambda: time.monotonic() > began + 1.5, "ticks")
    assert server.has(run), "its end is not stored yet"
    leader.backend.acknowledge([end.acknowledgement])
    await leader.until(lambda: not server.has(run), "it is deleted")


async def test_hosts_of_a_named_cluster(server: Server, leader: Recorder) -> None:
    (offer,) = leader.on_host()
    assert (offer.agent_id, offer.hostname) == ("n1", "west/n1")
    assert ("cluster", "west") in offer.labels
    (agent,) = (await leader.backend.agents()).agents
    assert agent.hostname == "west/n1"


async def test_a_namespace_that_was_made_anew_is_another_framework(server: Server, leader: Recorder) -> None:
    async with leading(server, "the uid of the namespace before") as other:
        assert other.removals == 1
        assert other.registrations[0].framework_id == leader.registrations[0].framework_id


async def test_quota(server: Server, leader: Recorder) -> None:
    assert await leader.backend.quota() == {}
    server.api.put(
        ("resourcequotas", "peloton", "q"), {"metadata": {}, "spec": {"hard": {"requests.cpu": "2500m"}}}
    )
    scoped = {"hard": {"requests.cpu": "1"}, "scopes": ["Terminating"]}
    server.api.put(("resourcequotas", "peloton", "s"), {"metadata": {}, "spec": scoped})
    assert await leader.backend.quota() == {"cpu": 2500}


async def test_what_only_mesos_has_is_refused(leader: Recorder) -> None:
    with pytest.raises(InvalidArgument, match="executor_id"):
        leader.backend.shut_down([("e", "n1")])
    leader.backend.shut_down([])
    statuses = leader.backend.killed_with_framework([(leader.run(), "n1")], "f", 1_000_000_000)
    (status,) = statuses
    assert status.status.reason == "FRAMEWORK_REMOVED"  # type: ignore[union-attr]


# Maintenance.

BUDGET = "The disruption budget web needs 1 healthy pods and has 1 currently"


async def test_a_budget_keeps_a_run_until_it_allows_its_eviction(server: Server, leader: Recorder) -> None:
    run = await begun(server, leader)
    server.api.budgets["*"] = BUDGET
    leader.backend.kill([(run, "n1")], maintenance=True)
    (problem,) = await leader.until(leader.backend.problems, "a problem")
    assert problem.text == (
        f"{leader.job}-0 stays on west/n1, which is in maintenance: Cannot evict pod as it would violate the "
        f"pod's disruption budget. {BUDGET}"
    )
    assert "deletionTimestamp" not in server.pod(run)["metadata"] and not leader.disconnections
    server.api.budgets.clear()
    await leader.until(lambda: "deletionTimestamp" in server.pod(run)["metadata"], "it is tried again")
    server.api.remove(("pods", "peloton", run))
    assert (await leader.ends(run)).status.state is TaskState.KILLED
    assert leader.backend.problems() == ()


async def test_a_kill_ends_at_once_what_a_budget_keeps(server: Server, leader: Recorder) -> None:
    run = await begun(server, leader)
    server.api.budgets["*"] = BUDGET
    leader.backend.kill([(run, "n1")], maintenance=True)
    await leader.until(leader.backend.problems, "a problem")
    leader.backend.kill([(run, "n1")])
    await leader.until(lambda: "deletionTimestamp" in server.pod(run)["metadata"], "it is deleted")
    assert leader.backend.problems() == ()


async def test_without_the_right_to_evict_a_run_stays_and_that_is_told(
    server: Server, leader: Recorder
) -> None:
    run = await begun(server, leader)
    server.api.forbidden.add("pods/eviction")
    leader.backend.kill([(run, "n1")], maintenance=True)
    (problem,) = await leader.until(leader.backend.problems, "a problem")
    assert "pods/eviction is forbidden" in problem.text and "rbac.yaml" in problem.remedy
    assert server.has(run) and not leader.disconnections


async def test_an_eviction_that_fails_in_the_server_ends_no_connection(
    server: Server, leader: Recorder
) -> None:
    """Such as with two budgets for one pod, of which the API server says HTTP status 500."""
    run = await begun(server, leader)
    server.api.fail_next.append(("POST", 500, "This pod has more than one PodDisruptionBudget"))
    leader.backend.kill([(run, "n1")], maintenance=True)
    (problem,) = await leader.until(leader.backend.problems, "a problem")
    assert "This pod has more than one PodDisruptionBudget" in problem.text
    await leader.until(lambda: "deletionTimestamp" in server.pod(run)["metadata"], "it is tried again")
    assert not leader.disconnections


# Templates.


async def test_nothing_is_offered_while_the_sites_template_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.trial.AGAIN_SECONDS", 0.05)
    server.pods = replace(server.pods, template={"spec": {"runtimeClassName": "gvisor"}})
    server.api.judge = lambda pod: f"no class {pod['spec']['runtimeClassName']}"
    async with server.backend() as backend:
        leader = Recorder(backend)
        try:
            (problem,) = await leader.until(backend.problems, "a problem")
            assert problem.level == "bad" and problem.text.endswith(
                "kubernetes.pod_template: no class gvisor"
            )
            await leader.until(lambda: leader.registrations, "a connection")
            assert not leader.offers and not server.api.pods()
            server.api.judge = lambda pod: ""
            await leader.until(lambda: leader.offers, "an offer")
            assert backend.problems() == () and not server.api.pods()
            assert (await begun(server, leader)) == leader.run()
            assert server.pod(leader.run())["spec"]["runtimeClassName"] == "gvisor"
        finally:
            await leader.stop()


async def test_a_quota_that_is_used_up_is_not_the_templates_fault(server: Server) -> None:
    server.pods = replace(server.pods, template={"spec": {"runtimeClassName": "gvisor"}})
    server.api.judge = lambda pod: "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4"
    async with leading(server) as leader:
        assert leader.offers and leader.backend.problems() == ()


async def test_a_job_that_may_set_nothing_is_refused_without_a_pod(server: Server, leader: Recorder) -> None:
    task = leader.task("x")
    task.payload.podTemplate = "spec: {hostIPC: true}"  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=r"podTemplate\.spec\.hostIPC: True is not allowed"):
        leader.launch(task)
    assert not server.api.pods()


async def test_a_task_is_tried_without_a_pod(server: Server) -> None:
    server.pods = replace(server.pods, job_fields=("spec.runtimeClassName",))
    async with leading(server) as leader:
        task = leader.task("x")
        task.payload.podTemplate = "spec: {runtimeClassName: gvisor}"  # type: ignore[attr-defined]
        assert not await leader.backend.try_task(task)
        server.api.judge = lambda pod: f"no class {pod['spec']['runtimeClassName']}"
        assert await leader.backend.try_task(task) == "no class gvisor"
        task.payload.podTemplate = "spec: {hostIPC: true}"  # type: ignore[attr-defined]
        assert "podTemplate.spec.hostIPC: True is not one of" in await leader.backend.try_task(task)
        assert not server.api.pods()


# Secrets.


def secret_task(leader: Recorder, instance: int = 0) -> Any:
    task = leader.task("x", instance)
    add_secret(task.payload, "/etc/key", b"content")  # type: ignore[arg-type]
    return task


async def test_secrets_are_there_before_the_pod_and_gone_at_its_end(server: Server, leader: Recorder) -> None:
    run = leader.run()
    begin = len(server.api.calls)
    leader.launch(secret_task(leader))
    await leader.until(lambda: server.has(run), "the pod is created")
    posts = [path.rpartition("/")[2] for method, path in server.api.calls[begin:] if method == "POST"]
    assert posts == ["secrets", "pods"]
    secret = server.api.objects["secrets", "peloton", run]
    assert secret["data"] == {"file-0": base64.b64encode(b"content").decode()}
    uid = server.pod(run)["metadata"]["uid"]
    await leader.until(lambda: owner(server, run) == uid, "the pod owns it")
    server.runs(run)
    await leader.runs(run)
    assert ("secrets", "peloton", run) in server.api.objects
    server.ends(run)
    await leader.ends(run)
    await leader.until(lambda: ("secrets", "peloton", run) not in server.api.objects, "it is gone")


def owner(server: Server, run: str) -> str:
    references = server.api.objects["secrets", "peloton", run]["metadata"].get("ownerReferences") or [{}]
    return str(references[0].get("uid"))


async def test_a_pod_that_is_refused_leaves_no_secret(server: Server, leader: Recorder) -> None:
    server.api.fail_next.append(("POST", 422, "not such a pod"))
    run = leader.run()
    leader.launch(secret_task(leader))
    end = await leader.ends(run)
    assert end.status.reason == "TASK_INVALID" and "content" not in end.status.message
    await leader.until(lambda: ("secrets", "peloton", run) not in server.api.objects, "it is gone")


async def test_secrets_without_a_pod_are_swept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.secrets.SWEEP_SECONDS", 0.05)
    left, held = "left-0-1", "held-0-1"
    for name in (left, held):
        labels = {"app.kubernetes.io/managed-by": "peloton"}
        server.api.put(("secrets", "peloton", name), {"metadata": {"labels": labels}})
    pod = {"metadata": {"labels": labels}, "spec": {"nodeName": "n1", "containers": []}, "status": {}}
    server.api.put(("pods", "peloton", held), pod)
    async with leading(server) as leader:
        await leader.until(lambda: ("secrets", "peloton", left) not in server.api.objects, "it is swept")
        assert ("secrets", "peloton", held) in server.api.objects


# Persistent volumes.


def stateful(leader: Recorder, create: bool = True, instance: int = 0) -> Launch:
    volume = VolumeMount(leader.run(), milli(100), "data", create)
    return replace(leader.task("x", instance), volume=volume)


async def test_a_claim_that_an_earlier_try_has_made_is_taken_over(server: Server, leader: Recorder) -> None:
    server.api.after_effect.append("POST")
    run = leader.run()
    leader.launch(stateful(leader))
    await leader.until(lambda: server.has(run), "the pod is created in spite of it")
    claims = [key for key in server.api.objects if key[0] == "persistentvolumeclaims"]
    assert claims == [("persistentvolumeclaims", "peloton", run)]


async def test_a_volume_whose_deletion_is_refused_is_offered_again(server: Server, leader: Recorder) -> None:
    run = leader.run()
    leader.launch(stateful(leader))
    await leader.until(lambda: server.has(run), "the pod is created")
    server.ends(run)
    found = await leader.until(lambda: leader.volume(run), "the volume is offered")
    assert found is not None
    server.api.fail_next.append(("DELETE", 403, "not you"))
    server.api.faulty = "persistentvolumeclaims"
    leader.offers.pop(found.offer.id)
    leader.backend.destroy_volume(found)
    found = await leader.until(lambda: leader.volume(run), "it is offered again")
    assert found is not None
    assert ("persistentvolumeclaims", "peloton", run) in server.api.objects
    leader.offers.pop(found.offer.id)
    leader.backend.destroy_volume(found)
    await leader.until(lambda: leader.offers, "the host is offered again")
    await leader.until(
        lambda: ("persistentvolumeclaims", "peloton", run) not in server.api.objects, "it is gone"
    )
    assert leader.volume(run) is None


async def test_without_the_right_to_claims_tasks_without_volumes_run(server: Server) -> None:
    server.api.forbidden.add("persistentvolumeclaims")
    try:
        async with leading(server) as leader:
            await begun(server, leader)
            leader.launch(stateful(leader, instance=1))
            end = await leader.ends(leader.run(1))
            assert end.status.state is TaskState.LOST
            assert "persistentvolumeclaims" in end.status.message
    finally:
        server.api.forbidden.clear()
