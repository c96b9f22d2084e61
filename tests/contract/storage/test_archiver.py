"""The archiver over every store: what it archives reads back equal, nothing else goes, no kill loses any."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pytest

from archiver.archive import Archiver, Cycle
from archiver.reading import Archive, main
from archiver.sink import FileSink, Sink, StreamSink, Writer
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.clock import ManualClock
from peloton.errors import NotFound, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobQuery, TimeRange
from peloton.model.states import TERMINAL_JOB_STATES, JobState, TaskState
from peloton.wire.job import job_runtime_to, job_spec
from peloton.wire.payload import job_config
from peloton.wire.task import pod_event_to, runtime_to
from storage.interface import Store

from .samples import HOUR, event, job_id, job_runtime, spec, task_runtime

AGE = 10 * HOUR
OLD, YOUNG = 2 * HOUR, 95 * HOUR
NOW = 100 * HOUR


class Killed(BaseException):
    """The process was killed here."""


def nothing() -> None:
    pass


@dataclass
class StoreJobs:
    """Ended jobs as jobmgr lists and deletes them."""

    store: Store
    before_delete: Callable[[], None] = nothing
    after_delete: Callable[[], None] = nothing

    async def ended(self, before: int) -> AsyncIterator[JobId]:
        query = JobQuery(
            states=TERMINAL_JOB_STATES, completed=TimeRange(None, before), limit=100, created=TimeRange(0)
        )
        for each in (await self.store.jobs.query(query)).jobs:
            yield each.job_id

    async def delete(self, job_id: JobId) -> None:
        self.before_delete()
        await self.store.jobs.delete(job_id)
        self.after_delete()


class KilledWriter:
    """Writes until a number of bytes, and is killed there: what came before may or may not be on disk."""

    def __init__(self, writer: Writer, left: int, unsynced: bool) -> None:
        self._writer = writer
        self._left = left
        self._unsynced = unsynced

    def write(self, line: bytes) -> None:
        self._writer.write(line[: self._left])
        if len(line) > self._left:
            raise Killed
        self._left -= len(line)

    def sync(self) -> None:
        if self._unsynced:
            raise Killed
        self._writer.sync()


class KilledSink:
    def __init__(self, sink: Sink, left: int, unsynced: bool = False) -> None:
        self._sink = sink
        self._left = left
        self._unsynced = unsynced

    def open(self) -> AbstractContextManager[Writer]:
        @contextmanager
        def opened() -> Iterator[Writer]:
            with self._sink.open() as writer:
                yield KilledWriter(writer, self._left, self._unsynced)

        return opened()


def archiver(
    store: Store, sink: Sink, jobs: StoreJobs | None = None, fence: Callable[[], None] = nothing
) -> Archiver:
    clock = ManualClock(epoch=NOW)
    return Archiver(store, jobs or StoreJobs(store), sink, clock, AGE, fence)


async def add(
    store: Store,
    number: int,
    state: JobState = JobState.SUCCEEDED,
    completed: int = OLD,
    type: int = job_pb2.BATCH,
    command: str = "echo Hello — there",
) -> JobId:
    """Add a job of two config versions, three tasks and some events."""
    job = job_id(number)
    first = spec(command=command)
    if type != job_pb2.BATCH:
        config = job_config(first.payload)
        config.type = job_pb2.JobType.ValueType(type)
        first = job_spec(config, 1)
    runtime = job_runtime(state, completed=completed)
    await store.jobs.create(job, first, runtime)
    second = job_config(first.payload)
    second.description = "the second version"
    await store.jobs.add_config(job, job_spec(second, 2))
    runtime = replace(runtime, config_version=2, revision=6)
    tasks = {i: task_runtime(run=i + 1, state=TaskState.SUCCEEDED) for i in range(3)}
    events = [event(job, 0, run, timestamp=run * HOUR) for run in range(1, 13)] + [event(job, 2)]
    await store.write_all(job, tasks, events, runtime)
    if state.terminal:
        await store.jobs.retire(job)
    return job


async def gone(store: Store, job: JobId) -> bool:
    try:
        await store.jobs.runtime(job)
    except NotFound:
        return True
    return False


async def test_what_is_archived_reads_back_equal_and_has_left_the_store(store: Store, tmp_path: Path) -> None:
    job = await add(store, 1)
    runtime = await store.jobs.runtime(job)
    configs = {version: job_config((await store.jobs.config(job, version)).payload) for version in (1, 2)}
    tasks = {i: runtime_to(job, i, await store.tasks.get(job, i)) for i in range(3)}
    events = {i: [pod_event_to(e) for e in await store.pod_events.list(job, i, runs=99)] for i in (0, 2)}
    assert len(events[0]) == 12
    path = tmp_path / "new" / "jobs.jsonl"

    assert await archiver(store, FileSink(path)).run_once() == Cycle(archived=1)

    found = Archive(path).get(job)
    assert found.info() == job_pb2.JobInfo(
        id=peloton_pb2.JobID(value=job), config=configs[2], runtime=job_runtime_to(runtime)
    )
    assert (found.configs, found.tasks, found.events) == (configs, tasks, events)
    assert await gone(store, job)
    assert [page async for page in store.tasks.list(job)] == []
    assert list(await store.pod_events.list(job, 0)) == []


async def test_nothing_else_is_touched(store: Store, tmp_path: Path) -> None:
    old = await add(store, 1, JobState.FAILED)
    kept = [
        await add(store, 2, completed=YOUNG),
        await add(store, 3, JobState.RUNNING, completed=0),
        await add(store, 4, JobState.KILLED, type=job_pb2.SERVICE),
        await add(store, 5, JobState.KILLING, completed=0),
    ]
    before = [await store.jobs.runtime(job) for job in kept]

    assert await archiver(store, FileSink(tmp_path / "a")).run_once() == Cycle(archived=1)

    assert [entry.job_id for entry in Archive(tmp_path / "a").entries()] == [old]
    assert [await store.jobs.runtime(job) for job in kept] == before
    assert [len([i async for page in store.tasks.list(job) for i in page]) for job in kept] == [3] * 4
    assert await store.jobs.active() == (kept[1], kept[3])


async def test_an_archiver_asks_the_store_and_not_only_the_list(store: Store, tmp_path: Path) -> None:
    """The list may be older than the store."""
    job = await add(store, 1, JobState.RUNNING, completed=0)
    jobs = StoreJobs(store)

    async def listed(before: int) -> AsyncIterator[JobId]:
        yield job
        yield job_id(99)

    jobs.ended = listed  # type: ignore[method-assign]
    assert await archiver(store, FileSink(tmp_path / "a"), jobs).run_once() == Cycle()
    assert not await gone(store, job)
    assert not (tmp_path / "a").exists()


STEPS = ("write", "sync", "delete", "deleted")


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_loses_nothing(store: Store, tmp_path: Path, step: str) -> None:
    path = tmp_path / "a"
    job = await add(store, 1)
    jobs = StoreJobs(store)
    sink: Sink = FileSink(path)

    def kill() -> None:
        raise Killed

    if step == "write":
        sink = KilledSink(sink, 100)
    elif step == "sync":
        sink = KilledSink(sink, 1 << 30, unsynced=True)
    elif step == "delete":
        jobs.before_delete = kill
    else:
        jobs.after_delete = kill
    with pytest.raises(Killed):
        await archiver(store, sink, jobs).run_once()
    assert await gone(store, job) == (step == "deleted")
    assert len(Archive(path).entries()) == (step != "write")

    again = await archiver(store, FileSink(path)).run_once()

    assert again == Cycle(archived=step != "deleted")
    assert await gone(store, job)
    assert [found.job_id for found in Archive(path).jobs()] == [job]
    assert Archive(path).get(job).config.description == "the second version"


async def test_a_job_that_was_cut_off_anywhere_is_there_once_afterwards(store: Store, tmp_path: Path) -> None:
    """Before it another job is archived whole; no cut touches that one."""
    other = await add(store, 1)
    path = tmp_path / "a"
    await archiver(store, FileSink(path)).run_once()
    head = path.read_bytes()
    job = await add(store, 2)
    jobs = StoreJobs(store)

    def spare() -> None:
        raise Unavailable("not now")

    jobs.before_delete = spare
    assert await archiver(store, FileSink(path), jobs).run_once() == Cycle(failed=1)
    block = path.read_bytes()[len(head) :]
    for cut in [*range(0, len(block), 97), *range(len(block) - 130, len(block) + 1)]:
        path.write_bytes(head + block[:cut])
        assert [entry.job_id for entry in Archive(path).entries()][:1] == [other]
        assert len(Archive(path).entries()) == 1 + (cut >= len(block) - 1)  # the last byte is the line feed
        await archiver(store, FileSink(path), jobs).run_once()
        assert [entry.job_id for entry in Archive(path).entries()] == [other, job], cut
    await archiver(store, FileSink(path)).run_once()
    assert await gone(store, job)
    assert len(list(Archive(path).jobs())) == 2


async def test_of_a_job_archived_twice_the_last_copy_counts(store: Store, tmp_path: Path) -> None:
    job = await add(store, 1)
    jobs = StoreJobs(store)

    def spare() -> None:
        raise Unavailable("not now")

    jobs.before_delete = spare
    path = tmp_path / "a"
    assert await archiver(store, FileSink(path), jobs).run_once() == Cycle(failed=1)
    changed = replace(await store.jobs.runtime(job), resource_usage={"cpu": 9.0}, revision=7)
    await store.write_all(job, {}, (), changed)
    assert await archiver(store, FileSink(path)).run_once() == Cycle(archived=1)
    (found,) = Archive(path).jobs()
    assert found.runtime.resourceUsage["cpu"] == 9.0


async def test_a_job_of_the_same_id_that_came_later_is_another_one(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a"
    job = await add(store, 1)
    await archiver(store, FileSink(path)).run_once()
    await store.jobs.create(job, spec(name="later"), job_runtime(JobState.FAILED, HOUR + 5, OLD))
    await archiver(store, FileSink(path)).run_once()
    assert [(entry.job_id, entry.name) for entry in Archive(path).entries()] == [
        (job, "wordcount"),
        (job, "later"),
    ]
    assert Archive(path).get(job).config.name == "later"


async def test_a_job_that_changes_while_it_is_read_is_left_for_later(store: Store, tmp_path: Path) -> None:
    job = await add(store, 1)

    class Changing(FileSink):
        changed = False

        @contextmanager
        def open(self) -> Iterator[Writer]:
            self.changed = True
            with super().open() as writer:
                yield writer

    sink = Changing(tmp_path / "a")
    runtime = store.jobs.runtime

    async def late(job_id: JobId) -> object:
        found = await runtime(job_id)
        return replace(found, revision=found.revision + sink.changed)

    store.jobs.runtime = late  # type: ignore[method-assign, assignment]
    try:
        assert await archiver(store, sink).run_once() == Cycle(failed=1)
    finally:
        store.jobs.runtime = runtime  # type: ignore[method-assign]
    assert not await gone(store, job)
    assert Archive(tmp_path / "a").entries() == ()


async def test_a_full_disk_keeps_the_job(store: Store) -> None:
    job = await add(store, 1)
    assert await archiver(store, FileSink(Path("/dev/full"))).run_once() == Cycle(failed=1)
    assert not await gone(store, job)


async def test_a_leader_whose_term_is_over_deletes_nothing(store: Store, tmp_path: Path) -> None:
    job = await add(store, 1)
    calls = iter([None, PelotonError("the term is over")])

    def fence() -> None:
        if error := next(calls):
            raise error

    assert await archiver(store, FileSink(tmp_path / "a"), fence=fence).run_once() == Cycle(failed=1)
    assert not await gone(store, job)


async def test_a_stream_gets_the_same_lines(store: Store, tmp_path: Path) -> None:
    job = await add(store, 1)
    path = tmp_path / "stdout"
    with path.open("ab") as stream:
        stream.write(b'{"record":"job","job_id":"cut o')
        assert await archiver(store, StreamSink(stream)).run_once() == Cycle(archived=1)
    assert Archive(path).get(job).config.name == "wordcount"


async def test_the_command_lists_and_prints(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = await add(store, 1)
    path = str(tmp_path / "a")
    await archiver(store, FileSink(Path(path))).run_once()
    assert main(["list", path]) == 0
    assert capsys.readouterr().out.split() == [
        job,
        "SUCCEEDED",
        "1970-01-01T02:00:00.000000000Z",
        "wordcount",
    ]
    assert main(["get", path, job]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["job"]["config"]["description"] == "the second version"
    assert sorted(shown["tasks"]) == ["0", "1", "2"]
    assert main(["get", path, job_id(2)]) == 1
    assert capsys.readouterr().err == f"peloton-archive: {path}: job {job_id(2)} is not in this archive\n"


def test_a_form_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text('{"record":"job","job_id":"x","format":2}\n')
    with pytest.raises(PelotonError, match="byte 0: format: 2 is not 1: a newer program wrote it"):
        Archive(path)


def test_a_pipe_needs_no_disk() -> None:
    class Pipe(io.BytesIO):
        def fileno(self) -> int:
            raise OSError(22, "Invalid argument")

    stream: BinaryIO = Pipe()
    with StreamSink(stream).open() as writer:
        writer.write(b"{}\n")
        writer.sync()
