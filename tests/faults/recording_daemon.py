"""A daemon that records what it does as leader, for the checker: `FOLDER ROLE [the daemon's own arguments]`.

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
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

from mesos.v1.scheduler import scheduler_pb2
from tests.faults.leader_actions import LeaderAction
from tests.faults.triggers import Trigger, take

WRITES = {
    "jobs": {"create", "add_config", "delete", "retire"},
    "tasks": set(),
    "pod_events": {"delete", "expire"},
    "workflows": {"prune"},
    "secrets": set(),
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

    def begin(self, term: int, at: float) -> None:
        self._term = term
        self.note("term", at)

    def note(self, kind: str, at: float, what: str = "") -> None:
        action = LeaderAction(kind, self._role, self._term, self._who, at, time.time(), what)
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


class RecordedStore:
    """The port `storage.interface.Store`."""

    def __init__(self, store: Any, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        for name, writes in WRITES.items():
            setattr(self, name, _Repository(getattr(store, name), name, writes, journal))
        self.write_all = _recorded(store.write_all, "write_all", journal)

    async def begin_term(self, role: str, term: int, *fence: Any) -> None:
        began = time.time()
        await self._store.begin_term(role, term, *fence)
        self._journal.begin(term, began)

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        await self._store.begin_shards(role, terms)

    def end_shards(self, shards: Collection[int]) -> None:
        self._store.end_shards(shards)

    async def close(self) -> None:
        self._journal.note("over", time.time())
        await self._store.close()


class _Repository:
    """Everything but the writes goes straight through."""

    def __init__(self, repository: Any, name: str, writes: Iterable[str], journal: Journal) -> None:
        self._repository = repository
        for each in writes:
            setattr(self, each, _recorded(getattr(repository, each), f"{name}.{each}", journal))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)


def _recorded(write: Callable[..., Any], what: str, journal: Journal) -> Callable[..., Any]:
    @wraps(write)
    async def recorded(*arguments: Any, **named: Any) -> Any:
        began = time.time()
        result = await write(*arguments, **named)
        states = _states(arguments)
        journal.note("write", began, " ".join([what, *states]))
        job = str(arguments[0]) if arguments else ""
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
            answer = await super().call(rpc, request, *arguments, **named)
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
