"""Health checks of running tasks: by command, HTTP or TCP (recording ``15-health``).

The first success is reported, further ones only after a failure; every failure is reported, except before the
first success within the grace period. ``consecutive_failures`` in a row (at least one) end the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import Callable

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.status_updates import Key

Report = Callable[[Key, bool, bool], None]
"""Called with the run's key, whether it is healthy, and whether it is to be killed."""

_HealthCheck = mesos.HealthCheck
_OK_STATUSES = range(200, 400)


class HealthChecks:
    """The checks of all runs of an agent, one asyncio task for each run that has one."""

    def __init__(self, report: Report, companions: Companions) -> None:
        self._report = report
        self._companions = companions
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def start(self, key: Key, task: mesos.TaskInfo, place: RunLocation) -> None:
        """Start to check a run, if it has a check of a known type."""
        if task.HasField("health_check") and task.health_check.type != _HealthCheck.UNKNOWN:
            loop = asyncio.get_running_loop()
            self._tasks[key] = loop.create_task(self._check(key, task, place))

    def stop(self, key: Key) -> None:
        """Stop to check a run."""
        task = self._tasks.pop(key, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _check(self, key: Key, task: mesos.TaskInfo, place: RunLocation) -> None:
        check = task.health_check
        grace_until = time.monotonic() + check.grace_period_seconds
        await asyncio.sleep(check.delay_seconds)
        healthy: bool | None = None
        failures = 0
        while key in self._tasks:
            good = await self._once(task, place)
            if good and healthy is not True:
                self._report(key, True, False)
            if good:
                healthy, failures = True, 0
            elif healthy is not None or time.monotonic() >= grace_until:
                healthy, failures = False, failures + 1
                self._report(key, False, failures >= check.consecutive_failures)
            await asyncio.sleep(check.interval_seconds)

    async def _once(self, task: mesos.TaskInfo, place: RunLocation) -> bool:
        check = task.health_check
        try:
            async with asyncio.timeout(check.timeout_seconds or None):
                if check.type == _HealthCheck.COMMAND:
                    return await self._command(task, place)
                if check.type == _HealthCheck.HTTP:
                    return await _http(check.http)
                _, writer = await asyncio.open_connection("127.0.0.1", check.tcp.port)
                writer.close()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return False
        return True

    async def _command(self, task: mesos.TaskInfo, place: RunLocation) -> bool:
        command = task.health_check.command
        env = self._companions.environment(task, place, command.environment.variables)
        file, argv = self._companions.command(task, place, command)
        process = await asyncio.create_subprocess_exec(
            *argv,
            executable=file,
            env=env,
            cwd=place.sandbox,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


async def _http(check: mesos.HealthCheck.HTTPCheckInfo) -> bool:
    context = None
    if check.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", check.port, ssl=context)
    try:
        request = f"GET {check.path or '/'} HTTP/1.0\r\nHost: 127.0.0.1:{check.port}\r\n\r\n"
        writer.write(request.encode())
        line = await reader.readuntil(b"\n")
    finally:
        writer.close()
    _, _, rest = line.partition(b" ")
    status = int(rest[:3])
    return status in check.statuses if check.statuses else status in _OK_STATUSES
