"""How long calls take while a large job runs: clients create, get, list, watch and stop jobs of their own.

    python benchmarks/api.py [--clients 100] [--tasks 100000] [--hosts 5000] [--pause 1] [--storage cassandra]

A job of --tasks short tasks is created on simulated agents. Until it has ended, each client goes through the
life of a job again and again: create a job of one instance, get it, list its tasks, query jobs, stop it; with
up to twice --pause seconds in front of each call. A tenth of the clients watch the pods of their jobs
meanwhile. Prints for each kind of call how many there were, how many failed, and p50, p99 and the longest in
seconds; of watches, the delay between a change and its arrival is not known, so they are counted only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from benchmarks.throughput import TASK, client_of, create, make_pool, settings_of, tell
from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import AsyncPelotonClient
from peloton.client.environment import settings_from_environment
from peloton.client.failures import refusal

WATCHING = 10
"""One in this number of clients watches."""
SHOWN_FAILURES = 5
CALL_SECONDS = 60.0


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=100_000, help="of the large job")
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--task-seconds", type=float, default=1.0, help="how long a simulated task lasts")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds in front of each call, on average")
    parser.add_argument("--storage", default="sqlite", metavar="sqlite|cassandra[=HOST:PORT,…]")
    parser.add_argument("--membership", default="local", metavar="local|zookeeper[=HOST:PORT,…]")
    parser.add_argument(
        "--secure", action="store_true", help="with TLS, certificates of the daemons, and users"
    )
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds until the run is given up")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    with temporary_cluster(settings_of(options), tell) as cluster, client_of(cluster) as client:
        pool = make_pool(client)
        begun = time.monotonic()
        large = create(client, pool, options.tasks, TASK, "true")
        calls = Calls(random.Random(options.seed), options.pause)
        asyncio.run(load(cluster, calls, pool, large, options))
        seconds = time.monotonic() - begun
    calls.report()
    print(f"tasks per second meanwhile: {options.tasks / seconds:.0f}")
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 1 if calls.failures else 0


class Calls:
    """Makes calls, and notes how long they take."""

    def __init__(self, chance: random.Random, pause: float) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.failures: list[str] = []
        self.watched = 0
        """Changes that watches have told."""
        self._chance = chance
        self._pause = pause

    async def call(self, kind: str, rpc: Callable[..., Awaitable[Any]], request: Any) -> Any:
        """Make a call after a pause; return its answer, None where it failed."""
        await asyncio.sleep(self._chance.random() * 2 * self._pause)
        begun = time.monotonic()
        try:
            answer = await rpc(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            self.failures.append(f"{kind}: {error}")
            return None
        finally:
            self.seconds[kind].append(time.monotonic() - begun)
        if (refused := refusal(answer)) is not None:
            self.failures.append(f"{kind}: {refused}")
            return None
        return answer

    def report(self) -> None:
        """Print the figures."""
        for kind, seconds in self.seconds.items():
            seconds.sort()
            p99 = seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]
            print(f"{kind} calls: {len(seconds)}")
            print(f"{kind} p50 s: {seconds[len(seconds) // 2]:.3f}")
            print(f"{kind} p99 s: {p99:.3f}")
            print(f"{kind} longest s: {seconds[-1]:.3f}")
        print(f"changes told by watches: {self.watched}")
        print(f"failed calls: {len(self.failures)}")
        for failure in self.failures[:SHOWN_FAILURES]:
            print(f"  {failure}", file=sys.stderr)


async def load(cluster: Cluster, calls: Calls, pool: str, large: str, options: argparse.Namespace) -> None:
    """Let clients work until the large job has ended."""
    client = AsyncPelotonClient("benchmark", **settings_from_environment(cluster.urls()))
    try:
        async with asyncio.timeout(options.timeout):
            workers = [
                asyncio.create_task(live(client, calls, pool, watching=number % WATCHING == 0))
                for number in range(options.clients)
            ]
            await client.jobs.wait(large)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    finally:
        await client.close()


async def live(client: AsyncPelotonClient, calls: Calls, pool: str, watching: bool) -> None:
    """Go through the lives of jobs until cancelled."""
    while True:
        request = job_pb2.CreateRequest(config=small(pool))
        created = await calls.call("Create", client.job_svc.Create, request)
        if created is None:
            continue
        job_id = created.jobId
        async with watched(client, calls, job_id.value) if watching else nothing():
            await calls.call("Get", client.job_svc.Get, job_pb2.GetRequest(id=job_id))
            await calls.call("List", client.task_svc.List, task_pb2.ListRequest(jobId=job_id))
            query = job_pb2.QueryRequest(summaryOnly=True)
            query.spec.pagination.limit = 10
            await calls.call("Query", client.job_svc.Query, query)
            await calls.call("Stop", client.task_svc.Stop, task_pb2.StopRequest(jobId=job_id))


def small(pool: str) -> job_pb2.JobConfig:
    return job_pb2.JobConfig(
        name="small",
        instanceCount=1,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=True),
        defaultConfig=task_pb2.TaskConfig(
            resource=TASK, command=mesos_pb2.CommandInfo(shell=True, value="true")
        ),
    )


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def watched(client: AsyncPelotonClient, calls: Calls, job_id: str) -> AsyncIterator[None]:
    """Watch the pods of a job during the context."""

    async def follow() -> None:
        async for _ in client.jobs.watch_pods(job_id):
            calls.watched += 1

    watch = asyncio.create_task(follow())
    try:
        yield
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


if __name__ == "__main__":
    sys.exit(main())
