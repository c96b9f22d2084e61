"""The agent's launches in time: when each may begin, and which have failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from minicluster.mesos.common.launch_costs import LaunchCosts, LaunchQueue
from minicluster.mesos.common.status_updates import Key


class LaunchTimer:
    """Calls ``begin`` for a launch once its costs are paid, and ``fail`` for one that takes too long."""

    def __init__(self, costs: LaunchCosts, begin: Callable[[Key], None], fail: Callable[[Key], None]) -> None:
        self.costs = costs
        self._queue = LaunchQueue(costs)
        self._begin = begin
        self._fail = fail
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Key) -> None:
        """Take a launch; without costs it begins before this returns."""
        self._queue.add(key, time.monotonic())
        self._on_due()

    def drop(self, key: Key) -> None:
        """Forget a launch: it has succeeded, or is not wanted any more."""
        self._queue.drop(key)

    def holds_back(self, key: Key) -> bool:
        """Return whether a launch has yet to begin."""
        return self._queue.holds_back(key)

    def _on_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        begun, failed = self._queue.due(time.monotonic())
        for key in failed:
            self._fail(key)
        for key in begun:
            self._begin(key)
        due = self._queue.next_due()
        if due is not None and self._timer is None:
            delay = max(due - time.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_due)
