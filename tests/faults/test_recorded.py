"""The record of what leaders do is whole, and changes nothing."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.errors import Fenced
from storage import interface
from storage.config import SqliteSettings
from storage.factory import open_store
from tests.contract.storage.samples import job_id, task_runtime
from tests.faults.deeds import DeedLog
from tests.faults.recorded import WRITES, Call, Journal, RecordedStore, tell_of

PORTS = {
    "jobs": interface.Jobs,
    "tasks": interface.Tasks,
    "pod_events": interface.PodEvents,
    "pools": interface.Pools,
    "hosts": interface.Hosts,
}
READS = {"config", "runtime", "query", "active", "get", "list", "all", "framework_id"}


@pytest.mark.parametrize("name", PORTS)
def test_each_call_of_the_port_is_known_to_write_or_to_read(name: str) -> None:
    calls = {each for each, _ in inspect.getmembers(PORTS[name], inspect.isfunction) if each[0] != "_"}
    assert calls - READS == WRITES[name]


async def test_writes_are_recorded_once_they_are_taken(tmp_path: Path) -> None:
    settings = SqliteSettings(path=tmp_path / "peloton.db")
    store = RecordedStore(await open_store(settings), Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"))
    log = DeedLog(tmp_path)
    await store.begin_term("jobmgr", 3)
    await store.tasks.write(job_id(1), {0: task_runtime()})  # type: ignore[attr-defined]
    await store.write_all(job_id(1), {1: task_runtime()})
    assert len([page async for page in store.tasks.list(job_id(1))]) == 1  # type: ignore[attr-defined]
    newer = await open_store(settings)
    await newer.begin_term("jobmgr", 4)
    with pytest.raises(Fenced):
        await store.write_all(job_id(1), {1: task_runtime()})
    told = [(deed.kind, deed.role, deed.term, deed.what) for deed in log.since(0)]
    assert told == [
        ("term", "jobmgr", 3, ""),
        ("write", "jobmgr", 3, "tasks.write"),
        ("write", "jobmgr", 3, "write_all"),
    ]
    await store.close()
    await newer.close()
    assert log.since(0)[-1].kind == "over"


def test_launches_and_kills_are_recorded_by_their_runs(tmp_path: Path) -> None:
    journal, log = Journal(tmp_path / "hostmgr-1.jsonl", "hostmgr"), DeedLog(tmp_path)
    accept = Call(type=Call.ACCEPT)
    for name in ("a-0-1", "a-1-1"):
        task = mesos_pb2.TaskInfo(task_id=mesos_pb2.TaskID(value=name))
        operation = accept.accept.operations.add(type=mesos_pb2.Offer.Operation.LAUNCH)
        operation.launch.task_infos.add().CopyFrom(task)
    kill = Call(type=Call.KILL, kill=scheduler_pb2.Call.Kill(task_id=mesos_pb2.TaskID(value="a-0-1")))
    tell_of([accept, kill, Call(type=Call.REVIVE)], journal, 7.0)
    told = [(deed.kind, deed.at, deed.what) for deed in log.since(0)]
    assert told == [("launch", 7.0, "a-0-1"), ("launch", 7.0, "a-1-1"), ("kill", 7.0, "a-0-1")]


def test_what_a_killed_process_left_unfinished_is_not_read(tmp_path: Path) -> None:
    journal, log = Journal(tmp_path / "hostmgr-1.jsonl", "hostmgr"), DeedLog(tmp_path)
    journal.begin(1, 5.0)
    with (tmp_path / "hostmgr-1.jsonl").open("a") as file:
        file.write('{"kind": "wri')
    assert [deed.kind for deed in log.since(0)] == ["term"]
    assert [deed.kind for deed in log.since(0)] == ["term"]
