"""A daemon that records what it does as leader, for the checker: `FOLDER ROLE [the daemon's own arguments]`.

It stands between the daemon and its two ports to what lasts, the store and Mesos, and changes neither.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

from mesos.v1.scheduler import scheduler_pb2
from tests.faults.deeds import Deed

WRITES = {
    "jobs": {"create", "add_config", "write_runtime", "delete", "retire", "revive"},
    "tasks": {"write", "delete"},
    "pod_events": {"append", "delete", "expire"},
    "pools": {"write", "delete"},
    "hosts": {"write_framework_id", "write", "delete"},
}
"""Of the store's repositories."""
Call = scheduler_pb2.Call


class Journal:
    """Of one process. A line is in the operating system's hands before the daemon goes on."""

    def __init__(self, file: Path, role: str) -> None:
        self._file = file.open("a", encoding="utf-8")
        self._role = role
        self._who = file.stem
        self._term = 0

    def begin(self, term: int, at: float) -> None:
        self._term = term
        self.note("term", at)

    def note(self, kind: str, at: float, what: str = "") -> None:
        deed = Deed(kind, self._role, self._term, self._who, at, time.time(), what)
        self._file.write(json.dumps(asdict(deed)) + "\n")
        self._file.flush()


class RecordedStore:
    """The port `storage.interface.Store`."""

    def __init__(self, store: Any, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        for name, writes in WRITES.items():
            setattr(self, name, _Repository(getattr(store, name), name, writes, journal))
        self.write_all = _recorded(store.write_all, "write_all", journal)
        self.ping = store.ping

    async def begin_term(self, role: str, term: int, *fence: Any) -> None:
        began = time.time()
        await self._store.begin_term(role, term, *fence)
        self._journal.begin(term, began)

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
        journal.note("write", began, what)
        return result

    return recorded


def tell_of(calls: Iterable[Any], journal: Journal, at: float) -> None:
    for call in calls:
        if call.type == Call.ACCEPT:
            for operation in call.accept.operations:
                for task in operation.launch.task_infos:
                    journal.note("launch", at, task.task_id.value)
        elif call.type == Call.KILL:
            journal.note("kill", at, call.kill.task_id.value)


def main(argv: list[str]) -> int:
    folder, role, *arguments = argv
    sys.argv = [role, *arguments]
    journal = Journal(Path(folder) / f"{role}-{os.getpid()}-{time.time_ns()}.jsonl", role)
    daemon = importlib.import_module(f"{role}.__main__")

    class RecordedStores(daemon.Stores):  # type: ignore[misc, name-defined]
        async def open(self) -> Any:
            return RecordedStore(await super().open(), journal)

    daemon.Stores = RecordedStores  # type: ignore[attr-defined]
    if role == "hostmgr":

        class RecordedDriver(daemon.MesosDriver):  # type: ignore[misc, name-defined]
            def send(self, *calls: Any) -> None:
                began = time.time()
                super().send(*calls)
                tell_of(calls, journal, began)

        daemon.MesosDriver = RecordedDriver  # type: ignore[attr-defined]
    return int(daemon.main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
