"""What is SQLite's own: migrations, several processes, failures of the file, durability."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from peloton import __version__
from peloton.errors import Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.job import JobQuery, JobRuntime, JobScope
from peloton.model.pool import PoolConfig
from peloton.model.states import TaskState
from peloton.model.task import PodEvent, TaskRuntime
from storage import codec
from storage.config import SqliteSettings
from storage.event_order import STATES
from storage.selection.factory import open_store
from storage.sqlite import events
from storage.sqlite.connection import reader_connection, writer_connection
from storage.sqlite.migrate import migrate, migrations
from storage.sqlite.reader import Readers
from storage.sqlite.store import _connections, open_sqlite
from storage.sqlite.writer import Writer
from tests.contract.storage.samples import event, job_id, job_runtime, pool, spec, task_runtime

JOB = job_id(1)
PATIENCE = 60.0


def settings(path: Path, busy_timeout: float = 5.0) -> SqliteSettings:
    return SqliteSettings(path=path, busy_timeout=busy_timeout)


async def test_a_schema_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "peloton.db"
    await (await open_store(settings(path))).close()
    newest = max(migrations())
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO schema_version VALUES (?)", (newest + 1,))
    expected = (
        f"{path}: database has schema version {newest + 1}; this program knows versions up to {newest}, it "
        f"is Peloton {__version__}: run a version that is at least as new as the one that changed the "
        "schema; only a backup leads back to the schema before (docs/upgrading.md)"
    )
    with pytest.raises(Refused) as refused:
        await open_store(settings(path))
    assert str(refused.value) == expected


@pytest.mark.parametrize("place", ["file/peloton.db", "file", "directory"])
async def test_a_place_that_cannot_hold_a_database(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("This is a text, and longer than the header of a database would be. " * 20)
    (tmp_path / "directory").mkdir()
    with pytest.raises((Refused, Unavailable), match=str(tmp_path / place.partition("/")[0])):
        await open_store(settings(tmp_path / place))


async def test_the_caches_of_all_connections_together_have_the_size_that_is_set(tmp_path: Path) -> None:
    made = SqliteSettings(path=tmp_path / "peloton.db", cache_mb=6, readers=3)
    writer, readers = _connections(made)
    sizes = [db.execute("PRAGMA cache_size").fetchone()[0] for db in (writer, *readers)]
    for db in (writer, *readers):
        db.close()
    assert sizes == [-3072, -1024, -1024, -1024]


async def test_a_short_read_does_not_wait_for_many_long_ones(tmp_path: Path) -> None:
    """A new leader reads all tasks there are, and answers calls meanwhile."""
    path, go = tmp_path / "peloton.db", threading.Event()
    readers = Readers([reader_connection(path, 5.0) for _ in range(2)])
    long = [asyncio.create_task(readers.run_long(lambda db: go.wait(PATIENCE))) for _ in range(4)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE):
            assert await readers.run(lambda db: db.execute("SELECT 7").fetchone()) == (7,)
        assert not any(each.done() for each in long)
    finally:
        go.set()
    assert await asyncio.gather(*long) == [True] * 4
    await readers.close()


async def test_the_directory_is_made(tmp_path: Path) -> None:
    store = await open_store(settings(tmp_path / "a" / "b" / "peloton.db"))
    await store.pools.all()
    await store.close()


def test_processes_migrate_at_once(tmp_path: Path) -> None:
    scripts = {1: "CREATE TABLE a (x);\n", 2: "-- two;\nCREATE TABLE b (x);\nCREATE TABLE c (x);\n"}

    def one(_: int) -> None:
        db = writer_connection(tmp_path / "peloton.db", 10)
        migrate(db, scripts, 10)
        db.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(8)))
    with sqlite3.connect(tmp_path / "peloton.db") as db:
        assert db.execute("SELECT version FROM schema_version").fetchall() == [(1,), (2,)]


def test_a_migration_that_fails_leaves_the_schema_as_it_was(tmp_path: Path) -> None:
    db = writer_connection(tmp_path / "peloton.db", 1)
    migrate(db, {1: "CREATE TABLE a (x);\n"}, 1)
    with pytest.raises(Unavailable, match="already exists"):
        migrate(db, {2: "CREATE TABLE b (x);\nCREATE TABLE a (x);\n"}, 1)
    assert db.execute("SELECT max(version) FROM schema_version").fetchone() == (1,)
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'b'").fetchone() == (0,)
    db.close()


async def test_a_write_while_another_process_holds_the_lock_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "peloton.db"
    store = await open_store(settings(path, busy_timeout=0.05))
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        results = await asyncio.gather(
            store.pools.write(pool()), store.write_all(JOB, {0: task_runtime()}), return_exceptions=True
        )
        assert [type(result) for result in results] == [Unavailable, Unavailable]
        assert list(await store.pools.all()) == [], "reads go on"
        holder.execute("ROLLBACK")
    await store.pools.write(pool())
    assert list(await store.pools.all()) == [pool()]
    await store.close()


async def test_a_full_disk_is_told_until_there_is_room_again(tmp_path: Path) -> None:
    """Nothing else is written meanwhile: the end is found by writes for that alone."""
    path = tmp_path / "peloton.db"
    store = await open_sqlite(settings(path))

    async def most_pages(number: int) -> None:
        await store._writer.submit(lambda db: db.execute(f"PRAGMA max_page_count = {number}").fetchall())

    await store.pools.write(pool())
    assert store.trouble == ""
    await most_pages(1)  # SQLite takes the present number
    with pytest.raises(Unavailable, match="database or disk is full"):
        await store.jobs.create(JOB, replace(spec(), name="n" * 100_000), job_runtime())
    assert store.trouble == "the database cannot be written: database or disk is full"
    await store.pools.write(pool())
    assert store.trouble, "a write that needs no more room says nothing"
    await most_pages(1_000_000)
    async with asyncio.timeout(PATIENCE):
        while store.trouble:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)
    await store.jobs.create(JOB, replace(spec(), name="n" * 100_000), job_runtime())
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT * FROM terms").fetchall() == [], "no trial is left"
    await store.close()


async def test_another_process_that_ends_leaves_the_log_of_this_one(tmp_path: Path) -> None:
    """It would remove the log where this process had lost its locks: what is written later was lost then."""
    path = tmp_path / "peloton.db"
    store = await open_store(settings(path))
    query = "SELECT count(*) FROM pools"
    count = f"import sqlite3; print(sqlite3.connect({str(path)!r}).execute({query!r}).fetchone())"

    async def counted() -> bytes:
        return await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", count])

    assert await counted() == b"(0,)\n"
    await store.pools.write(pool())
    assert await counted() == b"(1,)\n"
    await store.close()
    assert await counted() == b"(1,)\n"


async def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    """The fault comes from the driver, after the write's first statement went through."""
    db = writer_connection(tmp_path / "peloton.db", 1)
    db.execute("CREATE TABLE t (x INTEGER)")
    writer = Writer(db, max_queued=10)

    def write(*values: object) -> object:
        return writer.submit(
            lambda db: [db.execute("INSERT INTO t VALUES (?)", (v,)).rowcount for v in values]
        )

    results = await asyncio.gather(write(1), write(2, 2**70), write(3), return_exceptions=True)  # type: ignore[call-overload]
    assert [type(result) for result in results] == [list, OverflowError, list]
    rows = await writer.submit(lambda db: db.execute("SELECT x FROM t ORDER BY x").fetchall())
    assert rows == [(1,), (3,)]
    await writer.close()


