"""Peloton's own daemons on Kubernetes, by deploy/kubernetes: applied with kubectl, used, and upgraded.

The API server, the controllers and the default scheduler are Kubernetes' own; kubelets run containers as
processes, so programs are named by their whole paths, and ports are free ones. All else is as in the files.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesos.v1 import mesos_pb2
from minicluster.servers import kubernetes
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.client.auth import BasicAuth
from peloton.client.discovery import ZooKeeperDiscovery
from peloton.config.private import write_private
from peloton.identity.passwords import hashed
from tests.kubernetes.real import RealKubernetes
from tests.servers.cassandra import cassandra_server
from tests.servers.store import settings_for
from tests.servers.zookeeper import zookeeper_server

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
BIN = Path(sys.executable).parent
SYSTEM = "peloton-system"
SECONDS = 90
PASSWORD = "a password of the test"
Object = dict[str, Any]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@dataclass
class Installation:
    """A cluster with stores beside it, and the files of deploy/kubernetes as they are for it."""

    system: RealKubernetes
    folder: Path
    zookeeper: str
    storage: Object
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kubectl(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.system.kubeconfig}", *words],
            input=given, capture_output=True, text=True, timeout=2 * SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, "\n".join((str(words), done.stdout, done.stderr, self.what_is_there()))
        return done.stdout

    def what_is_there(self) -> str:
        """Return pods and events, and what the programs of the cluster have said last."""
        look = ["kubectl", f"--kubeconfig={self.system.kubeconfig}", "get", "pods,events", "-A"]
        told = subprocess.run(look, capture_output=True, text=True, timeout=SECONDS).stdout
        logs = [*self.folder.glob("*.log"), *self.system.root.glob("host*/**/stdout")]
        return "\n".join((told, *(f"{log}: {log.read_text()[-500:]}" for log in logs)))

    def objects(self, version: str) -> list[Object]:
        """Return what peloton.yaml has, with the addresses and the limits of this machine."""
        found = list(yaml.safe_load_all((DEPLOY / "peloton.yaml").read_text().replace("0.2.0", version)))
        for each in found:
            if each["kind"] == "ConfigMap":
                self._address(each["data"])
            elif each["kind"] in ("Deployment", "Job"):
                _as_process(each["spec"]["template"]["spec"])
        return found

    def _address(self, data: dict[str, str]) -> None:
        for name, text in data.items():
            settings = yaml.safe_load(text)
            settings.update({port: 0 for port in ("http_port", "grpc_port") if port in settings})
            if "membership" in settings:
                settings["membership"]["servers"] = self.zookeeper
                settings["host"] = "127.0.0.1"
            if "storage" in settings:
                settings["storage"] = self.storage
            if "kubernetes" in settings:
                settings["kubernetes"]["kubeconfig"] = str(self.folder / "hostmgr")
            data[name] = yaml.safe_dump(settings)

    def apply(self, version: str) -> None:
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(self.objects(version)))

    def wait(self, version: str) -> None:
        """Wait until the tables are there and all daemons are those of a release."""
        limit = f"--timeout={SECONDS}s"
        self.kubectl(
            "wait", "-n", SYSTEM, "--for=condition=complete", f"job/peloton-migrate-{version}", limit
        )
        for each in self.objects(version):
            if each["kind"] == "Deployment":
                name = each["metadata"]["name"]
                self.kubectl("rollout", "status", "-n", SYSTEM, f"deployment/{name}", limit)

    def give_rights(self) -> None:
        """Let hostmgr call the API server by a token of its service account."""
        tree = yaml.safe_load(self.system.kubeconfig.read_text())
        token = self.kubectl("create", "token", "-n", SYSTEM, "peloton-hostmgr").strip()
        tree["users"][0]["user"] = {"token": token}
        write_private(self.folder / "hostmgr", yaml.safe_dump(tree))

    def keep(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.servers.append(subprocess.Popen(command, stdout=log, stderr=log))


def _as_process(spec: Object) -> None:
    """Let a process kubelet of this machine run a pod, several of a kind on one network."""
    for container in spec["containers"]:
        container["command"][0] = str(BIN / container["command"][0])
        container["resources"] = {"requests": {"cpu": "50m", "memory": "170Mi"}}
        for key in ("ports", "startupProbe", "readinessProbe", "livenessProbe"):
            container.pop(key, None)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    system = RealKubernetes(tmp_path_factory.mktemp("kubernetes"))
    stores = tmp_path_factory.mktemp("stores")
    (stores / "zookeeper").mkdir()
    with cassandra_server(stores / "cassandra") as cassandra, zookeeper_server(stores / "zookeeper") as zoo:
        storage = settings_for(cassandra, folder).model_dump(mode="json", exclude_none=True)
        held = Installation(system, folder, zoo.address, storage)
        try:
            system.start()
            held.keep("controllers", kubernetes.controllers_command(system.kubeconfig))
            held.keep("scheduler", kubernetes.scheduler_command(system.kubeconfig))
            yield held
        finally:
            system.stop()
            for server in held.servers:
                server.kill()
                server.wait()


@pytest.fixture(scope="module")
def client(installation: Installation) -> Iterator[PelotonClient]:
    """Set everything up as the page says, and call it as its administrator."""
    installation.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
    installation.kubectl("create", "namespace", SYSTEM)
    users = installation.folder / "users.yaml"
    admin = {"username": "admin", "password": str(hashed(PASSWORD)), "role": "admin"}
    roles = [{"role": "admin", "accept": ["*"]}]
    write_private(users, yaml.safe_dump({"users": [admin], "roles": roles}))
    token = installation.folder / "token"
    write_private(token, secrets.token_hex(32))
    installation.kubectl(
        "create", "secret", "generic", "peloton-auth", "-n", SYSTEM,
        f"--from-file=users.yaml={users}", f"--from-file=token={token}",
    )  # fmt: skip
    installation.kubectl(
        "apply", "--dry-run=server", "-f", "-", given=yaml.safe_dump_all(installation.objects("0.2.0")[2:])
    )
    installation.apply("0.2.0")
    installation.give_rights()
    installation.wait("0.2.0")
    discovery = ZooKeeperDiscovery(installation.zookeeper)
    made = PelotonClient("test", discovery=discovery, auth=BasicAuth("admin", PASSWORD))
    yield made
    made.close()


def until(what: Callable[[], Any], told: Callable[[], str] = str) -> Any:
    """Ask until the answer is something; a leader may not be there yet. `told` is for where it is not."""
    deadline, last = time.monotonic() + SECONDS, "nothing"
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told at the end
            last = str(error)
        time.sleep(0.2)
    raise AssertionError(f"{last}\n{told()}")


def new_pool(client: PelotonClient, told: Callable[[], str]) -> str:
    config = respool_pb2.ResourcePoolConfig(name="team", parent=peloton_pb2.ResourcePoolID(value="root"))
    for kind, amount in (("cpu", 4), ("memory", 2000), ("disk", 1000)):
        config.resources.add(kind=kind, reservation=amount, limit=amount, share=1)
    config.policy = respool_pb2.PriorityFIFO
    request = respool_pb2.CreateRequest(config=config)
    return str(until(lambda: client.respool_svc.CreateResourcePool(request, timeout=10).result.value, told))


def create(client: PelotonClient, pool: str, command: str, instances: int) -> str:
    task = task_pb2.TaskConfig(
        resource=task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=32, diskLimitMb=8),
        command=mesos_pb2.CommandInfo(shell=True, value=command),
    )
    config = job_pb2.JobConfig(name="job", instanceCount=instances, defaultConfig=task)
    config.respoolID.value = pool
    return str(
        until(lambda: client.job_svc.Create(job_pb2.CreateRequest(config=config), timeout=10).jobId.value)
    )


def states(client: PelotonClient, job_id: str) -> list[tuple[int, str]]:
    request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
    found = client.task_svc.List(request, timeout=10).result.value
    return [(each.runtime.state, each.runtime.mesosTaskId.value) for _, each in sorted(found.items())]


def all_in(client: PelotonClient, job_id: str, state: int, count: int) -> Callable[[], list[tuple[int, str]]]:
    def reached() -> list[tuple[int, str]]:
        found = states(client, job_id)
        return found if [each for each, _ in found] == [state] * count else []

    return reached


def test_from_the_files_to_a_job_and_through_an_upgrade(
    installation: Installation, client: PelotonClient
) -> None:
    """A job runs through the upgrade: each of its runs goes on, and none is begun twice."""
    pool = new_pool(client, installation.what_is_there)
    first = create(client, pool, "echo done", 3)
    until(all_in(client, first, task_pb2.SUCCEEDED, 3))
    through = create(client, pool, "exec sleep 600", 3)
    before = until(all_in(client, through, task_pb2.RUNNING, 3))
    installation.apply("0.2.1")
    installation.wait("0.2.1")
    second = create(client, pool, "echo done", 3)
    until(all_in(client, second, task_pb2.SUCCEEDED, 3))
    assert states(client, through) == before
    images = installation.kubectl("get", "pods", "-n", SYSTEM, "-l", "part-of=peloton", "-o", "json")
    alive = [pod for pod in json.loads(images)["items"] if pod["status"]["phase"] == "Running"]
    assert {pod["spec"]["containers"][0]["image"] for pod in alive} == {"peloton:0.2.1"}
    pods = json.loads(installation.kubectl("get", "pods", "-n", "peloton", "-o", "json"))["items"]
    running = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]
    assert sorted(running) == sorted(run for _, run in before)
    client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=through)), timeout=10)


def test_budgets_let_one_daemon_of_a_kind_be_evicted(
    installation: Installation, client: PelotonClient
) -> None:
    """The controller counts them: two of each are there, and one must stay."""

    def allowed() -> bool:
        found = json.loads(installation.kubectl("get", "pdb", "-n", SYSTEM, "-o", "json"))["items"]
        return {each["status"].get("disruptionsAllowed") for each in found} == {1}

    until(allowed)


def test_without_the_files_nothing_of_it_is_left(installation: Installation, client: PelotonClient) -> None:
    for version in ("0.2.0", "0.2.1"):
        given = yaml.safe_dump_all(installation.objects(version)[1:])
        installation.kubectl("delete", "-f", "-", "--wait=true", "--ignore-not-found", given=given)
    until(lambda: not json.loads(installation.kubectl("get", "pods", "-n", SYSTEM, "-o", "json"))["items"])
