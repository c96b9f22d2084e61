"""Health checks by HTTP against servers that answer oddly."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.health_checks import HealthChecks
from minicluster.mesos.agent.isolation import NOTHING
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.status_updates import Key


@pytest.mark.parametrize("answer", [b"\n", b"HTTP/1.0\n", b"x" * 100_000, b"HTTP/1.0 what\n", b""])
async def test_a_malformed_answer_is_a_failure(answer: bytes, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    task = mesos.TaskInfo(name="t")
    check = task.health_check
    check.type, check.http.port = mesos.HealthCheck.HTTP, server.sockets[0].getsockname()[1]
    check.delay_seconds = check.grace_period_seconds = check.interval_seconds = 0.0
    check.consecutive_failures = 2
    failed, told = asyncio.Event(), list[bool]()

    def report(key: Key, healthy: bool, kill: bool) -> None:
        told.append(healthy)
        if kill:
            checks.stop(key)
            failed.set()

    checks = HealthChecks(report, Companions(Layout(tmp_path), NOTHING))
    checks.start(("f", "t"), task, RunLocation("a", "f", "c", tmp_path))
    await asyncio.wait_for(failed.wait(), 60)
    server.close()
    assert told[:2] == [False, False]


async def test_a_command_without_shell_is_a_file_and_its_whole_argv(tmp_path: Path) -> None:
    task = mesos.TaskInfo(name="t")
    check = task.health_check
    check.type, check.command.shell = mesos.HealthCheck.COMMAND, False
    check.command.value = "test"
    check.command.arguments.extend(["called-otherwise", "-d", str(tmp_path)])
    check.delay_seconds = 0.0
    told: asyncio.Queue[bool] = asyncio.Queue()
    checks = HealthChecks(
        lambda key, healthy, kill: told.put_nowait(healthy), Companions(Layout(tmp_path), NOTHING)
    )
    checks.start(("f", "t"), task, RunLocation("a", "f", "c", tmp_path))
    assert await asyncio.wait_for(told.get(), 60)
    checks.stop(("f", "t"))
