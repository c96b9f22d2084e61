"""Pods per second through the real daemons and Kubernetes' own API server, beside its default scheduler.

    python -m benchmarks.kubernetes [--count 500] [--nodes 10]

Kubelets are fake: `benchmarks.fake_kubelets` says of each bound pod that it runs. Each time so many pods are
counted from the first call until the last one runs:

- `job`: a job of Peloton, whose pods hostmgr creates, each bound to its node;
- `foreign`: pods that the benchmark creates with `schedulerName: peloton`, each a job of Peloton;
- `default`: the same pods for the default scheduler of Kubernetes, on the same server; the daemons idle.
  By itself it makes 50 calls a second; `default unbound` lets it make as many as it can.

Prints one figure per line: pods per second (`pods per second` alone is that of `job`), CPU of hostmgr and of
the scheduler per pod, and the share of API server and etcd in the CPU of all that take part but the benchmark
itself, fake kubelets counted. Needs the server, which `make kubernetes-server` builds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.throughput import client_of, create, make_pool, tell, usage
from minicluster.cluster import Cluster
from minicluster.components import DAEMONS
from minicluster.servers import kubernetes
from minicluster.settings import OWN, ClusterSettings, DaemonSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Removed, Replaced

SERVERS = ("etcd", "kube-apiserver")
TEAM = "bench"
PODS, TEAM_PODS = "/api/v1/pods", f"/api/v1/namespaces/{TEAM}/pods"
KINDS = ("job", "foreign", "default", "default unbound")
UNBOUND = ("--kube-api-qps=10000", "--kube-api-burst=10000")
CREATED_AT_ONCE = 16
REST_SECONDS = 3.0
"""Between two measurements: what follows the last pod is not counted to the next ones."""


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="pods of each measurement")
    parser.add_argument("--nodes", type=int, default=10, help="nodes of 64 cpus each")
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=KINDS, help="what is measured")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds until a measurement is given up"
    )
    parser.add_argument("--keep-logs", type=Path, help="copy the logs to this folder")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    taken = {"kubernetes": {"default_image": "fake", "foreign_pods": {"enabled": True}}}
    settings = ClusterSettings(
        ports="free", kubernetes=OWN, kubelets=False, settings=DaemonSettings(hostmgr=taken)
    )
    with temporary_cluster(settings, tell, options.keep_logs) as cluster, client_of(cluster) as client:
        kubeconfig, nodes = str(cluster.layout.kubeconfig), str(options.nodes)
        fake = [
            sys.executable,
            "-m",
            "benchmarks.fake_kubelets",
            "--kubeconfig",
            kubeconfig,
            "--nodes",
            nodes,
        ]
        with beside("fake kubelets", fake, wait=True) as kubelets:
            bench = Bench(cluster, client, make_pool(client), options, {"fake kubelets": kubelets})
            asyncio.run(bench.run())
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 0


@contextmanager
def beside(name: str, command: list[str], wait: bool = False) -> Iterator[psutil.Process]:
    """Run a program that stands beside the cluster; with `wait` until it has written a line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        if wait:
            assert process.stdout.readline(), f"{name} ended"
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


@dataclass(slots=True)
class Seen:
    """The pods of the cluster, as a watch has them."""

    running: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, change: Change) -> None:
        """Take over a change."""
        if isinstance(change, Replaced):
            self.running.clear()
            self.there.clear()
        for pod in change.objects if isinstance(change, Replaced) else (change.object,):
            uid, phase = pod["metadata"]["uid"], (pod.get("status") or {}).get("phase")
            self.there.add(uid)
            self.running.discard(uid)
            if isinstance(change, Removed):
                self.there.discard(uid)
            elif isinstance(change, Replaced | Changed) and phase == "Running":
                self.running.add(uid)
        self.changed.set()

    async def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait for something. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@dataclass(slots=True)
