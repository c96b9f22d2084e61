"""Task writes per second of the SQLite store: 32 callers, each writing batches of 1, 100, 1000 tasks.

    python -m benchmarks.storage [--directory DIR] [--seconds 3]

DIR should lie on the disk that the store would use: each commit waits for it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from uuid import UUID

from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from storage.config import SqliteSettings
from storage.factory import open_store
from storage.interface import Store

CALLERS = 32
BATCHES = (1, 100, 1000)
INSTANCES = 10_000
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


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, help="where to put the database")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to write each batch size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        store = await open_store(SqliteSettings(path=Path(directory) / "peloton.db"))
        for batch in BATCHES:
            writes = await rate(store, batch, options.seconds)
            print(f"storage_task_writes_per_second_batch_{batch} {writes:.0f}")
        await store.close()


async def rate(store: Store, batch: int, seconds: float) -> float:
    begin, cpu = time.perf_counter(), time.process_time()
    written = sum(
        await asyncio.gather(*(caller(store, number, batch, begin + seconds) for number in range(CALLERS)))
    )
    elapsed = time.perf_counter() - begin
    cpu = time.process_time() - cpu
    print(f"storage_cpu_s_per_1000_writes_batch_{batch} {cpu / written * 1000:.4f}")
    return written / elapsed


async def caller(store: Store, number: int, batch: int, deadline: float) -> int:
    job_id = str(UUID(int=number, version=4))
    written = 0
    while time.perf_counter() < deadline:
        first = written % INSTANCES
        await store.tasks.write(job_id, dict.fromkeys(range(first, first + batch), RUNTIME))
        written += batch
    return written


if __name__ == "__main__":
    asyncio.run(main())
