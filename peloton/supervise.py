"""Background tasks by name: the first unexpected end is not overlooked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from peloton.errors import Refused

log = logging.getLogger(__name__)


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
        """Waits for the first unexpected end; returns its story in one line."""
        return await asyncio.shield(self._failed)

    async def close(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._closing:
            return
        # Nobody but `close` cancels a task: what is cancelled now waited for something that was.
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Refused):  # which says all in its one line
            log.error("background task %s failed", task.get_name(), exc_info=error)
        if not self._failed.done():
            self._failed.set_result(_story(task.get_name(), error))


def _story(name: str, error: BaseException | None) -> str:
    if error is None:
        return f"{name} ended"
    return f"{name} ended: {error if isinstance(error, Refused) else repr(error)}"
