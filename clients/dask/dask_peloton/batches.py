"""Calls for many things at once, for callers that each have one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batches(Generic[T, R]):
    """Collects what is wanted until the loop has run all that is ready, and wants it by one call.

    The call gets the wanted things and returns a result for each, in order. Its failure is that of all.
    """

    def __init__(self, call: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._call = call
        self._wanted: list[tuple[T, asyncio.Future[R]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def want(self, thing: T) -> R:
        """Have a part in the next call; return the result."""
        loop = asyncio.get_running_loop()
        if not self._wanted:
            loop.call_soon(self._begin)
        future: asyncio.Future[R] = loop.create_future()
        self._wanted.append((thing, future))
        return await future

    def _begin(self) -> None:
        task = asyncio.ensure_future(self._run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self) -> None:
        wanted, self._wanted = self._wanted, []
        try:
            results = await self._call([thing for thing, _ in wanted])
        except Exception as error:  # noqa: BLE001 - the callers raise it
            for _, future in wanted:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(wanted, results, strict=True):
            if not future.done():
                future.set_result(result)
