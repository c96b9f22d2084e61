"""The web UI over a large cluster of simulated agents: what pages and watchers cost.

    python benchmarks/web.py [pages] [streams] [--hosts 5000] [--pools 1000] [--instances 100000]
                             [--browsers 200] [--no-usage]

Prints one figure per line: seconds until a page's last byte arrives with nothing cached, its size, and
seconds until Debian's chromium, where it is installed, has loaded it; then the CPU of peloton-web and of each
daemon and the time of a read of each, while no browser watches and while many do.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from playwright.sync_api import Browser, sync_playwright

from benchmarks.throughput import AMPLE, client_of, create, make_pool, tell, usage
from minicluster.cluster import Cluster
from minicluster.settings import Instances, Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError
from tests.web.watched import CHROMIUM, FLAGS

FOREVER = 1e6
"""Seconds that a simulated task runs: longer than the benchmark."""
PARTS = ("pages", "streams")
KINDS = ("cpu", "memory", "disk", "gpu")
POOLS_EACH = 40
"""Children of a pool."""
OPENINGS = 5
COLD_SECONDS = 2.5
"""Longer than the web UI keeps any answer."""
WATCH_SECONDS = 30.0
SETTLE_SECONDS = 5.0
LAUNCHED_SECONDS = 40.0
"""Until master and hostmgr are done with the statuses of the launch, which no browser causes."""
READS = 30


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all unless given")
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--pools", type=int, default=1_000)
    parser.add_argument("--instances", type=int, default=100_000, help="of the job")
    parser.add_argument("--browsers", type=int, default=200, help="that watch")
    parser.add_argument(
        "--no-usage", dest="usage", action="store_false", help="agents are not asked what tasks use"
    )
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until a step is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: no part; there are {', '.join(PARTS)}")
    options.parts = options.parts or PARTS
    return options


def measure(options: argparse.Namespace) -> int:
    simulated = Simulated(
        agents=options.hosts,
        task_seconds=FOREVER,
        resources="cpus:32;mem:65536;disk:100000",
        usage=options.usage,
    )
    settings = read_cluster(None, {"ports": "free"}).model_copy(
        update={"simulated": simulated, "instances": Instances(web=1)}
    )
    with (
        temporary_cluster(settings, tell, options.keep_logs) as cluster,
        client_of(cluster) as client,
    ):
        bench = Bench(client, cluster, options.timeout)
        bench.fill(options.pools, options.instances)
        if "pages" in options.parts:
            bench.measure_pages()
        if "streams" in options.parts:
            bench.measure_streams(options.browsers)
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 0


@dataclass(frozen=True, slots=True)
class Place:
    """A page that is measured."""

    name: str
    path: str


class Bench:
    """The measurements, each on the same cluster."""

    def __init__(self, client: PelotonClient, cluster: Cluster, timeout: float) -> None:
        self._client = client
        self._cluster = cluster
        self._timeout = timeout
        self._base = f"http://{cluster.web_addresses()[0]}"
        self._places: list[Place] = []
        self._job = ""

    def fill(self, pools: int, instances: int) -> None:
        """Create pools below pools, and a job whose instances all run."""
        begun = time.monotonic()
        parent = "root"
        for number in range(pools):
            if number % POOLS_EACH == 0:
                parent = self._pool(f"group{number // POOLS_EACH}", "root")
            else:
                self._pool(f"pool{number}", parent)
        tell(f"{pools} pools created after s: {time.monotonic() - begun:.0f}")
        pool = make_pool(self._client)
        resource = task_pb2.ResourceConfig(cpuLimit=1, memLimitMb=512, diskLimitMb=8)
        self._job = create(self._client, pool, instances, resource, "sleep")
        self._until(lambda: self._running() == instances, f"{instances} running instances")
        tell(f"{instances} instances run after s: {time.monotonic() - begun:.0f}")
        self._places = [
            Place("overview", "/"),
            Place("pools", "/pools"),
            Place("pool", f"/pools/{pool}"),
            Place("jobs", "/jobs"),
            Place("job", f"/jobs/{self._job}"),
            Place("job sorted", f"/jobs/{self._job}?sort=-state&page={instances // 100}"),
            Place("instance", f"/jobs/{self._job}/instances/{instances - 1}"),
            Place("heat map and hosts", "/hosts"),
            Place("jobs by owner", "/groups?by=owner"),
            Place("schedules", "/schedules"),
            Place("places", "/topology?by=hostname"),
            Place("events", "/events"),
            Place("what the box finds", "/search?q=1"),
        ]

    def measure_pages(self) -> None:
        """Print how long each page takes that nobody has read of late."""
        with httpx2.Client(base_url=self._base, timeout=60) as http:
            for place in self._places:
                before = usage(self._cluster)
                times, size = self._openings(http, place)
                after = usage(self._cluster)
                tell_times(f"{place.name}: last byte", times)
                for daemon in ("web0", "jobmgr0", "resmgr0", "hostmgr0"):
                    spent = (after[daemon].cpu - before[daemon].cpu) / OPENINGS
                    print(f"{place.name}: {daemon}'s CPU s: {spent:.3f}")
                print(f"{place.name}: KB: {size / 1000:.0f}")
        if not CHROMIUM.exists():
            tell(f"{CHROMIUM} is not there: `make web-browser` installs it")
            return
        with chromium() as browser:
            for place in self._places:
                tell_times(f"{place.name}: loaded in chromium", self._loads(browser, place))

    def measure_streams(self, browsers: int) -> None:
        """Print what the daemons and the web UI spend without and with browsers that watch."""
        asyncio.run(self._measure_streams(browsers))

    async def _measure_streams(self, browsers: int) -> None:
        await asyncio.sleep(LAUNCHED_SECONDS)
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=self._base, timeout=60, limits=limits) as http:
            seen = Seen()
            paths = [self._places[number % len(self._places)].path for number in range(browsers)]
            streams = [asyncio.create_task(seen.watch(http, path)) for path in paths]
            while seen.begun < browsers:
                if broken := [each for each in streams if each.done()]:
                    broken[0].result()
                await asyncio.sleep(0.1)
            await asyncio.sleep(SETTLE_SECONDS)
            before = seen.bytes
            busy = await self._spent()
            self._tell_spent(f"{browsers} browsers", busy)
            print(f"{browsers} browsers: KB per second: {(seen.bytes - before) / 1000 / WATCH_SECONDS:.0f}")
            ended = [each for each in streams if each.done()]
            for each in streams:
                each.cancel()
            await asyncio.wait(streams)
        if ended:
            raise PelotonError(f"{len(ended)} event streams ended")
        await asyncio.sleep(SETTLE_SECONDS)
        quiet = await self._spent()
        self._tell_spent("no browser", quiet)
        more = 100 * (sum(busy.values()) - sum(quiet.values()))
        print(f"{browsers} browsers: all processes spend more, percent of a core: {more:.1f}")

    async def _spent(self) -> dict[str, float]:
        """Return shares of a core by process."""
        before, begun = usage(self._cluster), time.monotonic()
        await asyncio.sleep(WATCH_SECONDS)
        seconds = time.monotonic() - begun
        after = usage(self._cluster)
        return {name: (now.cpu - before[name].cpu) / seconds for name, now in after.items()}

    def _tell_spent(self, label: str, spent: dict[str, float]) -> None:
        for name, share in spent.items():
            print(f"{label}: {name} CPU, percent of a core: {100 * share:.1f}")
        for name, read in self._reads().items():
            tell_times(f"{label}: a read of {name}", [timed(read) for _ in range(READS)])

    def _reads(self) -> dict[str, Callable[[], object]]:
        """Return a call of each daemon that people make."""
        client = self._client
        get = job_pb2.GetRequest(id=peloton_pb2.JobID(value=self._job))
        query = host_svc_pb2.QueryHostsRequest()
        pools = respool_pb2.QueryRequest()
        return {
            "jobmgr": lambda: client.job_svc.Get(get, timeout=30),
            "resmgr": lambda: client.respool_svc.Query(pools, timeout=30),
            "hostmgr": lambda: client.host_svc.QueryHosts(query, timeout=30),
        }

    def _openings(self, http: httpx2.Client, place: Place) -> tuple[list[float], int]:
        times, size = [], 0
        for _ in range(OPENINGS):
            time.sleep(COLD_SECONDS)
            begun = time.monotonic()
            answer = http.get(place.path)
            times.append(time.monotonic() - begun)
            if not answer.is_success:
                raise PelotonError(f"{place.path}: {answer.status_code}: {answer.text[:2000]}")
            size = len(answer.content)
        return times, size

    def _loads(self, browser: Browser, place: Place) -> list[float]:
        times = []
        for _ in range(OPENINGS):
            time.sleep(COLD_SECONDS)
            page = browser.new_page()
            begun = time.monotonic()
            page.goto(self._base + place.path, wait_until="load")
            times.append(time.monotonic() - begun)
            page.close()
        return times

    def _pool(self, name: str, parent: str) -> str:
        config = respool_pb2.ResourcePoolConfig(
            name=name,
            parent=peloton_pb2.ResourcePoolID(value=parent),
            policy=respool_pb2.PriorityFIFO,
            resources=[respool_pb2.ResourceConfig(kind=kind, limit=AMPLE, share=1) for kind in KINDS],
        )
        answer = self._client.respool_svc.CreateResourcePool(
            respool_pb2.CreateRequest(config=config), timeout=30
        )
        if answer.HasField("error"):
            raise PelotonError(f"cannot create the pool {name}: {answer.error}")
        return str(answer.result.value)

    def _running(self) -> int:
        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=self._job))
        runtime = self._client.job_svc.Get(request, timeout=30).jobInfo.runtime
        return int(runtime.taskStats.get("RUNNING", 0))

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._timeout
        while not holds():
            if time.monotonic() > deadline:
                raise PelotonError(f"{what}: not seen within {self._timeout} s")
            time.sleep(1)


class Seen:
    """What the browsers were sent."""

    def __init__(self) -> None:
        self.begun = 0
        self.bytes = 0

    async def watch(self, http: httpx2.AsyncClient, path: str) -> None:
        """Read the event stream of a page, as its script does."""
        async with http.stream("GET", "/live", params={"page": path}) as answer:
            if not answer.is_success:
                raise PelotonError(f"the event stream of {path}: {answer.status_code}")
            self.begun += 1
            async for part in answer.aiter_raw():
                self.bytes += len(part)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


def timed(read: Callable[[], object]) -> float:
    begun = time.monotonic()
    read()
    return time.monotonic() - begun


def tell_times(label: str, times: Sequence[float]) -> None:
    print(f"{label}, median s: {statistics.median(times):.3f}, most s: {max(times):.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
