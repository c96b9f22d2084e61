"""Queues of the core's instructions for the drivers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from jobmgr.core.state.instructions import (
    Compare,
    Enqueue,
    Instruction,
    Kill,
    Launch,
    Reconcile,
    Release,
    Retire,
    Settle,
    ShutDown,
    Withdraw,
)
from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState

T = TypeVar("T")


class Queue(Generic[T]):
    """A queue that is drained in batches. The number of active tasks bounds it."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Iterable[T]) -> None:
        """Append items."""
        self._items.extend(items)
        if self._items:
            self._some.set()

    async def take(self, limit: int) -> list[T]:
        """Wait for items; remove and return at most `limit` of them, in order."""
        while not self._items:
            self._some.clear()
            await self._some.wait()
        items = self._items
        return [items.popleft() for _ in range(min(limit, len(items)))]


class Outbox:
    """One queue for each kind of instruction."""

    def __init__(self) -> None:
        self.enqueue: Queue[Enqueue] = Queue()
        self.enqueue_again: Queue[Enqueue] = Queue()
        self.compare: Queue[Compare] = Queue()
        self.withdraw: Queue[Withdraw] = Queue()
        self.launch: Queue[Launch] = Queue()
        self.release: Queue[Release] = Queue()
        self.kill: Queue[Run] = Queue()
        self.shut_down: Queue[tuple[Run, str]] = Queue()
        self.settle: Queue[tuple[Run, TaskState]] = Queue()
        self.reconcile: Queue[tuple[Run, str]] = Queue()
        self.retire: Queue[JobId] = Queue()
        self._routes: Mapping[type, Callable[[Any], None]] = {
            Enqueue: lambda it: (self.enqueue_again if it.again else self.enqueue).put([it]),
            Compare: lambda it: self.compare.put([it]),
            Withdraw: lambda it: self.withdraw.put([it]),
            Launch: lambda it: self.launch.put([it]),
            Release: lambda it: self.release.put([it]),
            Kill: lambda it: self.kill.put(it.runs),
            ShutDown: lambda it: self.shut_down.put(it.runs),
            Settle: lambda it: self.settle.put(it.runs),
            Reconcile: lambda it: self.reconcile.put(it.runs),
            Retire: lambda it: self.retire.put([it.job_id]),
        }

    def send(self, instructions: Iterable[Instruction]) -> None:
        """Put instructions into their queues."""
        for instruction in instructions:
            self._routes[type(instruction)](instruction)
