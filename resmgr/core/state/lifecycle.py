"""The steps of tasks and gangs between queues, engines, jobmgr and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.shortage import Shortage
from peloton.model.states import TaskState, TaskType
from resmgr.core.state.deadlines import Deadlines
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.infeasible import Infeasible
from resmgr.core.state.leases import Leases
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import Shape
from resmgr.core.state.owners import Owners
from resmgr.core.state.pending_reasons import Reasons
from resmgr.core.state.placement_queue import PlacementQueue
from resmgr.core.state.placements import NO_HOSTS
from resmgr.core.state.queue_order import QueueOrder
from resmgr.core.state.queues import GangQueue, PendingQueues, ReadyQueue
from resmgr.core.state.registry import Registry
from resmgr.core.state.strangers import Strangers
from resmgr.core.state.task_states import STATES, Event

# Of an enumeration, names of the module are found ten times faster than its attributes.
_PENDING, _RESERVED = TaskState.PENDING, TaskState.RESERVED
_END = Event.END
_TABLE = STATES.table


class Lifecycle:
    """Own the parts that a task passes through, and keep them consistent.

    A task is in one queue at most, and the sums of its pool agree with its state.
    """

    def __init__(self, limits: Limits, stream_id: str, order: QueueOrder | None = None) -> None:
        self.limits = limits
        self.registry = Registry()
        self.deadlines = Deadlines()
        self.leases = Leases()
        self.reasons = Reasons(stream_id)
        self.pending = PendingQueues(order)
        self.ready = {kind: ReadyQueue(f"ready queue of {kind.name} tasks") for kind in TaskType}
        self.placements = PlacementQueue()
        self.owners = Owners()
        self.infeasible = Infeasible()
        self.strangers = Strangers()
        self.changed = False
        """Whether admission may find something new to do."""

    def queue(self, gang: Gang) -> None:
        """Add a gang at the tail of its pool's queue, as demand."""
        self.pending.add(gang)
        self.changed = True

    def queue_all(self, gangs: Sequence[Gang]) -> None:
        """Add gangs of one pool and priority as `queue` adds each."""
        self.pending.add_all(gangs)
        self.changed = True

    def fail(self, gang: Gang, reason: str, now: float, hosts: Mapping[str, int] = NO_HOSTS) -> None:
        """Note a failed try: retry after a pause, or return the gang to its pool's queue.

        `hosts` counts the examined hosts by finding.
        """
        before = gang.attempts
        gang.attempts = failed = before._replace(
            tries=before.tries + 1, failed_at=before.failed_at or now, failure=reason, hosts=hosts
        )
        self.reasons.set_gang(gang, reason)
        if failed.tries >= self.limits.tries:
            gang.attempts = failed._replace(returns=failed.returns + 1)
            self.send_back(gang, now)
            return
        self.recall(gang, Event.RETRY, now)
        self.deadlines.set(gang, now + self.limits.retry_pause(failed.tries))

    def reserve(self, gang: Gang, reason: str, start: float | None, now: float) -> None:
        """Let a gang wait for hosts that are reserved for it; `start`: seconds until it is expected to start.

        Its time ends as long after the start that was expected first as it would without one.
        """
        if gang.tasks[0].state is not _RESERVED:
            for task in gang.tasks:
                self.step(task, Event.RESERVE, now)
            gang.attempts = gang.attempts._replace(starts_at=0.0)
            self.deadlines.set(gang, now + self.limits.reserved)
        if start is not None and not gang.attempts.starts_at:
            gang.attempts = gang.attempts._replace(starts_at=now + start)
            self.deadlines.set(gang, max(gang.deadline, now + start + self.limits.reserved))
        self.reasons.set_gang(gang, reason)

    def send_back(self, gang: Gang, now: float) -> None:
        """Return a gang to its pool's queue and free its allocation.

        It lets a bounded number of others pass, for a bounded time.
        """
        self.recall(gang, Event.RETURN, now)
        gang.pool.free(gang.charge)
        others, seconds = self.limits.passed_by(gang.attempts.returns)
        self.pending.put_back(gang, others)
        self.deadlines.set(gang, now + seconds)
        self.changed = True

    def hasten(self, gang: Gang) -> None:
        """Let no others pass a gang that came back to its pool's queue."""
        if isinstance(gang.queue, GangQueue):
            gang.queue.hasten(gang)
            self.changed = True

    def set_aside(self, gang: Gang, shortage: Shortage, now: float) -> None:
        """Set a gang aside that would not fit on empty hosts either, until the hosts change.

        It blocks no other gang there, and has neither allocation nor demand.
        """
        if gang.tasks[0].state is _PENDING:
            self.deadlines.cancel(gang)
            if gang.queue is not None:
                gang.queue.remove(gang)
            gang.pool.remove_demand(gang.charge)
        else:
            self.recall(gang, Event.RETURN, now)
            gang.pool.free(gang.charge)
        self.infeasible.add(gang, shortage)
        self.reasons.set_gang(gang, shortage.explained)
        self.changed = True

    def bring_back(self, shape: Shape) -> None:
        """Return gangs of that shape, which may fit now, to the heads of their pools' queues in order."""
        for gang in reversed(self.infeasible.gangs(shape)):
            self._bring_back(gang)

    def _bring_back(self, gang: Gang) -> None:
        self.infeasible.remove(gang)
        self.reasons.set_gang(gang, "")
        self.pending.add_first(gang)
        self.changed = True

    def keep_aside(self, shape: Shape, shortage: Shortage) -> None:
        """Note why gangs of that shape do not fit on the changed hosts."""
        known = self.infeasible.shortage(shape)
        self.infeasible.update(shape, shortage)
        if known is None or known == shortage:
            return
        for gang in self.infeasible.gangs(shape):
            self.reasons.set_gang(gang, shortage.explained)

    def retry(self, gang: Gang, now: float) -> None:
        """Return a gang to the tail of the ready queue; it keeps its allocation."""
        self.recall(gang, Event.RETRY, now)
        self.ready[gang.type].add(gang)

    def recall(self, gang: Gang, event: Event, now: float) -> None:
        """Take all members back from queue, engine, placement, lease and host."""
        self.deadlines.cancel(gang)
        if gang.queue is not None:
            gang.queue.remove(gang)
        for task in gang.tasks:
            self.step(task, event, now)
            self.unplace(task)
            self.registry.leave_host(task)

    def step(self, task: Task, event: Event, now: float) -> None:
        """Move a task by the table of states. Raises IllegalTransition."""
        before = task.state
        after = _TABLE.get((before, event))
        if after is None:
            after = STATES.next(before, event, repr(task))
        task.state, task.since = after, now
        self.registry.moved(task, before)

    def forget(self, task: Task) -> None:
        """Remove a run that is over from everything and free its allocation."""
        queued = task.state is _PENDING
        self.leave_gang(task)
        if not queued:
            task.pool.free(task.needs.charge)
        self.deadlines.cancel(task)
        self.registry.remove(task)
        self.reasons.set(task, "")
        task.state = _TABLE[task.state, _END]
        self.changed = True

    def leave_gang(self, task: Task) -> None:
        """Remove a task from its queue, gang, placement and lease. The rest of the gang keeps its place."""
        self.unplace(task)
        gang = task.gang
        if gang is None:
            return
        aside = isinstance(gang.queue, Infeasible)
        if task.state is _PENDING and not aside:
            gang.pool.remove_demand(task.needs.charge)
        gang.leave(task)
        if not gang.tasks:
            self.deadlines.cancel(gang)
            if gang.queue is not None:
                gang.queue.remove(gang)
        elif aside:
            self._bring_back(gang)

    def unplace(self, task: Task) -> None:
        """Remove a task from its lease and its placement."""
        self.leases.release(task)
        if task.placement is not None:
            self.placements.remove_task(task)
