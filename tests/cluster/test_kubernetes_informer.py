"""client-go's shared informers on the API in Kubernetes' style: each change is told once."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, Instances
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.client import LocalDiscovery, PelotonClient
from tests.cluster.conftest import wait_for
from tests.cluster.test_kubernetes_api import make_pool
from tests.servers.kubectl import informer

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(not informer().exists(), reason="no informer: `make kubectl` builds it"),
]
SECONDS = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    made.up(ClusterSettings(ports="free", instances=Instances(web=1)))
    try:
        make_pool(made)
        yield made
    finally:
        made.down()


class Told:
    """A process with informers, and what they have told."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [informer(), kubeconfig, namespace], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append(json.loads(text))

    def count(self, event: str, kind: str = "", name: str = "") -> int:
        return sum(
            each["event"] == event and each["kind"] == kind and each["name"].startswith(name)
            for each in [*self.lines]
        )

    def wait(self, event: str, kind: str = "", name: str = "", count: int = 1) -> None:
        wait_for(
            lambda: self.count(event, kind, name) >= count,
            SECONDS,
            lambda: f"no {event} of {kind} {name}: {self.lines}",
        )

    def end(self) -> None:
        """Let it tell what its stores have, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._thread.join(SECONDS)


class Api:
    """The API by plain requests."""

    def __init__(self, address: str) -> None:
        self._deployments = f"{address}/apis/apps/v1/namespaces/team/deployments"
        self._pods = f"{address}/api/v1/namespaces/team/pods"

    def create(self, name: str) -> str:
        container = {"name": "main", "command": ["sleep", "600"]}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        manifest: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
        manifest["metadata"] = {"name": name}
        answer = requests.post(self._deployments, json=manifest, timeout=SECONDS)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["uid"])

    def scale(self, name: str, replicas: int) -> None:
        answer = requests.patch(
            f"{self._deployments}/{name}",
            data=json.dumps({"spec": {"replicas": replicas}}),
            headers={"content-type": "application/merge-patch+json"},
            timeout=SECONDS,
        )
        assert answer.status_code == 200, answer.text

    def delete(self, name: str) -> None:
        assert requests.delete(f"{self._deployments}/{name}", timeout=SECONDS).status_code == 200

    def uids(self) -> dict[str, set[str]]:
        def of(url: str) -> set[str]:
            return {each["metadata"]["uid"] for each in requests.get(url, timeout=SECONDS).json()["items"]}

        return {"Deployment": of(self._deployments), "Pod": of(self._pods)}


def delete(cluster: Cluster, job_id: str) -> None:
    """Delete a job while peloton-web is not there."""
    client = PelotonClient("test", discovery=LocalDiscovery(cluster.layout.membership))
    ids = peloton_pb2.JobID(value=job_id)
    asked = stateless_svc_pb2.GetJobRequest(job_id=ids, summary_only=True)
    version = client.stateless_svc.GetJob(asked, timeout=SECONDS).summary.status.version
    request = stateless_svc_pb2.DeleteJobRequest(job_id=ids, version=version, force=True)
    client.stateless_svc.DeleteJob(request, timeout=SECONDS)


def kubeconfig(folder: Path, address: str) -> Path:
    found = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    found.write_text(json.dumps(config))
    return found


def test_each_change_is_told_once_over_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    (web,) = [each for each in cluster.components() if each.kind == "web"]
    address = f"http://{web.addresses['http']}"
    api = Api(address)
    api.create("before")
    told = Told(kubeconfig(tmp_path, address), "team")
    try:
        told.wait("synced")
        gone, kept = api.create("gone"), api.create("kept")
        for each in ("gone", "kept"):
            told.wait("added", "Deployment", each)
            told.wait("added", "Pod", each)
        api.scale("kept", 2)
        told.wait("added", "Pod", "kept", 2)
        api.delete("before")
        told.wait("deleted", "Deployment", "before")
        told.wait("deleted", "Pod", "before")
        # Versions from before are answered by 410, and informers list anew.
        cluster.kill(["web0"])
        delete(cluster, gone)
        cluster.start(["web0"])
        told.wait("deleted", "Deployment", "gone")
        told.wait("deleted", "Pod", "gone")
        api.create("after")
        told.wait("added", "Deployment", "after")
        told.wait("added", "Pod", "after")
        wait_for(lambda: len(api.uids()["Pod"]) == 3, SECONDS, lambda: str(api.uids()))
        there = api.uids()
    finally:
        told.end()
    held = {
        kind: {each["uid"] for each in told.lines if each["event"] == "held" and each["kind"] == kind}
        for kind in there
    }
    assert held == there
    assert kept in held["Deployment"]
    check_histories(told.lines)


def check_histories(lines: list[dict[str, Any]]) -> None:
    """Each object is added once, then modified, and deleted once where it is not there any more."""
    histories: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in lines:
        if each["uid"]:
            histories[f"{each['kind']} {each['name']} {each['uid']}"].append(each)
    assert histories
    for name, history in histories.items():
        events = [each["event"] for each in history]
        assert events[0] == "added" and events.count("added") == 1, (name, events)
        assert events[-1] in ("held", "deleted"), (name, events)
        assert events.count("deleted") + events.count("held") == 1, (name, events)
        changes = [each for each in history if each["event"] == "modified"]
        assert len({each["version"] for each in changes}) == len(changes), (name, history)
        # Versions begin anew with the process: who lists again is told of them, once, and of nothing else.
        assert sum(each["same"] for each in changes) <= 1, (name, history)
