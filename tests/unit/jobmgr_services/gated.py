"""The services of a job manager behind a gate that knows users and roles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from jobmgr.services.v1alpha.watches import Watches
from peloton.clock import ManualClock
from peloton.identity.door import Door
from peloton.identity.passwords import hashed
from peloton.identity.task_tokens import TaskDoor
from peloton.rpc.audit import Audit
from peloton.rpc.gate import Gate
from peloton.rpc.server import RpcServer
from tests.unit.identity.served import CHEAP, private, settings
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine, FakeHostmgr, served_by


@asynccontextmanager
async def serving(
    folder: Path,
    engine: FakeEngine,
    users: Iterable[str],
    roles: str,
    watches: Watches | None = None,
    workflows: FakeWorkflows | None = None,
    tasks: TaskDoor | None = None,
    **settings_of_services: Any,
) -> AsyncIterator[tuple[Any, list[str]]]:
    """Serve for users, each with the role of its name; return a channel, and the lines of the audit log."""
    entries = [f"- {{username: {u}, password: '{hashed(u + '1', CHEAP)}', role: {u}}}" for u in users]
    file = private(folder / "users.yaml", "\n".join(["users:", *entries, roles]))
    lines: list[str] = []
    audit = Audit(lines.append, ManualClock(epoch=NOW).wall)
    door = Door(settings(folder, type="BASIC", config_file=file))
    door.tasks = tasks
    gate = Gate(door, None, audit)
    hostmgr, clock = FakeHostmgr(), ManualClock(epoch=NOW)
    server = RpcServer(lambda: "nobody leads", [gate], audit)
    server.activate(served_by(engine, clock, hostmgr, watches, workflows, **settings_of_services))
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel, lines
    await server.stop(0)
