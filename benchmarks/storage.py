"""What a store can take: task writes per second, and job queries over many jobs.

    python -m benchmarks.storage [--storage sqlite|cassandra] [--directory DIR] [--seconds 3] [--jobs 100000]

32 callers write batches of 1, 100 and 1,000 tasks. DIR should lie on the disk that the store would use: each
commit waits for it. For Cassandra a server of one node is started in DIR; its own CPU is told apart.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from minicluster.processes import interruptible
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.model.job import JobQuery, JobRuntime, JobSpec, TimeRange
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.job import job_spec
from storage.config import CassandraSettings, SqliteSettings
from storage.interface import Store
from storage.selection.factory import open_store
from tests.servers.cassandra import cassandra_server
from tests.servers.store import settings_for

CALLERS = 32
BATCHES = (1, 100, 1000)
INSTANCES = 10_000
SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
Cpu = Callable[[], float]
"""Seconds that the store's own server has used."""
RUNTIME = TaskRuntime(
    state=TaskState.RUNNING,
    goal=TaskState.SUCCEEDED,
    run=1,
    config_version=1,
    desired_config_version=1,
    desired_run=1,
    host="peloton-mesos-agent0",
    agent_id="5f5f71b3-3a5c-4c5f-8a6e-9f1c2b3d4e5f-S0",
    start_time=1_600_000_000_000_000_000,
    created_at=1_600_000_000_000_000_000,
    updated_at=1_600_000_000_000_000_000,
)

QUERIES = {
    "first": JobQuery(),
    "all": JobQuery(),
    "labels": JobQuery(labels=(("team", "7"), ("env", "1"))),
    "owner": JobQuery(owner="user77"),
    "name": JobQuery(name="*port-77*"),
    "keywords": JobQuery(keywords=("report.py", "--day 200 ")),
    "states": JobQuery(states=frozenset({JobState.RUNNING}), order=(("name", False),)),
    "pool": JobQuery(pool_id="pool3", order=(("owner", True), ("creation_time", False))),
    "created": JobQuery(created=TimeRange(BEGIN + 1000 * SECOND, BEGIN + 5000 * SECOND)),
    "page_500": JobQuery(offset=500, limit=100, order=(("completion_time", True),)),
}
"""The first one finds nothing in memory."""


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--storage", choices=("sqlite", "cassandra"), default="sqlite")
    parser.add_argument("--directory", type=Path, help="where to put the database")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to write each batch size")
    parser.add_argument("--jobs", type=int, default=0, help="create so many, and query them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        if options.storage == "cassandra":
            with cassandra_server(Path(directory) / "server") as server:
                settings = settings_for(server, Path(directory)).model_copy(update={"auto_migrate": True})
                await measure(settings, options, server.cpu_seconds)
        else:
            await measure(SqliteSettings(path=Path(directory) / "peloton.db"), options, lambda: 0.0)


async def measure(
    settings: SqliteSettings | CassandraSettings, options: argparse.Namespace, server_cpu: Cpu
) -> None:
    store = await open_store(settings)
    await store.begin_term("jobmanager", 1)
    await rate(store, 100, options.seconds, server_cpu, told=False)
    for batch in BATCHES:
        writes = await rate(store, batch, options.seconds, server_cpu)
        print(f"storage_task_writes_per_second_batch_{batch} {writes:.0f}")
    if options.jobs:
        await create_jobs(store, options.jobs)
        await store.close()
        # As a new leader would: nothing of the jobs is in memory yet.
        store = await open_store(settings)
        await store.begin_term("jobmanager", 2)
        await query_jobs(store, options.jobs)
    await store.close()


async def create_jobs(store: Store, count: int) -> None:
    numbers = iter(range(count))
    begin = time.perf_counter()

    async def creator() -> None:
        for number in numbers:
            await store.jobs.create(str(UUID(int=number, version=4)), spec(number), runtime(number))

    await asyncio.gather(*(creator() for _ in range(CALLERS)))
    print(f"storage_job_creations_per_second {count / (time.perf_counter() - begin):.0f}")


async def query_jobs(store: Store, count: int) -> None:
    for name, query in QUERIES.items():
        begin = time.perf_counter()
        page = await store.jobs.query(query)
        print(f"storage_query_s_of_{count}_{name} {time.perf_counter() - begin:.3f} found {page.total}")


def spec(number: int) -> JobSpec:
    config = job_pb2.JobConfig(
        name=f"nightly-report-{number}",
        type=job_pb2.BATCH,
        owner=f"user{number % 500}",
        owningTeam=f"team{number % 40}",
        description="Gathers what came in during the day, and tells of it",
        labels=[
            peloton_pb2.Label(key=key, value=f"{number % some}") for key, some in (("team", 40), ("env", 3))
        ],
        instanceCount=10,
        respoolID=peloton_pb2.ResourcePoolID(value=f"pool{number % 20}"),
    )
    config.defaultConfig.command.value = f"python report.py --day {number % 365} --out /data/reports/{number}"
    return job_spec(config, 1)


def runtime(number: int) -> JobRuntime:
    state = (JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED)[number % 3]
    return JobRuntime(state, JobState.SUCCEEDED, 1, creation_time=BEGIN + number * SECOND)


async def rate(store: Store, batch: int, seconds: float, server_cpu: Cpu, *, told: bool = True) -> float:
    begin, cpu, servers = time.perf_counter(), time.process_time(), server_cpu()
    written = sum(
        await asyncio.gather(*(caller(store, number, batch, begin + seconds) for number in range(CALLERS)))
    )
    elapsed = time.perf_counter() - begin
    cpu, servers = time.process_time() - cpu, server_cpu() - servers
    if told:
        print(
            f"storage_cpu_s_per_1000_writes_batch_{batch} {cpu / written * 1000:.4f} "
            f"server {servers / written * 1000:.4f}"
        )
    return written / elapsed


async def caller(store: Store, number: int, batch: int, deadline: float) -> int:
    job_id = str(UUID(int=number, version=4))
    written = 0
    while time.perf_counter() < deadline:
        first = written % INSTANCES
        await store.write_all(job_id, dict.fromkeys(range(first, first + batch), RUNTIME))
        written += batch
    return written


if __name__ == "__main__":
    with interruptible():
        asyncio.run(main())
