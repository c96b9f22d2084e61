"""The order of writes: which go ahead of others, and what follows them."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.errors import AlreadyExists, Conflict, Unavailable
from storage.config import SqliteSettings
from storage.sqlite import writer as writing
from storage.sqlite.connection import writer_connection
from storage.sqlite.store import open_sqlite
from storage.sqlite.writer import Writer
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime

PATIENCE = 60.0
LARGE = writing._ROWS_BESIDE_AHEAD + 1
"""Rows of a write that has no room beside one that goes ahead."""


class Put(NamedTuple):
    """A write that puts its name into the log."""

    name: str
    job: str | None = None
    rows: int = 1
    ahead: bool = False
    fails: bool = False


class Log:
    """A table of the names of writes, and a writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._transaction = 0
        db = writer_connection(path, 0.1)
        db.execute("CREATE TABLE log (at INTEGER PRIMARY KEY, name TEXT, batch INTEGER)")
        db.set_trace_callback(self._count)
        self.writer = Writer(db, max_queued=1000)

    def _count(self, statement: str) -> None:
        self._transaction += statement.startswith("BEGIN")

    def hand_over(self, put: Put) -> asyncio.Task[str]:
        def write(db: sqlite3.Connection) -> str:
            db.execute("INSERT INTO log (name, batch) VALUES (?, ?)", (put.name, self._transaction))
            if put.fails:
                raise Conflict(put.name)
            return put.name

        return asyncio.create_task(self.writer.submit(write, put.rows, put.job, put.ahead))

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Have a transaction under way, so that what is handed over is queued."""
        begun, go, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

        def write(db: sqlite3.Connection) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert go.wait(PATIENCE)

        running = asyncio.create_task(self.writer.submit(write))
        await begun.wait()
        try:
            yield
            await asyncio.sleep(0)  # the tasks that were made have begun
        finally:
            go.set()
        await running

    async def batches(self) -> list[list[str]]:
        """Close the writer; return the names that are stored, by transaction."""
        await self.writer.close()
        with sqlite3.connect(self._path) as db:
            rows = db.execute("SELECT batch, name FROM log ORDER BY at").fetchall()
        return [[name for _, name in part] for _, part in itertools.groupby(rows, lambda row: row[0])]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log.db")


async def stored(log: Log, *puts: Put) -> list[list[str]]:
    """Hand writes over while a transaction runs; return them as they are stored, by transaction."""
    async with log.busy():
        tasks = [log.hand_over(put) for put in puts]
    await asyncio.gather(*tasks, return_exceptions=True)
    return await log.batches()


async def test_a_write_goes_ahead_of_large_ones(log: Log) -> None:
    """These come in the next transaction, of which it need not wait for the end."""
    puts = Put("large", "a", LARGE), Put("small", "b"), Put("new", "c", ahead=True)
    assert await stored(log, *puts) == [["new"], ["large", "small"]]


async def test_beside_it_there_is_room_for_small_writes(log: Log) -> None:
    """They save a commit."""
    puts = [Put("small", "a"), Put("second", "b"), Put("large", "a", LARGE), Put("new", "c", ahead=True)]
    assert await stored(log, *puts) == [["new", "small", "second"], ["large"]]


async def test_writes_that_go_ahead_keep_their_order(log: Log) -> None:
    puts = (
        Put("large", "a", LARGE),
        Put("1", "c", ahead=True),
        Put("2", ahead=True),
        Put("3", "b", ahead=True),
    )
    assert await stored(log, *puts) == [["1", "2", "3"], ["large"]]


async def test_writes_of_a_job_follow_the_one_that_goes_ahead(log: Log) -> None:
    puts = Put("large", "b", LARGE), Put("new", "a", ahead=True), Put("then", "a"), Put("last", "a")
    assert await stored(log, *puts) == [["new"], ["large", "then", "last"]]


async def test_none_goes_ahead_of_an_earlier_write_of_its_job(log: Log) -> None:
    """Such as a creation, of the deletion of a job that had the id before."""
    puts = Put("large", "b", LARGE), Put("deleted", "a"), Put("new", "a", ahead=True), Put("c", ahead=True)
    assert await stored(log, *puts) == [["c"], ["large", "deleted", "new"]]


async def test_more_than_a_transaction_goes_ahead(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing overtakes what is left."""
    monkeypatch.setattr(writing, "_ROWS_PER_TRANSACTION", 5)
    puts = [Put(str(n), "a" if n else None, 2, ahead=True) for n in range(5)]
    assert await stored(log, *puts, Put("then", "a")) == [["0", "1"], ["2", "3"], ["4", "then"]]


async def test_large_writes_wait_for_one_transaction_only(log: Log) -> None:
    """However many go ahead meanwhile."""
    done: list[str] = []

    async def one_after_the_other() -> None:
        while "large" not in done:
            await log.hand_over(Put("ahead", ahead=True))
            done.append("ahead")

    async with log.busy():
        large = log.hand_over(Put("large", "a", LARGE))
        large.add_done_callback(lambda task: done.append(task.result()))
        ahead = [asyncio.create_task(one_after_the_other()) for _ in range(2)]
    await asyncio.wait_for(asyncio.gather(large, *ahead), PATIENCE)
    batches = await log.batches()
    assert "large" in {name for batch in batches[:2] for name in batch}


