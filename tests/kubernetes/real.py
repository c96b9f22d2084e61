"""A real API server with process kubelets, for the contract of backends."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from minicluster.ports import FreePorts
from minicluster.servers import kubernetes
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient
from tests.contract.backend.systems import HOSTS, Kubernetes

START_SECONDS = 120.0


class RealKubernetes(Kubernetes):
    """etcd, an API server and kubelets as processes; the API server may be killed and started again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        ports = FreePorts()
        self._etcd_port, self._peer_port, self._port = ports.take(), ports.take(), ports.take()
        self._folder = root / "apiserver"
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        (self.root / "etcd").mkdir()
        command = kubernetes.etcd_command(self.root / "etcd", self._etcd_port, self._peer_port)
        self._run("etcd", command, lambda: kubernetes.etcd_serves(self._etcd_port))
        kubernetes.configure(self._folder)
        self.start_server()
        kubernetes.make_namespace(self._folder, self._port)
        kubernetes.write_kubeconfig(self._folder, self._port, self.kubeconfig)
        for host, ready in [(host, self.start_kubelet(host)) for host in HOSTS]:
            self.children.wait_ready(ready, host)

    def kubelet_flags(self) -> list[str]:
        return kubernetes.kubelet_flags(self._folder)

    def stop(self) -> None:
        self.children.stop()
        for process in self._servers.values():
            process.kill()
            process.wait()

    def start_server(self) -> None:
        command = kubernetes.command(self._folder, self._port, self._etcd_port)
        self._run("apiserver", command, lambda: kubernetes.serves(self._folder, self._port))

    def stop_server(self) -> None:
        process = self._servers.pop("apiserver")
        process.kill()
        process.wait()

    def delete_node(self, name: str) -> None:
        async def delete() -> None:
            async with ApiClient(from_kubeconfig(self.kubeconfig)) as client:
                await client.call("DELETE", f"/api/v1/nodes/{name}")

        asyncio.run(delete())

    def _run(self, name: str, command: list[str], serves: Callable[[], bool]) -> None:
        log = self.root / f"{name}.log"
        with log.open("ab") as file:
            process = self._servers[name] = subprocess.Popen(command, stdout=file, stderr=file)
        deadline = time.monotonic() + START_SECONDS
        while not serves():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{name} does not answer: {log.read_text()[-3000:]}"
            time.sleep(0.1)
