"""Queues of the core's instructions for the drivers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from jobmgr.core.state.instructions import (
    Compare,
    DestroyVolume,
    Enqueue,
    FollowHosts,
    Instruction,
    Kill,
    Launch,
    Prune,
    Reconcile,
    Release,
    Retire,
    Settle,
    ShutDown,
    Withdraw,
)
from jobmgr.engine.lockdown import Gate, Lockdown
from peloton.model.ids import JobId, Run
from peloton.model.lockdown import Component
from peloton.model.states import TaskState
from peloton.model.volume import Volume

T = TypeVar("T")


class Queue(Generic[T]):
    """A queue that is drained in batches. The number of active tasks bounds it."""

    def __init__(self, gate: Gate | None = None) -> None:
        """Make a queue that holds its items back while `gate` is closed."""
        self._items: deque[T] = deque()
        self._some = asyncio.Event()
        self._gate = gate

    def __len__(self) -> int:
        return len(self._items)

    @property
    def held(self) -> bool:
        """Whether the items are held back."""
        return self._gate is not None and self._gate.closed

    def put(self, items: Iterable[T]) -> None:
        """Append items."""
        self._items.extend(items)
        if self._items:
            self._some.set()

    async def take(self, limit: int) -> list[T]:
        """Wait for items; remove and return at most `limit` of them, in order."""
        while not self._items or self.held:
            if self._gate is not None:
                await self._gate.opened()
            if not self._items:
                self._some.clear()
                await self._some.wait()
        items = self._items
        return [items.popleft() for _ in range(min(limit, len(items)))]


class Outbox:
    """One queue for each kind of instruction. Those that a lockdown halts are held back."""

    def __init__(self, lockdown: Lockdown | None = None) -> None:
        def gate(*components: Component) -> Gate | None:
            return None if lockdown is None else lockdown.gate(Component.GOAL_STATE_ENGINE, *components)

        driving, killing, launching = gate(), gate(Component.KILL), gate(Component.LAUNCH)
        self.enqueue: Queue[Enqueue] = Queue(driving)
        self.enqueue_again: Queue[Enqueue] = Queue(driving)
        self.compare: Queue[Compare] = Queue()
        self.withdraw: Queue[Withdraw] = Queue(killing)
        self.launch: Queue[Launch] = Queue(launching)
        self.release: Queue[Release] = Queue()
        self.kill: Queue[Run] = Queue(killing)
        self.kill_and_hold: Queue[tuple[Run, str]] = Queue(killing)
        self.shut_down: Queue[tuple[Run, str]] = Queue(killing)
        self.settle: Queue[tuple[Run, TaskState]] = Queue()
        self.reconcile: Queue[tuple[Run, str]] = Queue()
        self.retire: Queue[JobId] = Queue()
        self.delete: Queue[JobId] = Queue(driving)
        self.prune: Queue[Prune] = Queue()
        self.destroy: Queue[Volume] = Queue(killing)
        self.follow: Queue[JobId] = Queue()
        self._routes: Mapping[type, Callable[[Any], None]] = {
            Enqueue: lambda it: (self.enqueue_again if it.again else self.enqueue).put([it]),
            Compare: lambda it: self.compare.put([it]),
            Withdraw: lambda it: self.withdraw.put([it]),
            Launch: lambda it: self.launch.put([it]),
            Release: lambda it: self.release.put([it]),
            Kill: self._put_kill,
            ShutDown: lambda it: self.shut_down.put(it.runs),
            Settle: lambda it: self.settle.put(it.runs),
            Reconcile: lambda it: self.reconcile.put(it.runs),
            Retire: lambda it: (self.delete if it.delete else self.retire).put([it.job_id]),
            Prune: lambda it: self.prune.put([it]),
            DestroyVolume: lambda it: self.destroy.put([it.volume]),
            FollowHosts: lambda it: self.follow.put([it.job_id]),
        }

    def _put_kill(self, kill: Kill) -> None:
        held = {run for run, _ in kill.held}
        self.kill.put(run for run in kill.runs if run not in held)
        self.kill_and_hold.put(kill.held)

    def send(self, instructions: Iterable[Instruction]) -> None:
        """Put instructions into their queues."""
        for instruction in instructions:
            self._routes[type(instruction)](instruction)