async def test_a_write_ahead_that_fails_fails_alone(log: Log) -> None:
    async with log.busy():
        puts = Put("large", "b", LARGE), Put("new", "a", ahead=True, fails=True), Put("then", "a")
        tasks = [log.hand_over(put) for put in puts] + [log.hand_over(Put("c", "c", ahead=True))]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [str, Conflict, str, str]
    assert await log.batches() == [["c"], ["large", "then"]]


async def test_where_its_transaction_fails_the_writer_goes_on(log: Log) -> None:
    """Another process holds the database for a moment."""
    with sqlite3.connect(log._path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        puts = Put("large", "b", LARGE), Put("new", "a", ahead=True), Put("then", "a")
        tasks = [log.hand_over(put) for put in puts]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable] * 3
        other.execute("ROLLBACK")
    assert await log.hand_over(Put("again", "a", ahead=True)) == "again"
    assert await log.batches() == [["again"]]


async def test_closing_stores_what_goes_ahead(log: Log) -> None:
    async with log.busy():
        log.hand_over(Put("large", "a", LARGE))
        log.hand_over(Put("new", "b", ahead=True))
    assert await log.batches() == [["new"], ["large"]]


PUTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.integers(1, 6),
        st.booleans(),
        st.sampled_from([False, False, False, True]),
        st.booleans(),
    ),
    max_size=30,
)
"""Job, rows, whether it goes ahead, whether it fails, whether the loop runs afterwards."""


@given(PUTS)
@settings(max_examples=60, deadline=None)
def test_the_writes_of_a_job_keep_their_order(drawn: list[tuple[str | None, int, bool, bool, bool]]) -> None:
    """Whatever is stored when the process is killed is then the first writes of each job."""

    async def run(path: Path) -> list[list[str]]:
        log, tasks = Log(path), list[asyncio.Task[str]]()
        async with log.busy():
            for at, (job, rows, ahead, fails, turn) in enumerate(drawn):
                tasks.append(log.hand_over(Put(str(at), job, rows, ahead, fails)))
                if turn:
                    await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        return await log.batches()

    limits = patch.multiple(writing, _ROWS_PER_TRANSACTION=8, _ROWS_BESIDE_AHEAD=4)
    with tempfile.TemporaryDirectory() as folder, limits:
        order = [int(name) for batch in asyncio.run(run(Path(folder) / "log.db")) for name in batch]
    assert sorted(order) == [at for at, put in enumerate(drawn) if not put[3]]
    for job in "abc":
        mine = [at for at in order if drawn[at][0] == job]
        assert mine == sorted(mine)


async def test_a_job_that_is_deleted_and_created_again_is_there(tmp_path: Path) -> None:
    store = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    job = job_id(1)
    await store.jobs.create(job, spec(), job_runtime())
    large = asyncio.create_task(store.write_all(job_id(2), {n: task_runtime() for n in range(3000)}))
    await asyncio.sleep(0)
    results = await asyncio.gather(
        store.jobs.create(job, spec(), job_runtime()),
        store.jobs.delete(job),
        store.jobs.create(job, spec(), job_runtime()),
        return_exceptions=True,
    )
    await large
    assert [type(result) for result in results] == [AlreadyExists, type(None), type(None)]
    assert await store.jobs.runtime(job) == job_runtime()
    await store.close()


CHILD = """
import asyncio, itertools, sys
from pathlib import Path
from storage.config import SqliteSettings
from storage.selection.factory import open_store
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime

async def main():
    store = await open_store(SqliteSettings(path=Path(sys.argv[1])))
    async def large(number):
        for run in itertools.count(1):
            await store.write_all(job_id(number), {n: task_runtime(run) for n in range(4000)})
    async def client(number):
        for at in itertools.count():
            job = job_id(100 + at * 4 + number)
            await store.jobs.create(job, spec(), job_runtime())
            print(job, 0, flush=True)
            await store.write_all(job, {0: task_runtime()})
            print(job, 1, flush=True)
    await asyncio.gather(*map(large, range(2)), *map(client, range(4)))

asyncio.run(main())
"""


def killed_amid_creations(path: Path) -> tuple[set[str], set[str]]:
    """The jobs that the child was told to be created, and those of which a later write was stored, too."""
    told: tuple[set[str], set[str]] = (set(), set())
    command = [sys.executable, "-c", CHILD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.endswith("\n"):
                job, later = line.split()
                told[int(later)].add(job)
            if len(told[1]) >= 12:
                child.kill()
    assert child.returncode == -9, "the child ended by itself"
    return told


async def test_kill_9_leaves_no_later_write_without_its_creation(tmp_path: Path) -> None:
    path = tmp_path / "peloton.db"
    created, later = await asyncio.to_thread(killed_amid_creations, path)
    with sqlite3.connect(path) as db:
        jobs = {job for (job,) in db.execute("SELECT job_id FROM jobs")}
        tasks = {job for (job,) in db.execute("SELECT DISTINCT job_id FROM tasks")}
    assert created <= jobs
    assert later <= tasks
    assert tasks - {job_id(0), job_id(1)} <= jobs
