"""A daemon that records what it does, for the checker: `FOLDER ROLE [the daemon's own arguments]`.

It stands between the daemon and its ports to the store, to other daemons and to Mesos, and changes none of
them. At these points it fires the triggers (`tests.faults.triggers`) that are set for them:

================================  ==================================================================
point                            what has happened
================================  ==================================================================
`jobs.create` and other writes    the store has taken the write, and the daemon does not know yet
`write_all STATE`                 the same, of a write with a task in that state
`before METHOD`                   nothing of a call to another daemon has left
`after METHOD`                    the other daemon has answered, and the caller does not know yet
`before launch`, `before kill`    nothing of the call has left for Mesos
`after launch`, `after kill`      Mesos has the call, and who asked for it has no answer
================================  ==================================================================
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from mesos.v1.scheduler import scheduler_pb2
from peloton.model.ids import parse_mesos_task_id
from peloton.model.shard import shard_of
from peloton.private.hostmgr.launching import launching_pb2
from peloton.sharding.claims import claim_of
from tests.faults.leader_actions import LeaderAction
from tests.faults.triggers import Trigger, take

WRITES = {
    "jobs": {"create", "add_config", "delete", "retire"},
    "tasks": set(),
    "pod_events": {"delete", "expire"},
    "workflows": {"prune"},
    "secrets": {"put", "drop"},
    "volumes": {"write"},
    "pools": {"write", "delete"},
    "hosts": {"write_framework_id", "write", "delete"},
    "known_hosts": {"write"},
    "host_pools": {"write"},
    "lockdowns": {"write", "delete"},
    "usage": {"write", "close", "expire"},
    "history": {"write"},
}
"""Of the store's repositories."""
OF_JOBS = {"write_all", "jobs.create", "jobs.add_config", "jobs.delete", "jobs.retire", "workflows.prune"}
"""Writes about one job, whose id is their first argument: the owner of its shard alone makes them."""
Call = scheduler_pb2.Call
FLUSH_SECONDS = 0.05
"""Until what was written to a connection has left."""


class Journal:
    """Of one process. A line is in the operating system's hands before the daemon goes on."""

    def __init__(self, file: Path, role: str) -> None:
        self._file = file.open("a", encoding="utf-8")
        self._folder = file.parent
        self._role = role
        self._who = file.stem
        self._term = 0

        self.owned: dict[int, int] = {}
        """The terms of the shards that this process owns."""

    def begin(self, term: int, at: float) -> None:
        self._term = term
        self.note("term", at)

    def note(
        self, kind: str, at: float, what: str = "", term: int | None = None, job: str = "", owned: int = 0
    ) -> None:
        """Note an action, of the leader's present term where none is given."""
        done_in = self._term if term is None else term
        action = LeaderAction(kind, self._role, done_in, self._who, at, time.time(), what, job, owned)
        self._file.write(json.dumps(asdict(action)) + "\n")
        self._file.flush()

    def trigger(self, point: str, about: Callable[[str], bool]) -> Trigger | None:
        """The trigger for this point, which has still to be fired. `about`: whether a job is concerned."""
        return take(self._folder, self._role, point, about)

    async def reach(self, point: str, about: Callable[[str], bool]) -> None:
        """Fire the trigger that is set for this point, where one is."""
        trigger = self.trigger(point, about)
        if trigger is not None:
            trigger.fire()
            await asyncio.sleep(trigger.hold)


@dataclass(slots=True)
class Handle:
    """What writes to the store, and as what: a process has another one as leader where it shares the work."""

    owned: Mapping[int, int]
    """Terms of the shards that the process owns."""
    term: int = 0
    """As leader."""
    owns: bool = False
    """Whether it is the one that writes for shards."""

    def owned_for(self, job: str) -> int:
        """Return the term in which the job's shard is owned, 0 where it is not."""
        return self.owned.get(shard_of(job), 0)


class RecordedStore:
    """The port `storage.interface.Store`."""

    def __init__(self, store: Any, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._handle = Handle(journal.owned)
        for name, writes in WRITES.items():
            setattr(self, name, _Repository(getattr(store, name), name, writes, journal, self._handle))
        self.write_all = _recorded(store.write_all, "write_all", journal, self._handle)

    async def begin_term(self, role: str, term: int, *fence: Any) -> None:
        began = time.time()
        await self._store.begin_term(role, term, *fence)
        self._handle.term = term
        self._journal.begin(term, began)

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        began = time.time()
        await self._store.begin_shards(role, terms)
        self._handle.owns = True
        self._journal.owned |= terms
        self._journal.note("shards", began, claim_of(terms), self._handle.term)

    async def check_term(self, job_id: str) -> None:
        await self._store.check_term(job_id)

    def end_shards(self, shards: Collection[int]) -> None:
        for shard in shards:
            self._journal.owned.pop(shard, None)
        self._store.end_shards(shards)

    async def close(self) -> None:
        if self._handle.owns:
            self._journal.owned.clear()
        self._journal.note("over", time.time(), term=self._handle.term)
        await self._store.close()


class _Repository:
    """Everything but the writes goes straight through."""

    def __init__(
        self, repository: Any, name: str, writes: Iterable[str], journal: Journal, handle: Handle
    ) -> None:
        self._repository = repository
        for each in writes:
            setattr(self, each, _recorded(getattr(repository, each), f"{name}.{each}", journal, handle))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)


