"""The event queue with the virtual clock. Nothing waits: time is that of the next event.

Events of equal time are run in the order in which they were set. Each belongs to a life, that of one process:
events of a process that has crashed are dropped, those of a frozen one wait until it goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

NANOSECONDS = 1_000_000_000
EPOCH = 1_750_000_000.0
"""Wall time at the start of a run unless it is set, in seconds since 1970."""


class Life:
    """One process from its start to its end."""

    __slots__ = ("ended", "frozen_until", "name", "wall_offset")

    def __init__(self, name: str) -> None:
        self.name = name
        """The role and the id of the process, `<role>/<id>`."""
        self.ended = False
        self.frozen_until = 0.0
        """Until then the process does nothing, as after SIGSTOP."""
        self.wall_offset = 0.0
        """How far its wall clock is ahead of the true time, in seconds."""

    def __repr__(self) -> str:
        return f"<{self.name}{' ended' if self.ended else ''}>"


class Crash(Exception):
    """The process whose code runs ends now, whatever it was about to do."""

    def __init__(self, life: Life, where: str) -> None:
        self.life = life
        super().__init__(f"{life.name} crashes {where}")


class Timer:
    """An event to come."""

    __slots__ = ("args", "call", "life")

    def __init__(self, life: Life, call: Callable[..., None] | None, args: tuple[Any, ...]) -> None:
        self.life = life
        self.call = call
        self.args = args

    def cancel(self) -> None:
        """Drop the event."""
        self.call = None


class Kernel:
    """The clock and the events to come."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the start of the run: the monotonic clock of all processes."""
        self.epoch = EPOCH
        """Wall time at the start of the run, in seconds since 1970."""
        self.events = 0
        """Events that were run."""
        self.on_crash: Callable[[Life], None] = _ended
        """Called with a process that has crashed by a Crash."""
        self.after_each: Callable[[], None] | None = None
        """Called after each event."""
        self.at_point: Callable[[Life, str], None] | None = None
        """Called at each point where a process may crash. May raise Crash."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._at_once: deque[tuple[int, Timer]] = deque()
        """Events of the present time, which come after those of it in the heap: these were set before."""
        self._order = 0
        self._stopped = False

    def after(self, seconds: float, life: Life, call: Callable[..., None], *args: Any) -> Timer:
        """Call later, unless the process has ended by then."""
        timer = Timer(life, call, args)
        self._order = order = self._order + 1
        now = self.now
        when = now + seconds
        if when > now:
            heappush(self._heap, (when, order, timer))
        else:
            self._at_once.append((order, timer))
        return timer

    def wall(self, life: Life) -> int:
        """Return the time by the wall clock of a process, in nanoseconds since 1970."""
        return round((self.epoch + self.now + life.wall_offset) * NANOSECONDS)

    def point(self, life: Life, where: str) -> None:
        """Mark a point where a process may crash: before or after the effect of an instruction."""
        if self.at_point is not None:
            self.at_point(life, where)

    def stop(self) -> None:
        """Have the run end after the present event."""
        self._stopped = True

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> None:
        """Run events up to a time, or until `stop` holds after one, or was called in it."""
        heap, at_once = self._heap, self._at_once
        self._stopped = False
        time = self.now
        while True:
            if at_once and not (heap and heap[0][0] <= time):
                order, timer = at_once.popleft()
            elif heap and heap[0][0] <= until:
                time, order, timer = heappop(heap)
            else:
                break
            call, life = timer.call, timer.life
            if call is None or life.ended:
                continue
            if life.frozen_until > time:
                heappush(heap, (life.frozen_until, order, timer))
                continue
            self.now = time
            self.events += 1
            try:
                call(*timer.args)
            except Crash as crash:
                crash.life.ended = True
                self.on_crash(crash.life)
            if self.after_each is not None:
                self.after_each()
            if self._stopped or (stop is not None and stop()):
                return
        if stop is None:
            self.now = max(self.now, until)


def _ended(life: Life) -> None:
    """Do nothing: the process has ended."""
