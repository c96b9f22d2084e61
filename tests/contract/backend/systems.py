"""Clusters for the contract of backends: each with two hosts whose tasks are processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Protocol

import yaml

from hostmgr.backend.interface import Backend
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.manifest import PodRules
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.mesos.maintenance import MaintenanceCalls
from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.ports import FreePorts
from peloton.clock import SystemClock
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient
from peloton.mesos.calls import Framework
from peloton.mesos.codec import codec
from peloton.mesos.connection import Handler, MesosDriver
from peloton.mesos.detector import detecting
from peloton.mesos.operator import OperatorClient
from peloton.mesos.session import Session
from tests.servers.api_server import ApiServer

ROOT = Path(__file__).parents[3]
HOSTS = ("host0", "host1")
NAMESPACE = "peloton"
PORTS = (31000, 31099)


class System(Protocol):
    """A cluster manager with HOSTS, of 4 cores and 2,048 MB each."""

    def start(self) -> None:
        """Start everything, and wait until the hosts are there."""
        ...

    def stop(self) -> None:
        """End everything, tasks included."""
        ...

    def backend(self, framework_id: str = "") -> AbstractAsyncContextManager[Backend]:
        """Make a new backend, as a leader of hostmgr does."""
        ...

    def stop_server(self) -> None:
        """End the server that the backend calls."""
        ...

    def start_server(self) -> None:
        """Start it again, with what it knew."""
        ...

    def kill_host(self, name: str) -> None:
        """End what runs the tasks of a host, and take it from the cluster for good."""
        ...


class Children:
    """Processes of one test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.work_dirs: list[Path] = []

    def start(self, name: str, *command: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", *command], stdout=log, stderr=log, cwd=ROOT
            )

    def wait_ready(self, ready: Path, name: str) -> None:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert self.running[name].poll() is None, (self.root / f"{name}.log").read_text()
            assert time.monotonic() < deadline, f"{name} is not ready within 60 s"
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)
        for work in self.work_dirs:
            kill_tasks(work)


class Mesos:
    """The project's own master and agents."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.children = Children(root)
        self.port = FreePorts().take()

    def start(self) -> None:
        self.start_server()
        for number, host in enumerate(HOSTS):
            work, ready = self.root / host, self.root / f"{host}.ready"
            self.children.work_dirs.append(work)
            first = PORTS[0] + 100 * number
            self.children.start(
                host, "minicluster.mesos.agent", f"--master=127.0.0.1:{self.port}", "--port=0",
                f"--hostname={host}", f"--resources=cpus:4;mem:2048;disk:20000;ports:[{first}-{first + 99}]",
                "--attributes=zone:a", f"--work-dir={work}", f"--ready-file={ready}", "--images=plain",
            )  # fmt: skip
            self.children.wait_ready(ready, host)

    def stop(self) -> None:
        self.children.stop()

    def start_server(self) -> None:
        ready = self.root / "master.ready"
        ready.unlink(missing_ok=True)
        self.children.start(
            "master", "minicluster.mesos.master", f"--port={self.port}", f"--work-dir={self.root / 'master'}",
            f"--ready-file={ready}", "--allocation-interval=0.1", "--agent-ping-timeout=1",
            "--max-agent-ping-timeouts=2",
        )  # fmt: skip
        self.children.wait_ready(ready, "master")
        assert json.loads(ready.read_text())["port"] == self.port

    def stop_server(self) -> None:
        self.children.kill("master")

    def kill_host(self, name: str) -> None:
        self.children.kill(name)
        kill_tasks(self.root / name)

    @asynccontextmanager
    async def backend(self, framework_id: str = "") -> AsyncIterator[Backend]:
        wire, clock = codec("protobuf"), SystemClock()
        framework = Framework("root", "Peloton", "peloton", "peloton", 3600.0, True, False)

        async with detecting(f"127.0.0.1:{self.port}") as detector:

            def connect(handler: Handler) -> MesosDriver:
                session = Session(framework_id or None)
                return MesosDriver(session, framework, wire, detector, handler, clock.monotonic)

            operator = OperatorClient(detector, wire, 10.0)
            yield MesosBackend(
                connect, AgentReader(operator, "peloton"), MaintenanceCalls(operator, clock.wall), "peloton"
            )


class Kubernetes:
    """Process kubelets on an API server: the small one for tests, unless another one is given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.children = Children(root)
        self.api = ApiServer(NAMESPACE)
        self.pods = PodRules(NAMESPACE, "process")
        self._running: AbstractContextManager[ApiServer] | None = None
        self.kubeconfig = root / "kubeconfig"

    def start(self) -> None:
        self.start_server()
        write_kubeconfig(self.kubeconfig, self.api.url)
        for host, ready in [(host, self.start_kubelet(host)) for host in HOSTS]:
            self.children.wait_ready(ready, host)

    def start_kubelet(self, host: str) -> Path:
        work, ready = self.root / host, self.root / f"{host}.ready"
        self.children.work_dirs.append(work)
        self.children.start(
            host, "minicluster.kubernetes.kubelet", f"--kubeconfig={self.kubeconfig}", f"--node={host}",
            "--labels=zone=a", f"--work-dir={work}", f"--ready-file={ready}", *self.kubelet_flags(),
        )  # fmt: skip
        return ready

    def kubelet_flags(self) -> list[str]:
        return []

    def stop(self) -> None:
        self.children.stop()
        self.stop_server()

    def start_server(self) -> None:
        self._running = self.api.running()
        self._running.__enter__()

    def stop_server(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None

    def kill_host(self, name: str) -> None:
        self.children.kill(name)
        kill_tasks(self.root / name)
        self.delete_node(name)

    def delete_node(self, name: str) -> None:
        self.api.remove(("nodes", "", name))

    @asynccontextmanager
    async def backend(self, framework_id: str = "") -> AsyncIterator[Backend]:
        client = ApiClient(from_kubeconfig(self.kubeconfig))
        rules = ClusterRules(NAMESPACE, ports=(PORTS,), keep_finished=600.0)
        yield KubernetesBackend(client, "", framework_id, rules, self.pods, SystemClock())


def write_kubeconfig(path: Path, server: str) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": server}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "namespace": NAMESPACE}}],
            }
        )
    )


SYSTEMS: dict[str, type[Mesos] | type[Kubernetes]] = {"mesos": Mesos, "kubernetes": Kubernetes}


@contextmanager
def running(name: str, root: Path) -> Iterator[System]:
    """Run a system during the context."""
    system = SYSTEMS[name](root)
    try:
        system.start()
        yield system
    finally:
        system.stop()