def _recorded(write: Callable[..., Any], what: str, journal: Journal, handle: Handle) -> Callable[..., Any]:
    @wraps(write)
    async def recorded(*arguments: Any, **named: Any) -> Any:
        began = time.time()
        job = str(arguments[0]) if arguments else ""
        of_job = job if what in OF_JOBS else ""
        owned = handle.owned_for(of_job) if of_job else 0
        result = await write(*arguments, **named)
        states = _states(arguments)
        journal.note("write", began, " ".join([what, *states]), handle.term, of_job, owned)
        for point in (what, *(f"{what} {state}" for state in states)):
            await journal.reach(point, lambda wanted: wanted == job)
        return result

    return recorded


def _states(arguments: Iterable[Any]) -> list[str]:
    """Of the tasks that a write is about."""
    tasks = [each for each in arguments if isinstance(each, Mapping)]
    return sorted({runtime.state.name for each in tasks for runtime in each.values()})


def tell_of(calls: Iterable[Any], journal: Journal, at: float) -> None:
    for call in calls:
        if call.type == Call.ACCEPT:
            for operation in call.accept.operations:
                for task in operation.launch.task_infos:
                    journal.note("launch", at, task.task_id.value)
        elif call.type == Call.KILL:
            journal.note("kill", at, call.kill.task_id.value)


def tell_of_launches(
    request: launching_pb2.LaunchTasksRequest,
    answer: launching_pb2.LaunchTasksResponse,
    journal: Journal,
    at: float,
    owned: Mapping[int, int],
) -> None:
    """Note the launches that a job manager asked for and the host manager took."""
    for host, outcome in zip(request.hosts, answer.outcomes, strict=True):
        if outcome.result != launching_pb2.Outcome.RESULT_LAUNCHED:
            continue
        for task in host.tasks:
            job = parse_mesos_task_id(task.mesos_task_id).job_id
            journal.note("asked", at, task.mesos_task_id, 0, job, owned.get(shard_of(job), 0))


def recorded_driver(driver: Any, journal: Journal) -> Any:
    """The class `peloton.mesos.connection.MesosDriver` with a record of its calls."""

    class RecordedDriver(driver):  # type: ignore[misc]
        held = 0.0

        def send(self, *calls: Any) -> None:
            began, kinds = time.time(), sorted(_kinds(calls))
            for kind in kinds:
                if trigger := journal.trigger(f"before {kind}", lambda job: _concern(calls, job)):
                    trigger.fire()
            super().send(*calls)
            tell_of(calls, journal, began)
            for kind in kinds:
                if trigger := journal.trigger(f"after {kind}", lambda job: _concern(calls, job)):
                    self.held = 2 * FLUSH_SECONDS + trigger.hold
                    asyncio.get_running_loop().call_later(FLUSH_SECONDS, trigger.fire)

        async def drain(self) -> None:
            if self.held:
                held, self.held = self.held, 0.0
                await asyncio.sleep(held)
            await super().drain()

    return RecordedDriver


def recorded_client(client: Any, journal: Journal) -> Any:
    """The class `peloton.rpc.client.LeaderClient` with points before and after each call."""

    class RecordedClient(client):  # type: ignore[misc]
        async def call(self, rpc: Any, request: Any, *arguments: Any, **named: Any) -> Any:
            await journal.reach(f"before {rpc.name}", lambda job: job in str(request))
            began, owned = time.time(), dict(journal.owned)
            answer = await super().call(rpc, request, *arguments, **named)
            if isinstance(answer, launching_pb2.LaunchTasksResponse):
                tell_of_launches(request, answer, journal, began, owned)
            await journal.reach(f"after {rpc.name}", lambda job: job in str(request))
            return answer

    return RecordedClient


def _kinds(calls: Iterable[Any]) -> set[str]:
    names = {Call.ACCEPT: "launch", Call.KILL: "kill"}
    return {names[call.type] for call in calls if call.type in names}


def _concern(calls: Iterable[Any], job: str) -> bool:
    return any(job in str(call) for call in calls)


def main(argv: list[str]) -> int:
    folder, role, *arguments = argv
    sys.argv = [role, *arguments]
    journal = Journal(Path(folder) / f"{role}-{os.getpid()}-{time.time_ns()}.jsonl", role)
    daemon: Any = importlib.import_module(f"{role}.__main__")

    class RecordedStores(daemon.Stores):  # type: ignore[misc]
        async def open(self) -> Any:
            return RecordedStore(await super().open(), journal)

    daemon.Stores = RecordedStores
    shell: Any = importlib.import_module("peloton.daemon.lifecycle")
    shell.LeaderClient = recorded_client(shell.LeaderClient, journal)
    if role == "hostmgr":
        composition: Any = importlib.import_module("hostmgr.composition.mesos")
        composition.MesosDriver = recorded_driver(composition.MesosDriver, journal)
    return int(daemon.main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
