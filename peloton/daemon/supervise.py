"""Supervised background tasks with names: the first unexpected end is reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from peloton.errors import Fenced, Refused

log = logging.getLogger(__name__)
_ONE_LINE = (Fenced, Refused)
"""Errors whose text says all; where in the program they came up is of no use."""


class Supervisor:
    """Tasks that live as long as their scope."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._closing = False

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run until the scope closes. Returning or raising before that is a failure of the scope."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def failed(self) -> str:
        """Wait for the first unexpected end; return its description in one line."""
        return await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Cancel the tasks and wait for their ends."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._closing:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, _ONE_LINE):
            log.error("background task %s failed", task.get_name(), exc_info=error)
        if not self._failed.done():
            self._failed.set_result(_story(task, error))


def _story(task: asyncio.Task[Any], error: BaseException | None) -> str:
    told = f"{task.get_name()} ended"
    if task.cancelled():  # by nobody, as only `close` cancels a task
        return f"{told}: what it waited for was cancelled"
    if error is None:
        return told
    return f"{told}: {error if isinstance(error, _ONE_LINE) else repr(error)}"