async def test_writes_that_wait_share_a_transaction_and_callers_wait_for_room(tmp_path: Path) -> None:
    db = writer_connection(tmp_path / "peloton.db", 1)
    db.execute("CREATE TABLE t (x INTEGER)")
    begun: list[str] = []
    db.set_trace_callback(
        lambda statement: begun.append(statement) if statement.startswith("BEGIN") else None
    )
    writer = Writer(db, max_queued=10)

    def insert(value: int) -> Callable[[sqlite3.Connection], int]:
        return lambda db: db.execute("INSERT INTO t VALUES (?)", (value,)).rowcount

    await asyncio.gather(*(writer.submit(insert(i)) for i in range(40)))
    assert len(begun) == 4
    await writer.close()


async def test_a_caller_that_gives_up_does_not_harm_the_others(tmp_path: Path) -> None:
    store = await open_store(settings(tmp_path / "peloton.db"))
    given_up = asyncio.ensure_future(store.write_all(JOB, {0: task_runtime()}))
    kept = asyncio.ensure_future(store.write_all(JOB, {1: task_runtime()}))
    await asyncio.sleep(0)
    given_up.cancel()
    await kept
    assert await store.tasks.get(JOB, 1) == task_runtime()
    await store.close()


async def test_most_runtimes_leave_the_index_alone(tmp_path: Path) -> None:
    store = await open_store(settings(tmp_path / "peloton.db"))
    await store.jobs.create(JOB, spec(), job_runtime())
    with sqlite3.connect(tmp_path / "peloton.db") as db:
        db.execute("CREATE TRIGGER t BEFORE UPDATE ON job_index BEGIN SELECT RAISE(ABORT, 'touched'); END")
    await store.write_all(JOB, {}, (), replace(job_runtime(), task_counts={TaskState.LOST: 3}))
    await store.close()


