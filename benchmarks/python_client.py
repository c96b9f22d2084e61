"""The Python client, of both kinds: calls per second beside plain stubs; a large job, watched to its end.

    python -m benchmarks.python_client

Short rounds with the client and with plain stubs take turns, so that what else the machine does counts for
both: first against a server that does nothing, which shows more of the client's own share, then against the
job manager of a cluster with simulated agents. CPU is that of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import grpc

from benchmarks.throughput import client_of, make_pool, tell
from minicluster.settings import Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v1alpha.pod import pod_pb2
from peloton.client import AsyncPelotonClient, PelotonClient
from peloton.client.channel import CHANNEL_OPTIONS, MAX_MESSAGE_BYTES
from peloton.client.watching import Event

T = TypeVar("T")
HOSTS = 1000
AT_ONCE = 32
"""Calls of asyncio that are under way at the same time."""
REQUEST = job_pb2.GetActiveJobsRequest()
METADATA = (
    ("rpc-caller", "bench"),
    ("rpc-service", "peloton-jobmgr"),
    ("rpc-encoding", "proto"),
    ("peloton-answer-bytes", str(MAX_MESSAGE_BYTES)),
)


@dataclass
class Rounds:
    """Seconds and CPU seconds per call of each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, calls: int, wall: float, cpu: float) -> None:
        self.wall.append(wall / calls)
        self.cpu.append(cpu / calls)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=64, help="in each round")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--tasks", type=int, default=10_000, help="of the job that is watched; 0: none")
    parser.add_argument("--no-cluster", action="store_true", help="only against the server that does nothing")
    options = parser.parse_args()
    return run_program("benchmark", lambda: measure(options))


