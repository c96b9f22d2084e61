"""What the core keeps of a job beside what is stored: pending operations, queues and cursors.

All of it can be rebuilt from the store.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop, heappush

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import Placement
from peloton.model.task import TaskRuntime, TaskStatus


class PendingOp(StrEnum):
    """An operation of an instance that has no result yet; no other begins meanwhile."""

    ENQUEUE = "enqueue"
    ENQUEUE_AGAIN = "enqueue again"
    """Enqueue a PENDING run that resmgr does not hold."""
    WITHDRAW = "withdraw"
    LAUNCH = "launch"
    BACKOFF = "backoff"
    """Wait for the deadline before the next try."""


ENQUEUING = (PendingOp.ENQUEUE, PendingOp.ENQUEUE_AGAIN)


class InFlight:
    """The unfinished operations of one job."""

    __slots__ = (
        "_ready",
        "_ready_set",
        "attempts",
        "compare",
        "comparing",
        "doubted",
        "enqueuing",
        "gang_due",
        "gang_ends",
        "gathered",
        "grows_from",
        "job",
        "lost",
        "missing",
        "next_to_create",
        "parked",
        "pending",
        "recovered",
        "spares",
        "survivors",
        "sweep",
        "taken_back",
        "unconfirmed",
    )

    def __init__(self, job: CachedJob, recovered: bool = False) -> None:
        self.job = job
        self.recovered = recovered
        """Whether an earlier leader led the job: resmgr may know runs that the store does not have."""
        self.pending: dict[int, PendingOp] = {}
        """By instance."""
        self.enqueuing = 0
        """Number of instances with the operation ENQUEUE."""
        self.attempts: dict[int, int] = {}
        """Failed tries of the current step, by instance."""
        self.unconfirmed: set[int] = set()
        """Instances on a host without a status since this leader began, or since their launch."""
        self.missing: set[int] = set()
        """PENDING instances that resmgr does not hold."""
        self.lost: dict[int, TaskRuntime] = {}
        """Lost runs, as they were before, whose replacements are not launched: they may live."""
        self.survivors: dict[int, TaskStatus | None] = {}
        """Instances whose replacement is taken back because a run in `lost` lives: its last status. None: it
        has ended meanwhile."""
        self.taken_back: dict[int, int] = {}
        """Numbers of runs that were taken back, by instance, where an earlier run is the current one again.
        They are not used again: what was said of them may come once more, and late."""
        self.compare: int | None = None
        """Next instance to compare with what resmgr holds; None: no comparison is under way."""
        self.comparing = 0
        """Number of comparisons that resmgr has not answered."""
        self.doubted: set[int] = set()
        """Instances that were being enqueued when another resmgr began to lead: the answer may be of the
        former one."""
        self.gang_due = recovered and job.spec.bound_members > 0
        """Whether the bound gang is to be examined: the run of a member ends, or may have ended."""
        self.gang_ends = False
        """Whether the bound gang is known to end by a member."""
        self.gathered: list[Placement] = []
        """Placements of an elastic gang that waits a moment for more of its members before it starts."""
        self.grows_from = 0
        """How many members an elastic gang had when it ended a round to grow; 0: it does not grow."""
        self.spares: set[int] = set()
        """Extras of an elastic gang that wait until it gathers or runs."""
        self.next_to_create = 0
        """All instances below have a row, unless it is for a workflow to add them."""
        self.sweep: int | None = None
        """Next instance to evaluate; None: no sweep is under way."""
        self.parked: dict[int, set[int]] = {}
        """Instances that wait for another one, whose address they need, to have a host; by that one."""
        self._ready: list[int] = []
        self._ready_set: set[int] = set()

    def next_number(self, instance: int, run: int) -> int:
        """Return the number of the run that follows `run`."""
        return max(run, self.taken_back.pop(instance, 0)) + 1

    def begin(self, instance: int, op: PendingOp) -> None:
        """Begin an operation, in place of the pending one."""
        self.finish(instance)
        self.pending[instance] = op
        if op is PendingOp.ENQUEUE:
            self.enqueuing += 1

    def finish(self, instance: int, *ops: PendingOp) -> None:
        """End the pending operation; where `ops` are given, only if it is one of them."""
        op = self.pending.get(instance)
        if op is None or (ops and op not in ops):
            return
        del self.pending[instance]
        if op is PendingOp.ENQUEUE:
            assert self.enqueuing > 0, f"{self.job.job_id}-{instance} was enqueued, and none is counted"
            self.enqueuing -= 1

    def count_failure(self, instance: int) -> int:
        """Count a failed try of the current step; return the number of them."""
        self.attempts[instance] = count = self.attempts.get(instance, 0) + 1
        return count

    def mark_ready(self, instance: int) -> None:
        """Queue an instance to be enqueued; lower ones go first."""
        if instance not in self._ready_set:
            self._ready_set.add(instance)
            heappush(self._ready, instance)

    def first_ready(self) -> int | None:
        """Return the first instance that is ready to be enqueued."""
        return self._ready[0] if self._ready else None

    def take_ready(self) -> int:
        """Remove and return the first instance that is ready to be enqueued."""
        instance = heappop(self._ready)
        self._ready_set.discard(instance)
        return instance

    @property
    def unfinished(self) -> bool:
        """Whether tasks are still to be evaluated, or to be compared with what resmgr holds."""
        return self.sweep is not None or self.compare is not None
