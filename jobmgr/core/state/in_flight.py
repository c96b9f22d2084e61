"""What the core keeps of a job beside what is stored: which instances wait for their turn, and which are
busy with something. All of it can be rebuilt."""

from __future__ import annotations

from enum import Enum
from heapq import heappop, heappush

from jobmgr.core.state.cache import CachedJob


class Busy(Enum):
    """What has been started for an instance and not answered: nothing else is started meanwhile."""

    ENQUEUE = "enqueue"
    ENQUEUE_AGAIN = "enqueue again"
    """PENDING, and resmgr does not hold it."""
    WITHDRAW = "withdraw"
    LAUNCH = "launch"
    PAUSE = "pause"
    """Nothing was started: it waits for its deadline before the next try."""


ENQUEUING = (Busy.ENQUEUE, Busy.ENQUEUE_AGAIN)


class Work:
    """One job's unfinished business."""

    __slots__ = (
        "_offered",
        "_ready",
        "attempts",
        "busy",
        "compare",
        "comparing",
        "enqueuing",
        "escaped",
        "job",
        "recovered",
        "sweep",
        "unborn",
        "unconfirmed",
    )

    def __init__(self, job: CachedJob, recovered: bool = False) -> None:
        self.job = job
        self.recovered = recovered
        """Whether resmgr may know runs of which the store says nothing: those of an earlier leader."""
        self.busy: dict[int, Busy] = {}
        self.enqueuing = 0
        """How many are busy with ENQUEUE."""
        self.attempts: dict[int, int] = {}
        """Tries without success of what an instance is at."""
        self.unconfirmed: set[int] = set()
        """On a host as far as is known, but not heard of since this leader began, or since its launch."""
        self.escaped: set[int] = set()
        """PENDING instances that resmgr does not hold."""
        self.compare: int | None = None
        """The next instance of which it is asked whether resmgr holds its run; None: none are."""
        self.comparing = 0
        """Questions of that kind that are not answered yet."""
        self.unborn = 0
        """Below this every instance has a row."""
        self.sweep: int | None = None
        """The next instance whose goal is looked at anew; None: no sweep is under way."""
        self._ready: list[int] = []
        self._offered: set[int] = set()

    def occupy(self, instance: int, with_what: Busy) -> None:
        self.free(instance)
        self.busy[instance] = with_what
        if with_what is Busy.ENQUEUE:
            self.enqueuing += 1

    def free(self, instance: int, *of: Busy) -> None:
        """No longer busy (with one of `of`, if any is given)."""
        held = self.busy.get(instance)
        if held is None or (of and held not in of):
            return
        del self.busy[instance]
        if held is Busy.ENQUEUE:
            self.enqueuing -= 1

    def failed(self, instance: int) -> int:
        """One more try without success; how many there were."""
        self.attempts[instance] = count = self.attempts.get(instance, 0) + 1
        return count

    def offer(self, instance: int) -> None:
        """Let the instance wait to be enqueued; lower instances go first."""
        if instance not in self._offered:
            self._offered.add(instance)
            heappush(self._ready, instance)

    def first_ready(self) -> int | None:
        return self._ready[0] if self._ready else None

    def take_ready(self) -> int:
        instance = heappop(self._ready)
        self._offered.discard(instance)
        return instance

    @property
    def unfinished(self) -> bool:
        """Whether tasks are still to be looked at, or to be compared with what resmgr holds."""
        return self.sweep is not None or self.compare is not None