def measure(options: argparse.Namespace) -> int:
    figure(f"python: load before: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    with idle_server() as target:
        compare("a server that does nothing", target, options)
    if options.no_cluster:
        return 0
    settings = read_cluster(None, {"ports": "free"})
    settings = settings.model_copy(update={"simulated": Simulated(agents=HOSTS)})
    with temporary_cluster(settings, tell) as cluster, client_of(cluster) as client:
        make_pool(client)
        target = client.address("jobmgr")
        compare("the job manager", target, options)
        if options.tasks:
            urls = {"jm_url": target, "rm_url": client.address("resmgr"), "timeout": 120.0}
            watch_job(urls, options.tasks)
            asyncio.run(watch_job_asyncio(urls, options.tasks))
    figure(f"python: load after: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    return 0


def figure(line: str) -> None:
    print(line, flush=True)


def compare(what: str, target: str, options: argparse.Namespace) -> None:
    for kind, rounds in (
        ("blocking", blocking_rounds(target, options)),
        ("asyncio", asyncio.run(asyncio_rounds(target, options))),
    ):
        ours, plain = rounds[0], rounds[1]
        rate, beside = (1 / statistics.median(each.wall) for each in (ours, plain))
        wall, cpu = (
            statistics.median(b / a for a, b in zip(getattr(ours, name), getattr(plain, name), strict=True))
            for name in ("wall", "cpu")
        )
        figure(
            f"python: {kind}, {what}: {rate:.0f} calls/s, plain stubs {beside:.0f}; pairs: {wall:.1%} of the "
            f"calls per second, {cpu:.1%} of the calls per CPU second"
        )


def blocking_rounds(target: str, options: argparse.Namespace) -> tuple[Rounds, Rounds]:
    ours, plain = Rounds(), Rounds()
    with (
        PelotonClient("bench", jm_url=target) as client,
        grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel,
    ):
        stub = job_pb2_grpc.JobManagerStub(channel)

        def by_stub() -> None:
            stub.GetActiveJobs(REQUEST, timeout=20, metadata=METADATA)

        def by_client() -> None:
            client.job_svc.GetActiveJobs(REQUEST)

        for number in range(options.rounds + 1):
            for rounds, call in in_turn(number, (ours, by_client), (plain, by_stub)):
                with timed(rounds, options.calls):
                    for _ in range(options.calls):
                        call()
    return warm(ours), warm(plain)


async def asyncio_rounds(target: str, options: argparse.Namespace) -> tuple[Rounds, Rounds]:
    ours, plain = Rounds(), Rounds()
    async with (
        AsyncPelotonClient("bench", jm_url=target) as client,
        grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS) as channel,
    ):
        stub = job_pb2_grpc.JobManagerStub(channel)

        async def by_stub() -> None:
            await stub.GetActiveJobs(REQUEST, timeout=20, metadata=METADATA)

        async def by_client() -> None:
            await client.job_svc.GetActiveJobs(REQUEST)

        for number in range(options.rounds + 1):
            for rounds, call in in_turn(number, (ours, by_client), (plain, by_stub)):
                with timed(rounds, options.calls):
                    await many(call, options.calls)
    return warm(ours), warm(plain)


def in_turn(number: int, *parts: T) -> Sequence[T]:
    """Return the parts, every second time in reverse: what one leaves to the next counts for both."""
    return parts[:: 1 if number % 2 else -1]


async def many(call: Callable[[], Awaitable[None]], calls: int) -> None:
    left = iter(range(calls))

    async def some() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


@contextmanager
def timed(rounds: Rounds, calls: int) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    rounds.add(calls, time.perf_counter() - wall, time.process_time() - cpu)


def warm(rounds: Rounds) -> Rounds:
    """Return the rounds without the first, which opened the connection."""
    return Rounds(rounds.wall[1:], rounds.cpu[1:])


def watch_job(urls: dict[str, Any], tasks: int) -> None:
    began, ended = time.monotonic(), set[str]()
    with PelotonClient("bench", **urls) as client, ThreadPoolExecutor(1) as thread:
        job = client.jobs.create("/bench", spec(tasks))

        def watch() -> None:
            for event in client.jobs.watch_pods(job):
                note(ended, event)
                if len(ended) == tasks:
                    return

        watching = thread.submit(watch)
        state = client.jobs.wait(job, 600).state
        watching.result(60)
    tell_watched("blocking", tasks, state, ended, began)


async def watch_job_asyncio(urls: dict[str, Any], tasks: int) -> None:
    began, ended = time.monotonic(), set[str]()
    async with AsyncPelotonClient("bench", **urls) as client:
        job = await client.jobs.create("/bench", spec(tasks))

        async def watch() -> None:
            async for event in client.jobs.watch_pods(job):
                note(ended, event)
                if len(ended) == tasks:
                    return

        watching = asyncio.create_task(watch())
        state = (await client.jobs.wait(job, 600)).state
        await asyncio.wait_for(watching, 60)
    tell_watched("asyncio", tasks, state, ended, began)


def note(ended: set[str], event: Event[Any]) -> None:
    if event.subject is not None and event.subject.status.state == pod_pb2.POD_STATE_SUCCEEDED:
        ended.add(event.name)


def tell_watched(kind: str, tasks: int, state: int, ended: set[str], began: float) -> None:
    name = job_pb2.JobState.Name(state)  # type: ignore[arg-type]
    figure(
        f"python: {kind}: a job of {tasks} watched to its end, {name}, {len(ended)} pods succeeded, in "
        f"{time.monotonic() - began:.1f} s"
    )


def spec(tasks: int) -> job_pb2.JobConfig:
    config = job_pb2.JobConfig(name="watched", instanceCount=tasks)
    config.sla.preemptible = True
    config.defaultConfig.command.shell = True
    config.defaultConfig.command.value = "true"
    resource = config.defaultConfig.resource
    resource.cpuLimit, resource.memLimitMb, resource.diskLimitMb = 0.1, 16, 8
    return config


class Idle(job_pb2_grpc.JobManagerServicer):
    async def GetActiveJobs(self, request: Any, context: Any) -> Any:
        return job_pb2.GetActiveJobsResponse()


@contextmanager
def idle_server() -> Iterator[str]:
    """Run a server that does nothing in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    server.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        server.join()


def serve(control: Connection) -> None:
    asyncio.run(serve_until_told(control))


async def serve_until_told(control: Connection) -> None:
    server = grpc.aio.server()
    job_pb2_grpc.add_JobManagerServicer_to_server(Idle(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    control.send(f"127.0.0.1:{port}")
    await asyncio.to_thread(control.recv)
    await server.stop(None)


if __name__ == "__main__":
    sys.exit(main())
