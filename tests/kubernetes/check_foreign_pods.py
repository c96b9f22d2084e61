"""Pods that others make with `schedulerName: peloton`, on a real API server."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostmgr.kubernetes.core.pods import EARLIER_POD_GROUP, POD_GROUP
from minicluster.settings import DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.test_maintenance import DOWN, UP, await_all_up, await_state, start, states
from tests.kubernetes import pod_groups

TEAM = "team-a"
NODE_CPU = 4
Object = dict[str, Any]


class Owner:
    """Makes pods, and looks at what becomes of them, as anybody does who has a kubeconfig."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.pods = f"/api/v1/namespaces/{TEAM}/pods"

    def call(self, method: str, path: str, body: object = None, **params: str) -> Object:
        async def make() -> Object:
            access = from_kubeconfig(self.harness.cluster.layout.kubeconfig)
            async with ApiClient(access) as client:
                return await client.call(
                    method,
                    path,
                    body,
                    content_type=MERGE if method == "PATCH" else "application/json",
                    **params,
                )

        return asyncio.run(make())

    def make(
        self,
        name: str,
        command: str = "sleep 1000",
        cpu: str = "100m",
        label: str = "",
        **annotations: str,
    ) -> Object:
        """Create a pod; `label` is KEY=VALUE; `peloton_` of an annotation stands for `peloton/`."""
        given = {
            key.replace("peloton_", "peloton/").replace("_", "-"): value for key, value in annotations.items()
        }
        container = {
            "name": "main",
            "image": "process",
            "command": ["/bin/sh", "-c", command],
            "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
        }
        return self.call(
            "POST",
            self.pods,
            {
                "metadata": {
                    "name": name,
                    "annotations": given,
                    "labels": dict([label.split("=")] if label else []),
                },
                "spec": {
                    "schedulerName": "peloton",
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        )

    def is_made(self, path: str, wire: Object) -> bool:
        """Create an object of a kind that may not be served yet; return whether that was done."""
        try:
            self.call("POST", path, wire)
        except ApiError as error:
            assert error.status == 404, error
            return False
        return True

    def pod(self, name: str) -> Object | None:
        try:
            return self.call("GET", f"{self.pods}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def node(self, name: str) -> str:
        pod = self.pod(name)
        return "" if pod is None else str(pod["spec"].get("nodeName", ""))

    def running(self) -> set[str]:
        pods = self.call("GET", self.pods)["items"]
        return {each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Running"}

    def count(self, phase: str) -> int:
        return sum(each["status"]["phase"] == phase for each in self.call("GET", self.pods)["items"])

    def jobs(self) -> list[str]:
        """Return the active jobs of the namespace's pods."""
        spec = job_pb2.QuerySpec(
            owner=TEAM, jobStates=[job_pb2.RUNNING, job_pb2.PENDING, job_pb2.INITIALIZED]
        )
        spec.pagination.limit = spec.pagination.maxLimit = 1000
        answer = self.harness.client.job_svc.Query(
            job_pb2.QueryRequest(spec=spec, summaryOnly=True), timeout=30
        )
        return sorted(each.id.value for each in answer.results)

    def phase(self, name: str) -> str:
        pod = self.pod(name)
        return "" if pod is None else str(pod["status"]["phase"])

    def reaches(self, name: str, phase: str, seconds: float = 60) -> Object:
        wait_for(lambda: self.phase(name) == phase, seconds, lambda: str((self.pod(name), self.events(name))))
        found = self.pod(name)
        assert found is not None
        return found

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and message of the Events that `kubectl describe pod` shows."""
        listed = self.call(
            "GET", f"/api/v1/namespaces/{TEAM}/events", fieldSelector=f"involvedObject.name={name}"
        )
        return [(each["reason"], each["message"]) for each in listed["items"]]

    def is_told(self, name: str, reason: str, text: str, seconds: float = 30) -> None:
        wait_for(
            lambda: any(told == reason and text in message for told, message in self.events(name)),
            seconds,
            lambda: str(self.events(name)),
        )

    def delete(self, name: str) -> None:
        with suppress(ApiError):
            self.call("DELETE", f"{self.pods}/{name}")

    def clear(self) -> None:
        for pod in self.call("GET", self.pods)["items"]:
            self.delete(pod["metadata"]["name"])
        wait_for(
            lambda: not self.call("GET", self.pods)["items"], 60, lambda: str(self.call("GET", self.pods))
        )

    def state(self, job_id: str) -> str:
        return job_pb2.JobState.Name(self.harness.runtime(job_id).state)

    def job_is(self, job_id: str, state: str, seconds: float = 60) -> None:
        wait_for(lambda: self.state(job_id) == state, seconds, lambda: str(self.harness.runtime(job_id)))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    taken = {"foreign_pods": {"enabled": True, "namespaces": {"mapped": "/test"}}}
    settings = DaemonSettings(
        jobmgr={"debug": True},
        resmgr={"preemption": {"period": 0.5, "strikes": 2}, "entitlement_interval": 1},
        hostmgr={"debug": True, "kubernetes": taken},
    )
    with harness_of(tmp_path_factory, kubernetes="own", settings=settings) as held:
        yield held


@pytest.fixture
def owner(harness: Harness) -> Iterator[Owner]:
    it = Owner(harness)
    with suppress(ApiError):
        it.call("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
    yield it
    it.clear()


@pytest.fixture(scope="module")
def small_pool(harness: Harness) -> str:
    """A pool in which one pod of 0.2 CPUs runs at a time."""
    return make_pool(harness, "small", 0, 0.3)


@pytest.fixture(scope="module")
def borrowing_pool(harness: Harness) -> str:
    """A pool to which nothing belongs."""
    return make_pool(harness, "borrowing", 0, 1e6)


def make_pool(harness: Harness, name: str, reserved: float, limit: float) -> str:
    amounts = [("cpu", reserved, limit), *((kind, 0, 1e6) for kind in ("memory", "disk", "gpu"))]
    config = respool_pb2.ResourcePoolConfig(
        name=name,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(kind=kind, reservation=own, limit=most, share=1)
            for kind, own, most in amounts
        ],
    )
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), timeout=30
    )
    assert not answer.HasField("error"), answer.error
    return f"/{name}"


def test_a_pod_is_queued_bound_and_runs_to_its_end(owner: Owner) -> None:
    uid = owner.make("one", "exit 0", peloton_pool="/test")["metadata"]["uid"]
    done = owner.reaches("one", "Succeeded")
    assert done["spec"]["nodeName"] in ("node0", "node1", "node2")
    assert done["metadata"]["annotations"]["peloton/run"] == f"{uid}-0-1"
    owner.job_is(uid, "SUCCEEDED")
    owner.is_told("one", "Queued", f"queued in pool /test as job {uid}")


def test_a_pod_of_a_namespace_goes_to_the_pool_of_its_namespace(owner: Owner) -> None:
    with suppress(ApiError):
        owner.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mapped"}})
    owner.pods = "/api/v1/namespaces/mapped/pods"
    owner.make("plain", "exit 0")
    owner.reaches("plain", "Succeeded")


def test_a_pod_that_fails_is_not_run_again(owner: Owner) -> None:
    uid = owner.make("failing", "exit 3", peloton_pool="/test")["metadata"]["uid"]
    owner.reaches("failing", "Failed")
    owner.job_is(uid, "FAILED")
    (task,) = owner.harness.tasks(uid).values()
    assert task.runtime.mesosTaskId.value == f"{uid}-0-1"
    assert task.runtime.message == "Command exited with status 3"


def test_an_unknown_pool_is_told_and_nothing_is_queued(owner: Owner) -> None:
    uid = owner.make("lost", peloton_pool="/nowhere")["metadata"]["uid"]
    owner.is_told("lost", "NotQueued", "there is no pool '/nowhere' that takes tasks")
    assert owner.phase("lost") == "Pending"
    assert not owner.harness.tasks(uid)


def test_a_pod_waits_in_a_full_pool_and_is_told_why(owner: Owner, small_pool: str) -> None:
    owner.make("first", cpu="200m", peloton_pool=small_pool)
    owner.reaches("first", "Running")
    second = owner.make("second", cpu="200m", peloton_pool=small_pool)["metadata"]["uid"]
    owner.is_told("second", "Waiting", "/small")
    assert owner.phase("second") == "Pending"
    owner.delete("first")
    owner.reaches("second", "Running")
    owner.delete("second")
    owner.job_is(second, "KILLED")


def test_a_pod_that_is_deleted_while_it_waits_ends_its_job(owner: Owner, small_pool: str) -> None:
    uid = owner.make("wide", cpu="900m", peloton_pool=small_pool)["metadata"]["uid"]
    owner.is_told("wide", "Queued", uid)
    owner.delete("wide")
    owner.job_is(uid, "KILLED")


def test_a_gang_starts_whole(owner: Owner) -> None:
    gang = {"peloton_pool": "/test", "peloton_gang": "trio", "peloton_gang_size": "3"}
    for name in ("a", "b"):
        owner.make(name, **gang)
    owner.is_told("a", "Waiting", "2 of 3 pods of gang trio are there")
    assert {owner.phase("a"), owner.phase("b")} == {"Pending"}
    owner.make("c", **gang)
    pods = [owner.reaches(name, "Running") for name in ("a", "b", "c")]
    runs = {each["metadata"]["annotations"]["peloton/run"] for each in pods}
    assert len({run.rpartition("-")[0].rpartition("-")[0] for run in runs}) == 1, "it is one job"
    assert len(runs) == 3


@pytest.mark.parametrize("label", [POD_GROUP, EARLIER_POD_GROUP])
def test_a_pod_group_starts_whole_and_grows(owner: Owner, label: str) -> None:
    """The kind is installed while hostmgr runs."""
    with suppress(ApiError):
        owner.call("POST", pod_groups.KINDS, pod_groups.KIND)
    of_pair = f"{label}=pair"
    owner.make("x", label=of_pair, peloton_pool="/test")
    owner.is_told("x", "NotQueued", "there is no PodGroup 'pair' in namespace team-a", 60)
    groups = pod_groups.path_of(TEAM)
    wait_for(lambda: owner.is_made(groups, pod_groups.pod_group("pair", 2)), 30, lambda: "no PodGroup")
    owner.is_told("x", "Waiting", "1 of 2 pods of gang pair are there")
    assert owner.phase("x") == "Pending"
    for name in ("y", "z"):
        owner.make(name, label=of_pair, peloton_pool="/test")
    pods = [owner.reaches(name, "Running") for name in ("x", "y", "z")]
    jobs = [each["metadata"]["annotations"]["peloton/run"][:36] for each in pods]
    assert jobs[0] == jobs[1], "two are a gang"
    assert jobs[2] != jobs[0], "the third is queued alone"
    owner.delete("y")
    owner.make("instead", label=of_pair, peloton_pool="/test")
    owner.reaches("instead", "Running")
    owner.call("DELETE", f"{groups}/pair")


def test_maintenance_evicts_pods_as_budgets_allow_it(owner: Owner) -> None:
    """The host is down when the last one is gone; the pods of others there count."""
    await_all_up(owner.harness)
    uids = {
        name: owner.make(name, peloton_pool="/test", label="app=kept", cpu="1")["metadata"]["uid"]
        for name in ("one", "two", "three")
    }
    nodes = {name: owner.reaches(name, "Running")["spec"]["nodeName"] for name in uids}
    drained = nodes["one"]
    there = [name for name, node in nodes.items() if node == drained]
    budgets = f"/apis/policy/v1/namespaces/{TEAM}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    owner.call("POST", budgets, {"metadata": {"name": "kept"}, "spec": spec})
    try:
        allow(owner, budgets, 0)
        start(owner.harness, drained)
        wait_for(
            lambda: "disruption budget kept" in status_of(owner.harness), 60, lambda: status_of(owner.harness)
        )
        assert all(owner.phase(name) == "Running" for name in there), "the budget keeps them"
        assert states(owner.harness)[drained] == host_pb2.HOST_STATE_DRAINING
        allow(owner, budgets, 10)
        wait_for(lambda: all(owner.pod(name) is None for name in there), 120, lambda: str(owner.running()))
        for name in there:
            owner.job_is(uids[name], "KILLED")
        await_state(owner.harness, drained, DOWN)
        assert all(owner.phase(name) == "Running" for name in set(uids) - set(there)), "others run on"
    finally:
        owner.call("DELETE", f"{budgets}/kept")
        complete_node(owner.harness, drained)


def allow(owner: Owner, budgets: str, disruptions: int) -> None:
    """Say how many pods may be evicted, as the controller of budgets does, which does not run here."""
    status = {"disruptionsAllowed": disruptions, "observedGeneration": 1, "expectedPods": 3}
    status |= {"currentHealthy": 3, "desiredHealthy": 3 - disruptions if disruptions < 3 else 0}
    owner.call("PATCH", f"{budgets}/kept/status", {"status": status})


def status_of(harness: Harness) -> str:
    """Return what `peloton status` prints."""
    command = [sys.executable, "-m", "peloton.cli", "status"]
    environment = {**os.environ, **harness.cluster.urls()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout


def complete_node(harness: Harness, hostname: str) -> None:
    request = host_svc_pb2.CompleteMaintenanceRequest(hostname=hostname)
    wait_for(lambda: states(harness).get(hostname) == DOWN, 60, lambda: str(states(harness)))
    harness.client.host_svc.CompleteMaintenance(request, timeout=30)
    await_state(harness, hostname, UP)


def test_a_gang_that_does_not_fit_is_not_bound_in_part(owner: Owner) -> None:
    gang = {"peloton_pool": "/test", "peloton_gang": "wide", "peloton_gang_size": "4"}
    for number in range(4):
        owner.make(f"w{number}", cpu="3", **gang)
    owner.is_told("w0", "Queued", "4 pods of gang wide")
    other = owner.make("narrow", "exit 0", peloton_pool="/test")["metadata"]["uid"]
    owner.job_is(other, "SUCCEEDED")
    assert not [name for name in map("w{}".format, range(4)) if owner.node(name)]
    owner.is_told("w0", "Waiting", "")


def test_a_pod_is_preempted_for_who_is_entitled(owner: Owner, borrowing_pool: str) -> None:
    """All of the cluster is lent; a job of the pool to which it belongs gets its part back."""
    uids = [
        owner.make(f"lent{number}", cpu="4", peloton_pool=borrowing_pool)["metadata"]["uid"]
        for number in range(3)
    ]
    for number in range(3):
        owner.reaches(f"lent{number}", "Running")
    config = owner.harness.config("exit 0")
    config.defaultConfig.resource.cpuLimit = 2
    job = owner.harness.create(config)
    assert owner.harness.ended(job).state == job_pb2.SUCCEEDED
    gone = [number for number in range(3) if owner.pod(f"lent{number}") is None]
    assert gone, "one was deleted"
    for number in gone:
        owner.job_is(uids[number], "KILLED")
        (task,) = owner.harness.tasks(uids[number]).values()
        assert task.runtime.mesosTaskId.value == f"{uids[number]}-0-1", "and is not run again"


@pytest.mark.parametrize("daemon", ["hostmgr0", "jobmgr0"])
def test_no_pod_is_bound_twice_where_a_daemon_dies(owner: Owner, daemon: str) -> None:
    made = {
        f"{daemon}-{number}": owner.make(f"{daemon}-{number}", peloton_pool="/test", cpu="20m")["metadata"][
            "uid"
        ]
        for number in range(40)
    }
    wait_for(lambda: any(map(owner.node, list(made)[:5])), 60, lambda: str(owner.events(f"{daemon}-0")))
    owner.harness.cluster.kill([daemon])
    owner.harness.cluster.start([daemon])
    wait_for(lambda: owner.running() == set(made), 120, lambda: str(set(made) - owner.running()))
    for name, uid in made.items():
        pod = owner.pod(name)
        assert pod is not None
        assert pod["metadata"]["uid"] == uid, "it is the same pod"
        assert pod["metadata"]["annotations"]["peloton/run"].startswith(f"{uid}-0-")
        owner.job_is(uid, "RUNNING")
    assert owner.jobs() == sorted(made.values()), "each has one job"


def test_the_commands_of_the_page(owner: Owner, tmp_path: Path) -> None:
    """Those of docs/kubernetes.md, by kubectl, in the namespace of the team."""
    page = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()
    part = page.partition("## As a queueing layer")[2].partition("\n## ")[0]
    (pod,) = [text for text in re.findall(r"```yaml\n(.*?)```", part, re.S) if "kind: Pod" in text]
    (commands,) = re.findall(r"```sh\n(.*?)```", part, re.S)
    (tmp_path / "pod.yaml").write_text(pod.replace("/team-a/batch", "/test"))
    access = yaml.safe_load(owner.harness.cluster.layout.kubeconfig.read_text())
    access["contexts"][0]["context"]["namespace"] = TEAM
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(access))
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    printed = []
    for command in commands.splitlines():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
        if "apply" in command:
            uid = owner.reaches("training", "Running")["metadata"]["uid"]
    assert re.search(rf"Normal +Queued .* peloton +queued in pool /test as job {uid}", printed[1]), printed[1]
    owner.job_is(uid, "KILLED")


def test_many_pods_at_once(owner: Owner) -> None:
    began = time.monotonic()
    for number in range(200):
        owner.make(f"many{number}", "exit 0", cpu="20m", peloton_pool="/test")
    created = time.monotonic()
    wait_for(lambda: owner.count("Succeeded") == 200, 240, lambda: str(owner.count("Succeeded")))
    ended = time.monotonic()
    print(f"200 pods: created in {created - began:.1f} s, all ended {ended - created:.1f} s later")