class Bench:
    """The measurements, one after the other, on one cluster."""

    cluster: Cluster
    client: PelotonClient
    pool: str
    options: argparse.Namespace
    others: dict[str, psutil.Process]
    """Programs beside the cluster, by their names."""
    seen: Seen = field(default_factory=Seen)

    async def run(self) -> None:
        """Measure."""
        async with ApiClient(from_kubeconfig(self.cluster.layout.kubeconfig)) as api:
            following = asyncio.ensure_future(follow(api, PODS, self.seen.take))
            try:
                await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
                for kind in self.options.only:
                    await self._kind(kind, api)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _kind(self, kind: str, api: ApiClient) -> None:
        if kind == "job":
            await self._measured(kind, self._make_job, self._stop_job)
        elif kind == "foreign":
            make, unmake = lambda: self._make_pods(api, "peloton"), lambda made: self._delete(api)
            await self._measured(kind, make, unmake)
        else:
            await self._default(kind, api)

    async def _default(self, kind: str, api: ApiClient) -> None:
        command = kubernetes.scheduler_command(self.cluster.layout.kubeconfig)
        command += UNBOUND if kind == "default unbound" else ()
        with beside("default scheduler", command) as scheduler:
            self.others["default scheduler"] = scheduler
            await self._first_pod(api)
            await self._measured(
                kind, lambda: self._make_pods(api, "default-scheduler"), lambda made: self._delete(api)
            )

    async def _measured(
        self, what: str, make: Callable[[], Awaitable[Any]], unmake: Callable[[Any], Awaitable[None]]
    ) -> None:
        count = self.options.count
        await asyncio.sleep(REST_SECONDS)
        before, begun = self._cpu(), time.monotonic()
        made = await make()
        await self.seen.until(lambda: len(self.seen.running) >= count, self.options.timeout)
        took = time.monotonic() - begun
        spent = {name: now - before[name] for name, now in self._cpu().items()}
        self._report(what, took, spent)
        await unmake(made)
        await self.seen.until(lambda: not self.seen.there, self.options.timeout)

    def _report(self, what: str, took: float, spent: dict[str, float]) -> None:
        count, of = self.options.count, "" if what == "job" else f", {what}"
        daemons = sum(spent[name] for name in spent if name.rstrip("0123456789") in DAEMONS)
        schedulers = {"hostmgr": spent["hostmgr0"], "all daemons": daemons}
        if what.startswith("default"):
            schedulers = {"default scheduler": spent["default scheduler"]}
        print(f"pods per second{of}: {count / took:.1f}")
        for name, seconds in schedulers.items():
            print(f"{name} CPU microseconds per pod{of}: {seconds / count * 1e6:.0f}")
        servers, everything = sum(spent[name] for name in SERVERS), sum(spent.values())
        print(f"API server and etcd CPU microseconds per pod{of}: {servers / count * 1e6:.0f}")
        print(f"share of API server and etcd in all CPU{of}: {servers / everything:.2f}")
        print(f"share of fake kubelets in all CPU{of}: {spent['fake kubelets'] / everything:.2f}", flush=True)

    def _cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each process up to now."""
        found = {name: each.cpu for name, each in usage(self.cluster).items()}
        for name, process in self.others.items():
            times = process.cpu_times()
            found[name] = times.user + times.system
        return found

    async def _make_job(self) -> str:
        task = task_pb2.ResourceConfig(cpuLimit=0.05, memLimitMb=16, diskLimitMb=4)
        return await asyncio.to_thread(
            create, self.client, self.pool, self.options.count, task, "sleep infinity"
        )

    async def _stop_job(self, job_id: str) -> None:
        request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id))
        await asyncio.to_thread(self.client.task_svc.Stop, request, timeout=60)

    async def _make_pods(self, api: ApiClient, scheduler: str, count: int = 0) -> None:
        numbers = iter(range(count or self.options.count))

        async def work() -> None:
            for number in numbers:
                await api.call("POST", TEAM_PODS, pod(f"{scheduler}-{count}-{number}", scheduler))

        await asyncio.gather(*(work() for _ in range(CREATED_AT_ONCE)))

    async def _first_pod(self, api: ApiClient) -> None:
        """Wait until the default scheduler works."""
        await self._make_pods(api, "default-scheduler", 1)
        await self.seen.until(lambda: len(self.seen.running) == 1, self.options.timeout)
        await self._delete(api)
        await self.seen.until(lambda: not self.seen.there, self.options.timeout)

    async def _delete(self, api: ApiClient) -> None:
        await api.call("DELETE", TEAM_PODS, {"gracePeriodSeconds": 0})


def pod(name: str, scheduler: str) -> dict[str, Any]:
    """Return a pod for a scheduler."""
    requests = {"cpu": "50m", "memory": "16Mi"}
    container = {"name": "main", "image": "fake", "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": name, "annotations": {"peloton/pool": "/bench"}}, "spec": spec}


if __name__ == "__main__":
    sys.exit(main())
