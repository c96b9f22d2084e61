"""The record of what leaders do is whole, and changes nothing."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_type_hints

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.calls.jobmgr import KILL_TASKS, LAUNCH_TASKS
from peloton.calls.rpc import Rpc
from peloton.errors import Fenced
from peloton.model.shard import shard_of
from peloton.private.hostmgr.hostsvc.hostsvc_pb2 import LaunchableTask, LaunchTasksRequest
from peloton.private.hostmgr.launching import launching_pb2
from peloton.sharding.claims import terms_of
from storage import interface
from storage.config import SqliteSettings
from storage.selection.factory import open_store
from tests.contract.storage.samples import job_id, task_runtime
from tests.faults.leader_actions import ActionLog
from tests.faults.recording_daemon import (
    FLUSH_SECONDS,
    WRITES,
    Call,
    Journal,
    RecordedStore,
    recorded_client,
    recorded_driver,
    tell_of,
)
from tests.faults.triggers import Trigger, set_trigger, take

PORTS: Mapping[str, type] = get_type_hints(interface.Store)
"""Repositories of the store."""
READS = {
    "config",
    "runtime",
    "query",
    "active",
    "get",
    "list",
    "of_job",
    "read",
    "events",
    "find_keys",
    "keys",
    "find_losses",
    "summaries",
    "all",
    "framework_id",
    "lost_seconds",
    "of_hour",
    "closed",
    "last",
    "periods",
}


def test_no_repository_of_the_store_is_left_out() -> None:
    assert WRITES.keys() == PORTS.keys()


@pytest.mark.parametrize("name", PORTS)
def test_each_call_of_the_port_is_known_to_write_or_to_read(name: str) -> None:
    calls = {each for each, _ in inspect.getmembers(PORTS[name], inspect.isfunction) if each[0] != "_"}
    assert calls - READS == WRITES[name]


async def test_writes_are_recorded_once_they_are_taken(tmp_path: Path) -> None:
    settings = SqliteSettings(path=tmp_path / "peloton.db")
    store = RecordedStore(await open_store(settings), Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"))
    log = ActionLog(tmp_path)
    await store.begin_term("jobmgr", 3)
    await store.write_all(job_id(1), {0: task_runtime()})
    await store.write_all(job_id(1), {1: task_runtime()})
    assert len([page async for page in store.tasks.list(job_id(1))]) == 1  # type: ignore[attr-defined]
    newer = await open_store(settings)
    await newer.begin_term("jobmgr", 4)
    with pytest.raises(Fenced):
        await store.write_all(job_id(1), {1: task_runtime()})
    state = task_runtime().state.name
    sent = [(action.kind, action.role, action.term, action.what) for action in log.since(0)]
    assert sent == [
        ("term", "jobmgr", 3, ""),
        ("write", "jobmgr", 3, f"write_all {state}"),
        ("write", "jobmgr", 3, f"write_all {state}"),
    ]
    await store.close()
    await newer.close()
    assert log.since(0)[-1].kind == "over"


async def test_writes_are_recorded_with_the_term_of_their_shard(tmp_path: Path) -> None:
    """One that shares the work writes by one handle as an owner, and by another one as leader."""
    settings = SqliteSettings(path=tmp_path / "peloton.db")
    journal, log = Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"), ActionLog(tmp_path)
    leader = RecordedStore(await open_store(settings), journal)
    owner = RecordedStore(await open_store(settings), journal)
    await leader.begin_term("jobmgr", 3)
    mine, other = shard_of(job_id(1)), shard_of(job_id(2))
    await owner.begin_shards("jobmgr", {mine: 7, other: 8})
    await owner.write_all(job_id(1), {0: task_runtime()})
    await leader.usage.expire(0, 0, 0)  # type: ignore[attr-defined]
    owner.end_shards([mine])
    assert journal.owned == {other: 8}
    sent = [(action.kind, action.term, action.job, action.owned) for action in log.since(0)]
    assert sent == [("term", 3, "", 0), ("shards", 0, "", 0), ("write", 0, job_id(1), 7), ("write", 3, "", 0)]
    assert terms_of(log.since(0)[1].what) == {mine: 7, other: 8}
    await leader.close()
    assert journal.owned == {other: 8}
    await owner.close()
    assert not journal.owned


async def test_launches_that_are_taken_are_recorded_with_the_term_of_their_shard(tmp_path: Path) -> None:
    journal, log = Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"), ActionLog(tmp_path)
    journal.owned = {shard_of(job_id(1)): 7}
    outcomes = [launching_pb2.Outcome.RESULT_LAUNCHED, launching_pb2.Outcome.RESULT_CLAIM_OVER]
    request = launching_pb2.LaunchTasksRequest()
    for number, job in ((1, job_id(1)), (2, job_id(2))):
        request.hosts.add().tasks.add(mesos_task_id=f"{job}-0-{number}")

    class Client:
        async def call(self, rpc: object, request: object) -> object:
            journal.owned = {}
            return launching_pb2.LaunchTasksResponse(
                outcomes=[launching_pb2.Outcome(result=each) for each in outcomes]
            )

    await recorded_client(Client, journal)().call(LAUNCH_TASKS, request)
    sent = [(action.kind, action.what, action.job, action.owned) for action in log.since(0)]
    assert sent == [("asked", f"{job_id(1)}-0-1", job_id(1), 7)]


def test_launches_and_kills_are_recorded_by_their_runs(tmp_path: Path) -> None:
    journal, log = Journal(tmp_path / "hostmgr-1.jsonl", "hostmgr"), ActionLog(tmp_path)
    accept = Call(type=Call.ACCEPT)
    for name in ("a-0-1", "a-1-1"):
        task = mesos_pb2.TaskInfo(task_id=mesos_pb2.TaskID(value=name))
        operation = accept.accept.operations.add(type=mesos_pb2.Offer.Operation.LAUNCH)
        operation.launch.task_infos.add().CopyFrom(task)
    kill = Call(type=Call.KILL, kill=scheduler_pb2.Call.Kill(task_id=mesos_pb2.TaskID(value="a-0-1")))
    tell_of([accept, kill, Call(type=Call.REVIVE)], journal, 7.0)
    sent = [(action.kind, action.at, action.what) for action in log.since(0)]
    assert sent == [("launch", 7.0, "a-0-1"), ("launch", 7.0, "a-1-1"), ("kill", 7.0, "a-0-1")]


def test_an_incomplete_line_of_a_killed_process_is_not_read(tmp_path: Path) -> None:
    journal, log = Journal(tmp_path / "hostmgr-1.jsonl", "hostmgr"), ActionLog(tmp_path)
    journal.begin(1, 5.0)
    with (tmp_path / "hostmgr-1.jsonl").open("a") as file:
        file.write('{"kind": "wri')
    assert [action.kind for action in log.since(0)] == ["term"]
    assert [action.kind for action in log.since(0)] == ["term"]


def test_a_trigger_fires_once_at_its_point_for_its_job(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr")
    set_trigger(tmp_path, "jobmgr", "jobs.create", Trigger("b", target=7))
    set_trigger(tmp_path, "hostmgr", "before kill", Trigger())
    assert journal.trigger("jobs.create", lambda job: job == "a") is None
    assert journal.trigger("before kill", lambda job: True) is None
    assert journal.trigger("jobs.create", lambda job: job == "b") == Trigger("b", target=7)
    assert journal.trigger("jobs.create", lambda job: job == "b") is None


def test_a_trigger_without_a_job_fires_for_any(tmp_path: Path) -> None:
    file = set_trigger(tmp_path, "jobmgr", "jobs.create", Trigger())
    assert take(tmp_path, "jobmgr", "jobs.create", lambda job: False) == Trigger()
    assert not file.exists()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait(60)


def test_a_trigger_signals_its_target(bystander: subprocess.Popen[bytes]) -> None:
    Trigger(target=bystander.pid, number=signal.SIGTERM).fire()
    assert bystander.wait(60) == -signal.SIGTERM


class Died(Exception):
    pass


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(trigger: Trigger) -> None:
        raise Died

    monkeypatch.setattr(Trigger, "fire", die)


async def test_a_trigger_at_a_write_kills_between_the_write_and_the_next_step(
    tmp_path: Path, deaths: None
) -> None:
    store = await open_store(SqliteSettings(path=tmp_path / "peloton.db"))
    recorded = RecordedStore(store, Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"))
    state = task_runtime().state.name
    set_trigger(tmp_path, "jobmgr", f"write_all {state}", Trigger(str(job_id(1))))
    await recorded.write_all(job_id(2), {0: task_runtime()})
    with pytest.raises(Died):
        await recorded.write_all(job_id(1), {0: task_runtime()})
    assert await store.tasks.get(job_id(1), 0) == task_runtime()
    await store.close()


class Client:
    """Stands for the client of another daemon."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, rpc: Rpc[object, object], request: object, timeout: float = 1.0) -> str:
        self.asked.append(rpc.name)
        return "done"


