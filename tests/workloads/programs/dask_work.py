"""Programs that use a Dask cluster on Peloton: `python dask_work.py NAME`, in the environment of Dask.

Each prints what the test that runs it waits for, a line at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import dask.dataframe
import numpy
import pandas
from dask.distributed import Client, Security, wait
from dask_peloton import ClusterLost, PelotonCluster

from peloton.errors import PelotonError

SECONDS = 90.0
WORKER: dict[str, Any] = {
    "pool": "/test",
    "cores": 0.2,
    "memory": "300 MiB",
    "scheduler_options": {"dashboard_address": "127.0.0.1:0"},
    "grace": "5 s",
}


def say(*words: object) -> None:
    print(*words, flush=True)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def names(cluster: PelotonCluster) -> list[Any]:
    """Return the names of the workers that are at the scheduler."""
    return sorted(worker["name"] for worker in cluster.scheduler_info["workers"].values())


def sums() -> tuple[Any, Any]:
    """Return a sum of an array and an aggregation of a table, not yet computed."""
    array = dask.array.random.default_rng(7).normal(size=(1200, 1200), chunks=(300, 300))
    rows = numpy.random.default_rng(7)
    table = pandas.DataFrame({"key": rows.integers(0, 20, 20_000), "value": rows.normal(size=20_000)})
    frame = dask.dataframe.from_pandas(table, npartitions=8)
    joined = frame.merge(frame.groupby("key").value.mean().rename("mean").reset_index(), on="key")
    return (array @ array.T).sum(), joined.assign(off=joined.value - joined["mean"]).groupby("key").off.std()


def check_sums() -> None:
    """Compute on the cluster, which the present client is of, and in this process; compare."""
    total, table = sums()
    alone = (total.compute(scheduler="synchronous"), table.compute(scheduler="synchronous").sort_index())
    numpy.testing.assert_allclose(total.compute(), alone[0], rtol=1e-12)
    pandas.testing.assert_frame_equal(
        table.compute().sort_index().to_frame(), alone[1].to_frame(), check_exact=False, rtol=1e-12
    )
    say("equal")


def compute() -> None:
    with PelotonCluster(n_workers=2, **WORKER) as cluster, Client(cluster):
        cluster.wait_for_workers(2, timeout=SECONDS)
        say("workers", cluster.job_id, *names(cluster))
        check_sums()
        cluster.scale(3)
        cluster.wait_for_workers(3, timeout=SECONDS)
        say("workers", cluster.job_id, *names(cluster))
        cluster.scale(1)
        until(lambda: len(names(cluster)) == 1, "one worker")
        first = cluster.job_id
        cluster.scale(0)
        until(lambda: not cluster.job_id and not names(cluster), "no job")
        cluster.scale(1)
        cluster.wait_for_workers(1, timeout=SECONDS)
        say("again", first != cluster.job_id, cluster.waiting())
    cluster.close()
    say("closed", cluster.status.name)


async def compute_async() -> None:
    async with PelotonCluster(n_workers=1, asynchronous=True, **WORKER) as cluster:
        say("workers", cluster.job_id)
        async with Client(cluster, asynchronous=True) as client:
            say("sum", await client.gather(client.submit(sum, range(100))))
        await cluster.scale(2)
        await cluster.wait_for_workers(2, timeout=SECONDS)
    await cluster.close()
    say("closed", cluster.status.name)


def nap(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return number


def adaptive() -> None:
    with PelotonCluster(**WORKER) as cluster, Client(cluster) as client:
        cluster.adapt(minimum=1, maximum=4, interval="200 ms", wait_count=3, target_duration="1 s")
        until(lambda: len(names(cluster)) == 1, "the first worker")
        job = cluster.job_id
        work = client.map(nap, range(150), seconds=0.3)
        until(lambda: len(names(cluster)) == 4, "all workers")
        say("grown", *names(cluster))
        assert client.gather(work) == [*range(150)]
        del work
        until(lambda: len(names(cluster)) == 1 and len(cluster.workers) == 1, "one worker again")
        say("shrunk", cluster.job_id == job)


def killed() -> None:
    """Compute while processes of workers are killed: the worker, or the nanny above it."""
    drawn = random.Random(5)
    with PelotonCluster(n_workers=3, max_failures=20, **WORKER) as cluster, Client(cluster) as client:
        cluster.wait_for_workers(3, timeout=SECONDS)
        client.forward_logging(level=logging.CRITICAL)
        work = client.map(nap, range(400), seconds=0.1, retries=50)
        total = client.submit(sum, work)
        for which in ("worker", "nanny", "nanny", "worker", "nanny", "nanny"):
            until(lambda: len(names(cluster)) >= 2, "workers")
            pid = drawn.choice([*client.run(os.getpid).values()])
            if which == "nanny":
                pid = parent(pid)
            os.kill(pid, signal.SIGKILL)
            say("kill", which)
            time.sleep(0.5)
        say("sum", total.result(timeout=SECONDS))
        cluster.wait_for_workers(3, timeout=SECONDS)
        say("workers", *names(cluster))


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def watched() -> None:
    """Keep two workers busy, and tell who is there, until a line comes."""
    with PelotonCluster(n_workers=2, **WORKER) as cluster, Client(cluster) as client:
        cluster.wait_for_workers(2, timeout=SECONDS)
        work = client.map(nap, range(10_000), seconds=0.5, retries=50)
        hosts = client.run(os.getenv, "MESOS_AGENT_ENDPOINT")
        say("workers", cluster.job_id, *names(cluster))
        before = names(cluster)
        assert hosts
        sys.stdin.readline()
        until(lambda: names(cluster) != before, "a change")
        until(lambda: len(names(cluster)) == 2, "two workers again")
        say("now", *names(cluster))
        del work
        sys.stdin.readline()


def borrowed() -> None:
    """Compute on all hosts by a pool without a reservation; another one takes two of them for a while."""
    more = {"pool": "/borrower", "cores": 4}
    with PelotonCluster(n_workers=3, **{**WORKER, **more}) as cluster, Client(cluster) as client:
        cluster.wait_for_workers(3, timeout=SECONDS)
        work = client.map(nap, range(600), seconds=0.1, retries=50)
        total = client.submit(sum, work)
        say("workers", cluster.job_id)
        until(lambda: len(names(cluster)) == 1, "the loss of two workers")
        say("left", *names(cluster))
        until(lambda: len(names(cluster)) == 3, "three workers again")
        say("back", *names(cluster))
        say("sum", total.result(timeout=SECONDS))


def lost() -> None:
    """Have a worker until somebody stops the job."""
    with PelotonCluster(n_workers=1, **WORKER) as cluster:
        cluster.wait_for_workers(1, timeout=SECONDS)
        say("workers", cluster.job_id)
        try:
            cluster.wait_for_workers(2)
        except ClusterLost as error:
            say("lost", error)
        try:
            cluster.scale(2)
        except ClusterLost as error:
            say("scale", error)
    say("closed", cluster.status.name)


def broken() -> None:
    with PelotonCluster(n_workers=2, python="/bin/false", max_failures=1, **WORKER) as cluster:
        say("workers", cluster.job_id)
        try:
            cluster.wait_for_workers(2)
        except ClusterLost as error:
            say("lost", error)


def refused() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"pool": "/nowhere"},
        {"spec": {"defaultConfg": {}}},
        {"memory": "much"},
        {"core": 1},
    )
    for change in changes:
        try:
            PelotonCluster(**{**WORKER, **change})
        except (RuntimeError, ValueError, TypeError, PelotonError) as error:
            say(type(error).__name__, str(error).replace("\n", " "))


def working() -> None:
    """Compute without end."""
    cluster = PelotonCluster(n_workers=2, death_timeout="5 s", **WORKER)
    client = Client(cluster)
    cluster.wait_for_workers(2, timeout=SECONDS)
    say("workers", cluster.job_id)
    if len(sys.argv) > 2:
        raise ValueError("an exception of the program")
    wait(client.map(nap, range(100_000), seconds=0.5))


def many() -> None:
    """Want 1,000 workers at once, which the pool has no room for; do so with no more than a few calls."""
    with PelotonCluster(n_workers=1, explain_after="1 s", **WORKER) as cluster:
        cluster.wait_for_workers(1, timeout=SECONDS)
        say("workers", cluster.job_id)
        sys.stdin.readline()
        begun = time.monotonic()
        cluster.scale(1000)
        until(lambda: len(cluster.workers) == 1000, "1,000 workers")
        say("added", f"{time.monotonic() - begun:.1f}")
        until(lambda: any("PENDING: " in text for text in cluster.waiting().values()), "a reason")
        say("reason", next(text for text in cluster.waiting().values() if "PENDING: " in text))
        begun = time.monotonic()
        cluster.scale(1)
        until(lambda: len(cluster.workers) == 1, "one worker")
        say("released", f"{time.monotonic() - begun:.1f}")


def encrypted() -> None:
    authority, certificate, key = sys.argv[2:]
    files = {
        f"tls_{role}_{part}": {"cert": certificate, "key": key}[part]
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    security = Security(tls_ca_file=authority, require_encryption=True, **files)
    more = {"security": security, "host": "127.0.0.1"}
    with PelotonCluster(n_workers=1, **more, **WORKER) as cluster, Client(cluster) as client:
        say("sum", cluster.scheduler_address.partition(":")[0], client.submit(sum, range(100)).result())
    held = Security(tls_ca_file=authority, tls_worker_cert=Path(certificate).read_text())
    try:
        PelotonCluster(security=held, **WORKER)
    except ValueError as error:
        say(type(error).__name__, error)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(name)s %(message)s")
    program = globals()[sys.argv[1]]
    if asyncio.iscoroutinefunction(program):
        asyncio.run(program())
    else:
        program()
