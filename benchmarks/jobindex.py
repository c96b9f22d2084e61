"""How long the Cassandra store's job index takes for queries, without a server: only its copy of the jobs.

    python -m benchmarks.jobindex [--jobs 100000]

The jobs and the queries are those of benchmarks.storage; two more look for words that all jobs have, and
that none has. Each query runs three times, the longest counts. Jobs come in the order of their ids' hashes,
as they do from Cassandra.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import time
from uuid import UUID

from benchmarks.storage import QUERIES, runtime, spec
from peloton.model.job import JobQuery
from storage.codec import JOB_RUNTIME
from storage.jobindex.entries import IndexedConfig, indexed_texts
from storage.jobindex.index_db import Change, IndexDatabase

AT_ONCE = 500
RUNS = 3
KEYWORDS = {
    "keywords_of_all": JobQuery(keywords=("report.py",)),
    "keywords_of_none": JobQuery(keywords=("nobody",)),
}


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    database = IndexDatabase()
    await database.prepare()
    await fill(database, options.jobs)
    for name, query in {**QUERIES, **KEYWORDS}.items():
        taken = [await timed(database, query) for _ in range(RUNS)]
        print(f"job_index_query_s_of_{options.jobs}_{name} {max(taken):.3f}")
    print(f"job_index_peak_memory_mb {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    await database.close()


async def fill(database: IndexDatabase, count: int) -> None:
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    for start in range(0, count, AT_ONCE):
        await database.insert([change(number) for number in numbers[start : start + AT_ONCE]])


def change(number: int) -> tuple[str, Change]:
    texts = indexed_texts(spec(number))
    config = IndexedConfig(1, texts.summary, texts.words)
    return str(UUID(int=number, version=4)), Change(JOB_RUNTIME.encode(runtime(number)), config)


async def timed(database: IndexDatabase, query: JobQuery) -> float:
    begin = time.perf_counter()
    await database.find(query)
    return time.perf_counter() - begin


if __name__ == "__main__":
    asyncio.run(main())
