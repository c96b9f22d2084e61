"""The pictures of the README, in docs/images: a cluster of simulated agents with pools, jobs and an update.

python -m tests.web.showcase
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, DaemonSettings, Instances, Simulated
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.service_job import ServiceJob

from .watched import CHROMIUM, FLAGS, Look, tab

FOLDER = Path("docs/images")
HOSTS, SERVICE_HOSTS = 480, 64
IN_MAINTENANCE = (201, 202, 203, 330, 331, 417)
SIZE = (1280, 860)
SECONDS = 120
POOLS = {
    "/ads": (3000, 6000),
    "/ads/ranking": (1800, 3000),
    "/ads/reports": (1200, 1920),
    "/maps": (5000, 8000),
    "/maps/routes": (2500, 4000),
    "/maps/tiles": (1500, 4000),
    "/ml": (3600, 9000),
    "/ml/serving": (600, 2000),
    "/ml/training": (3000, 7000),
}
"""Reservation and limit in cores; 4 GB of memory and 12 GB of disk go with each."""
BATCH = (
    ("daily-report", "/ads/reports", 700, 2.0, 4096),
    ("tile-render", "/maps/tiles", 1020, 2.0, 2048),
    ("route-index", "/maps/routes", 1180, 3.0, 6144),
    ("train-embeddings", "/ml/training", 180, 16.0, 40960),
    ("train-ranking", "/ml/training", 110, 7.0, 24576),
)
SERVICES = (
    ("rank", "/ads/ranking", 300, 4.0, 16384),
    ("serve-embeddings", "/ml/serving", 80, 3.0, 6144),
    ("route-planner", "/maps/routes", 60, 4.0, 8192),
)
UPDATED = "route-planner"
LATE = (
    ("ad-attribution", "/ads/reports", 240, 3.0, 3072),
    ("route-eval", "/maps/routes", 260, 3.0, 6144),
)
"""They take what the others have left in their pools, and wait with the rest."""


class Showcase:
    """The cluster that is shown."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._pools = {"/": "root"}
        self.services: dict[str, ServiceJob] = {}

    def fill(self) -> None:
        """Create pools and jobs, and begin an update that has to wait."""
        self._delete_test_pool()
        self._host_pools()
        for path, (reservation, limit) in POOLS.items():
            self._pool(path, reservation, limit)
        for name, pool, instances, cpu, memory in SERVICES:
            self.services[name] = self._service(name, pool, instances, cpu, memory)
        jobs = [self._batch(*each) for each in BATCH]
        for job, (_, _, instances, _, _) in zip(jobs, BATCH, strict=True):
            self._await(job, instances)
        for name, _, instances, _, _ in SERVICES:
            self._await(self.services[name].id.value, instances)
        for each in LATE:
            self._batch(*each)
        self._maintain()
        self._update(self.services[UPDATED])

    def _delete_test_pool(self) -> None:
        request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value="/test"))
        answer = self._harness.client.respool_svc.DeleteResourcePool(request, timeout=SECONDS)
        assert not answer.HasField("error"), answer.error

    def _host_pools(self) -> None:
        hosts = self._harness.client.host_svc
        for pool in ("shared", "stateless"):
            hosts.CreateHostPool(host_svc_pb2.CreateHostPoolRequest(name=pool), timeout=SECONDS)
        for number in range(HOSTS):
            pool = "stateless" if number < SERVICE_HOSTS else "shared"
            request = host_svc_pb2.ChangeHostPoolRequest(hostname=host(number), destinationPool=pool)
            hosts.ChangeHostPool(request, timeout=SECONDS)

    def _pool(self, path: str, reservation: int, limit: int) -> None:
        parent, _, name = path.rpartition("/")
        sizes = {"cpu": 1, "memory": 4096, "disk": 12_000}
        config = respool_pb2.ResourcePoolConfig(
            name=name,
            parent=peloton_pb2.ResourcePoolID(value=self._pools[parent or "/"]),
            policy=respool_pb2.PriorityFIFO,
            resources=[
                respool_pb2.ResourceConfig(
                    kind=kind, reservation=reservation * size, limit=limit * size, share=1
                )
                for kind, size in sizes.items()
            ],
        )
        request = respool_pb2.CreateRequest(config=config)
        answer = self._harness.client.respool_svc.CreateResourcePool(request, timeout=SECONDS)
        assert not answer.HasField("error"), answer.error
        self._pools[path] = answer.result.value

    def _batch(self, name: str, pool: str, instances: int, cpu: float, memory: int) -> str:
        config = self._harness.config("run", instances, name=name, owningTeam=pool.split("/")[1])
        config.respoolID.value = self._pools[pool]
        task = config.defaultConfig
        task.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=cpu, memLimitMb=memory, diskLimitMb=500))
        task.command.CopyFrom(mesos_pb2.CommandInfo(shell=True, value=f"run-{name}"))
        return self._harness.create(config)

    def _service(self, name: str, pool: str, instances: int, cpu: float, memory: int) -> ServiceJob:
        def adjust(spec: stateless_pb2.JobSpec) -> None:
            spec.name, spec.owning_team = name, pool.split("/")[1]
            spec.respool_id.value = self._pools[pool]
            container = spec.default_spec.containers[0]
            container.resource.cpu_limit, container.resource.mem_limit_mb = cpu, memory
            container.entrypoint.value = f"serve-{name} --release 41"

        return ServiceJob(self._harness, instances, adjust)

    def _await(self, job: str, instances: int) -> None:
        def runs() -> bool:
            stats = self._harness.runtime(job).taskStats
            return int(stats.get("RUNNING", 0)) == instances

        wait_for(runs, SECONDS, lambda: str(self._harness.runtime(job).taskStats))

    def _maintain(self) -> None:
        for number in IN_MAINTENANCE:
            request = host_svc_pb2.StartMaintenanceRequest(hostname=host(number))
            self._harness.client.host_svc.StartMaintenance(request, timeout=SECONDS)

    def _update(self, service: ServiceJob) -> None:
        held = service.get()
        spec = held.job_info.spec
        container = spec.default_spec.containers[0]
        container.ClearField("command")
        container.entrypoint.value = f"serve-{UPDATED} --release 42"
        request = jobs_pb.ReplaceJobRequest(
            job_id=service.id, spec=spec, update_spec=stateless_pb2.UpdateSpec(batch_size=4)
        )
        request.version.value = held.job_info.status.version.value
        service.jobs.ReplaceJob(request, timeout=SECONDS)