CHILD = """
import asyncio, itertools, sys
from pathlib import Path
from storage.config import SqliteSettings
from storage.selection.factory import open_store
from tests.contract.storage.samples import job_id, task_runtime

async def main():
    store = await open_store(SqliteSettings(path=Path(sys.argv[1])))
    async def client(number):
        for run in itertools.count(1):
            await store.write_all(job_id(1), {number: task_runtime(run), number + 100: task_runtime(run)})
            print(number, run, flush=True)
    await asyncio.gather(*map(client, range(8)))

asyncio.run(main())
"""


def acknowledged_before_kill_9(path: Path) -> dict[int, int]:
    """The last run that each of the child's clients was told to be stored."""
    acknowledged: dict[int, int] = {}
    command = [sys.executable, "-c", CHILD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.endswith("\n"):
                number, run = line.split()
                acknowledged[int(number)] = int(run)
            if len(acknowledged) == 8 and min(acknowledged.values()) >= 20:
                child.kill()
    assert child.returncode == -9, "the child ended by itself"
    return acknowledged


async def test_what_was_acknowledged_outlives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "peloton.db"
    acknowledged = await asyncio.to_thread(acknowledged_before_kill_9, path)

    store = await open_store(settings(path))
    for number, run in acknowledged.items():
        assert (await store.tasks.get(JOB, number)).run >= run
        assert await store.tasks.get(JOB, number) == await store.tasks.get(JOB, number + 100)
    await store.close()


@pytest.mark.parametrize(
    ("kind", "names", "known"),
    [
        (TaskRuntime, codec.TASK_RUNTIME._names, set()),
        (
            JobRuntime,
            codec.JOB_RUNTIME._names,
            {"crash_loop", "gang_restart", "gang_members", "waits", "follows"},
        ),
        (PodEvent, codec.POD_EVENT._names, {"job_id", "instance", "run", "timestamp"}),
        (PoolConfig, codec.POOL._names, set()),
        (HostInfo, codec.HOST._names, set()),
    ],
)
def test_every_field_is_stored(kind: type, names: tuple[str, ...], known: set[str]) -> None:
    assert set(names) | known == {field.name for field in fields(kind)}


def test_what_an_older_program_wrote_gets_the_defaults() -> None:
    assert codec.TASK_RUNTIME.decode("[1,9,0,1,1,0]") == TaskRuntime(
        TaskState.INITIALIZED, TaskState.SUCCEEDED, 0, 1, 1, 0
    )


def test_each_state_has_a_place_in_a_runs_life() -> None:
    assert set(STATES) == set(TaskState)
    assert len(STATES) == len(TaskState)


async def test_old_events_go_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages end amid events of one moment, and those of runs that live lie between the others."""
    monkeypatch.setattr(events, "_EXAMINED_AT_ONCE", 7)
    store = await open_store(SqliteSettings(path=tmp_path / "peloton.db"))
    lives = [event(job_id(1), instance=i, timestamp=5) for i in range(40)]
    ended = [event(job_id(1), instance=i, timestamp=5) for i in range(40, 80)]
    ends = [event(job_id(1), i, state=TaskState.FAILED, timestamp=6 + i % 2) for i in range(40, 80)]
    await store.write_all(JOB, {}, [*lives, *ended, *ends])
    assert await store.pod_events.expire(7) == 60
    assert await store.pod_events.expire(8) == 20
    assert await store.pod_events.expire(8) == 0
    for i in (0, 39):
        assert len(await store.pod_events.list(job_id(1), i)) == 1
    await store.close()


async def test_a_migration_finds_the_owners_of_jobs(tmp_path: Path) -> None:
    path, version = tmp_path / "peloton.db", 7
    store = await open_store(settings(path))
    for number, team in ((1, "ann"), (2, "maintainer")):
        await store.jobs.create(job_id(number), spec(team=team), job_runtime())
    await store.close()
    with closing(writer_connection(path, 1)) as db:
        db.execute("DELETE FROM schema_version WHERE version >= ?", (version,))
        db.execute("ALTER TABLE job_index DROP COLUMN owned_by")
        scripts = migrations()
        migrate(db, {each: scripts[each] for each in scripts if each <= version}, 1)
        db.executemany(
            "INSERT INTO schema_version VALUES (?)", [(each,) for each in scripts if each > version]
        )
    store = await open_store(settings(path))
    for owner, count in (("maintainer", 2), ("ann", 0)):
        page = await store.jobs.query(JobQuery(within=(JobScope(owner=owner),)))
        assert page.total == count
    await store.close()
