"""Supervised background tasks with names: the first unexpected end is reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from peloton.errors import Fenced, Refused

log = logging.getLogger(__name__)
_ONE_LINE = (Fenced, Refused)
"""Errors that are logged without a traceback: their text is enough."""


class Supervisor:
    """A scope of background tasks, which it cancels when it closes."""

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
            self._failed.set_result(_description(task, error))


class Scopes:
    """The scopes of a process, one within another: that of the process, and that of the term it leads in."""

    def __init__(self) -> None:
        self._open: list[Supervisor] = []

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run in the innermost scope."""
        self._open[-1].spawn(name, work)

    @asynccontextmanager
    async def inner(self) -> AsyncIterator[Supervisor]:
        """Open a scope while the body runs."""
        scope = Supervisor()
        self._open.append(scope)
        try:
            yield scope
        finally:
            await scope.close()
            self._open.remove(scope)


def _description(task: asyncio.Task[Any], error: BaseException | None) -> str:
    text = f"{task.get_name()} ended"
    if task.cancelled():  # not by us, as only `close` cancels a task
        return f"{text}: what it waited for was cancelled"
    if error is None:
        return text
    return f"{text}: {error if isinstance(error, _ONE_LINE) else repr(error)}"