def host(number: int) -> str:
    """Return the name of a simulated agent's host."""
    return f"simulated-{number:05}"


def settings() -> ClusterSettings:
    return ClusterSettings(
        ports="free",
        simulated=Simulated(
            agents=HOSTS, task_seconds=1e6, resources="cpus:32;mem:131072;disk:400000;ports:[31000-31999]"
        ),
        instances=Instances(web=1),
        settings=DaemonSettings(hostmgr={"enable_host_pool": True}),
    )


def job_waits(page: Page) -> None:
    expect(page.locator('[data-live="waiting"]')).to_contain_text("behind")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="peloton-show-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        try:
            cluster.up(settings())
            harness = Harness(cluster)
            shown = Showcase(harness)
            shown.fill()
            _take(f"http://{cluster.web_addresses()[0]}", shown)
            harness.client.close()
        finally:
            cluster.down()
    return 0


def _take(base: str, shown: Showcase) -> None:
    pictures = (
        ("web-job", "light", f"/jobs/{shown.services[UPDATED].id.value}"),
        ("web-pools", "light", "/pools"),
        ("web-hosts", "dark", "/hosts"),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for name, scheme, path in pictures:
            with tab(browser, base, Look("dark" if scheme == "dark" else "light", *SIZE)) as opened:
                opened.open(path)
                if name == "web-job":
                    job_waits(opened.page)
                opened.page.screenshot(path=FOLDER / f"{name}.png")
                opened.check()
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
