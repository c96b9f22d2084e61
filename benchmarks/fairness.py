"""One principal floods jobmgr: how long do another's Get and Create take?

    python benchmarks/fairness.py [--seconds 20] [--connections 10] [--outstanding 20000] [--method Get]

Starts a cluster, measures how many calls a second jobmgr answers, and how long the calls of a user take
while nobody else calls. Then processes of their own call as another principal: they have --outstanding
calls under way all the time, over several connections, and begin the next one whenever one ends, refused or
not. Where it is not told, that is ten times what the server can take in a second. Meanwhile the user calls
Get and Create again, twenty times a second. Prints one figure per line.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any

import grpc

from benchmarks.throughput import client_of, make_pool, tell
from minicluster.settings import ClusterSettings, Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.task import task_pb2

PAUSE_SECONDS = 0.05
DEADLINE_SECONDS = 60.0
CALM_SECONDS = 5.0
AT_ONCE = 64


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the flood lasts")
    parser.add_argument("--processes", type=int, default=2, help="that flood")
    parser.add_argument("--connections", type=int, default=10, help="of the flood, over all processes")
    parser.add_argument("--outstanding", type=int, default=0, help="calls of the flood under way")
    parser.add_argument("--method", choices=("Get", "Create", "Query"), default="Get", help="of the flood")
    return parser.parse_args()


def settings_of() -> ClusterSettings:
    return read_cluster(None, {"ports": "free"}).model_copy(
        update={"simulated": Simulated(agents=10, task_seconds=1.0)}
    )


def measure(options: argparse.Namespace) -> int:
    with temporary_cluster(settings_of(), tell, None) as cluster, client_of(cluster) as client:
        pool = make_pool(client)
        target = str(cluster.urls()["JOBMGR_URL"])
        job_id = asyncio.run(first_job(target, pool))
        capacity = asyncio.run(answered(target, job_id))
        tell(f"jobmgr answers {capacity:.0f} Get a second, {AT_ONCE} at a time")
        print(f"capacity, Get calls per second: {capacity:.0f}")
        report("calm", asyncio.run(user(target, pool, job_id, CALM_SECONDS)))
        options.outstanding = options.outstanding or int(10 * capacity)
        with flooding(options, target, pool, job_id) as flooded:
            found = asyncio.run(user(target, pool, job_id, options.seconds))
        report("flooded", found)
        report_flood(options, flooded(), capacity)
    return 0


def report(when: str, seconds: dict[str, list[float]]) -> None:
    for method, took in seconds.items():
        took.sort()
        at = took[min(int(len(took) * 0.99), len(took) - 1)]
        print(f"p99 of {method} while {when} s: {at:.3f}")
        print(f"median of {method} while {when} s: {took[len(took) // 2]:.3f}")
        print(f"{method} calls while {when}: {len(took)}, longest s: {took[-1]:.3f}")


def report_flood(options: argparse.Namespace, flooded: list[Counter[str]], capacity: float) -> None:
    codes = sum(flooded, Counter[str]())
    print(f"flooder's calls per second: {codes.total() / options.seconds:.0f}")
    print(
        f"flooder's calls under way: {options.outstanding} ({options.outstanding / capacity:.1f} s of work)"
    )
    for code, count in codes.most_common():
        print(f"flooder's calls answered {code} per second: {count / options.seconds:.0f}")


def metadata(caller: str) -> tuple[tuple[str, str], ...]:
    return (("rpc-caller", caller), ("rpc-service", "peloton-jobmgr"), ("rpc-encoding", "proto"))


def config(pool: str) -> job_pb2.JobConfig:
    made = job_pb2.JobConfig(
        name="fairness",
        type=job_pb2.BATCH,
        instanceCount=1,
        defaultConfig=task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=16, diskLimitMb=1)
        ),
    )
    made.respoolID.value = pool
    made.defaultConfig.command.value = "true"
    return made


def request_of(method: str, pool: str, job_id: str) -> Any:
    if method == "Get":
        request = job_pb2.GetRequest()
        request.id.value = job_id
        return request
    if method == "Query":
        return job_pb2.QueryRequest(spec=job_pb2.QuerySpec())
    created = job_pb2.CreateRequest(config=config(pool))
    created.id.value = str(uuid.uuid4())
    return created


async def first_job(target: str, pool: str) -> str:
    request = request_of("Create", pool, "")
    async with grpc.aio.insecure_channel(target) as channel:
        answer = await job_pb2_grpc.JobManagerStub(channel).Create(request, metadata=metadata("user"))
    return str(answer.jobId.value)


async def answered(target: str, job_id: str) -> float:
    """Return how many calls a second are answered to one who does not wait between them."""
    request, until, done = request_of("Get", "", job_id), time.monotonic() + CALM_SECONDS, 0
    async with grpc.aio.insecure_channel(target) as channel:
        stub = job_pb2_grpc.JobManagerStub(channel)

        async def call() -> None:
            nonlocal done
            while time.monotonic() < until:
                await stub.Get(request, metadata=metadata("capacity"), timeout=DEADLINE_SECONDS)
                done += 1

        await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return done / CALM_SECONDS


async def user(target: str, pool: str, job_id: str, seconds: float) -> dict[str, list[float]]:
    """Return how long calls took that did not wait for each other."""
    took: dict[str, list[float]] = {"Get": [], "Create": []}
    async with grpc.aio.insecure_channel(target) as channel:
        stub = job_pb2_grpc.JobManagerStub(channel)

        async def call(method: str) -> None:
            request, begun = request_of(method, pool, job_id), time.perf_counter()
            await getattr(stub, method)(request, metadata=metadata("user"), timeout=DEADLINE_SECONDS)
            took[method].append(time.perf_counter() - begun)

        calls, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            calls += [asyncio.create_task(call(method)) for method in took]
            await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.gather(*calls)
    return took


@contextmanager
def flooding(
    options: argparse.Namespace, target: str, pool: str, job_id: str
) -> Iterator[Callable[[], list[Counter[str]]]]:
    """Flood while the body runs; the function it gets returns what came of it afterwards."""
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    share = (options.connections // options.processes, options.outstanding // options.processes)
    floods = [
        context.Process(target=flood, args=(target, options.method, pool, job_id, *share, stop, results))
        for _ in range(options.processes)
    ]
    for each in floods:
        each.start()
    try:
        for _ in floods:
            results.get(timeout=DEADLINE_SECONDS)  # it has begun

        def ended() -> list[Counter[str]]:
            stop.set()
            return [results.get(timeout=DEADLINE_SECONDS) for _ in floods]

        yield ended
    finally:
        stop.set()
        for each in floods:
            each.join(DEADLINE_SECONDS)
            if each.is_alive():
                each.kill()


def flood(
    target: str,
    method: str,
    pool: str,
    job_id: str,
    connections: int,
    outstanding: int,
    stop: Event,
    out: Any,
) -> None:
    """The process of a flooder."""
    asyncio.run(flood_calls(target, method, pool, job_id, connections, outstanding, stop, out))


async def flood_calls(
    target: str,
    method: str,
    pool: str,
    job_id: str,
    connections: int,
    outstanding: int,
    stop: Event,
    out: Any,
) -> None:
    codes: Counter[str] = Counter()
    channels = [
        grpc.aio.insecure_channel(target, options=(("grpc.use_local_subchannel_pool", 1),))
        for _ in range(connections)
    ]
    stubs = [getattr(job_pb2_grpc.JobManagerStub(channel), method) for channel in channels]

    async def calls(stub: Any) -> None:
        while True:
            try:
                await stub(request_of(method, pool, job_id), metadata=metadata("flooder"))
                codes["OK"] += 1
            except grpc.aio.AioRpcError as error:
                codes[error.code().name] += 1

    held = [asyncio.create_task(calls(stubs[each % connections])) for each in range(outstanding)]
    await asyncio.sleep(1)
    codes.clear()
    out.put(None)
    await asyncio.to_thread(stop.wait)
    assert not any(task.done() for task in held), "a caller of the flood has ended"
    out.put(codes.copy())
    out.close()
    out.join_thread()
    os._exit(0)  # gRPC may hang where so many calls are cancelled


if __name__ == "__main__":
    sys.exit(main())