async def test_a_trigger_at_a_call_kills_before_it_is_sent_or_after_its_answer(
    tmp_path: Path, deaths: None
) -> None:
    client = recorded_client(Client, Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"))()
    request = LaunchTasksRequest(tasks=[LaunchableTask(taskId=mesos_pb2.TaskID(value="a-0-1"))])
    set_trigger(tmp_path, "jobmgr", "before LaunchTasks", Trigger("a-0"))
    assert await client.call(KILL_TASKS, request, timeout=2.0) == "done"
    with pytest.raises(Died):
        await client.call(LAUNCH_TASKS, request)
    assert client.asked == ["KillTasks"]
    set_trigger(tmp_path, "jobmgr", "after LaunchTasks", Trigger("a-1"))
    assert await client.call(LAUNCH_TASKS, request) == "done"
    set_trigger(tmp_path, "jobmgr", "after LaunchTasks", Trigger("a-0"))
    with pytest.raises(Died):
        await client.call(LAUNCH_TASKS, request)
    assert client.asked == ["KillTasks", "LaunchTasks", "LaunchTasks"]


async def test_a_daemon_that_survives_a_trigger_is_held_and_continues(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    client = recorded_client(Client, Journal(tmp_path / "jobmgr-1.jsonl", "jobmgr"))()
    trigger = Trigger(target=bystander.pid, number=signal.SIGTERM, hold=0.05)
    set_trigger(tmp_path, "jobmgr", "before LaunchTasks", trigger)
    began = time.monotonic()
    assert await client.call(LAUNCH_TASKS, LaunchTasksRequest()) == "done"
    assert time.monotonic() - began >= 0.05
    assert bystander.wait(60) == -signal.SIGTERM


class Driver:
    """Stands for the driver of Mesos."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, *calls: object) -> None:
        self.sent += calls

    async def drain(self) -> None:
        """There is room."""


async def test_a_trigger_at_a_launch_kills_before_or_after_it(tmp_path: Path, deaths: None) -> None:
    driver = recorded_driver(Driver, Journal(tmp_path / "hostmgr-1.jsonl", "hostmgr"))()
    accept = Call(type=Call.ACCEPT)
    set_trigger(tmp_path, "hostmgr", "before launch", Trigger())
    with pytest.raises(Died):
        driver.send(accept)
    assert driver.sent == []
    set_trigger(tmp_path, "hostmgr", "after launch", Trigger())
    sent: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: sent.append("died"))
    driver.send(Call(type=Call.KILL))
    await driver.drain()
    driver.send(accept)
    assert driver.sent[-1] is accept
    began = time.monotonic()
    await driver.drain()
    assert time.monotonic() - began >= FLUSH_SECONDS
    assert sent == ["died"]
