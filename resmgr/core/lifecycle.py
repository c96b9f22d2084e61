"""How tasks and gangs move between queues, engines, jobmgr and hosts: the steps of `scheduler`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from peloton.model.shortage import Shortage
from peloton.model.states import TaskState, TaskType
from resmgr.core.deadlines import Deadlines
from resmgr.core.infeasible import Infeasible
from resmgr.core.leases import Leases
from resmgr.core.pending_reasons import Reasons
from resmgr.core.placements import Handover, Placement
from resmgr.core.policy import Policy
from resmgr.core.pools import Pool
from resmgr.core.queues import ReadyQueue
from resmgr.core.registry import Registry
from resmgr.core.tasks import NO_HOSTS, STATES, Event, Gang, Shape, Task

_S = TaskState


class Lifecycle:
    """What is held, and the steps that keep it whole: a task is in one queue at most, and its pool's sums are
    what its state says."""

    def __init__(self, policy: Policy, stream_id: str) -> None:
        self.policy = policy
        self.registry = Registry()
        self.deadlines = Deadlines()
        self.leases = Leases()
        self.reasons = Reasons(stream_id)
        self.ready = {kind: ReadyQueue(f"ready queue of {kind.name} tasks") for kind in TaskType}
        self.placed: OrderedDict[Placement, None] = OrderedDict()
        self.waiting: OrderedDict[Pool, None] = OrderedDict()
        """Leaves with gangs in their queues, the one tried longest ago first."""
        self.infeasible = Infeasible()
        self.forsaken: list[Handover] = []
        """Placements that nobody will launch, whose hosts are still claimed: their tasks went elsewhere, or
        whoever had them is gone."""
        self.changed = False
        """Whether admission may find something new to do."""

    def queue(self, gang: Gang) -> None:
        """At the tail of its pool's queue, as demand."""
        pool = gang.pool
        pool.pending.add(gang)
        pool.want(gang.charge)
        pool.unexplained.append(gang)
        self.waiting[pool] = None
        self.changed = True

    def give_reason(self, gang: Gang, reason: str) -> None:
        """Why its tasks wait."""
        for task in gang.tasks:
            self.reasons.set(task, reason)

    def fail(self, gang: Gang, reason: str, now: float, hosts: Mapping[str, int] = NO_HOSTS) -> None:
        """A try to place it failed: it is tried again after a pause, or goes back to its pool's queue.
        `hosts` are those that were looked at, by what was found about them."""
        gang.tries += 1
        gang.failure, gang.hosts = reason, hosts
        self.give_reason(gang, reason)
        if gang.tries >= self.policy.tries:
            gang.cycles += 1
            self.send_back(gang, now)
            return
        pause = min(self.policy.retry_first * 2.0 ** (gang.tries - 1), self.policy.retry_longest)
        self.recall(gang, Event.RETRY, now)
        self.deadlines.set(gang, now + pause)

    def send_back(self, gang: Gang, now: float) -> None:
        """To the tail of its pool's queue; its allocation is free."""
        self.recall(gang, Event.RETURN, now)
        gang.pool.free(gang.charge)
        self.queue(gang)

    def set_aside(self, gang: Gang, shortage: Shortage, now: float) -> None:
        """It could not be placed on empty hosts either. It waits where it blocks nobody, its allocation and
        its demand free, until the hosts change."""
        if gang.tasks[0].state is _S.PENDING:
            if gang.queue is not None:
                gang.queue.remove(gang)
            gang.pool.unwant(gang.charge)
        else:
            self.recall(gang, Event.RETURN, now)
            gang.pool.free(gang.charge)
        self.infeasible.add(gang, shortage)
        self.give_reason(gang, str(shortage))
        self.changed = True

    def bring_back(self, shape: Shape) -> None:
        """Gangs that were set aside may fit now: to the head of their pools' queues, where they came from, in
        the order in which they were set aside."""
        for gang in reversed(self.infeasible.gangs(shape)):
            self._bring_back(gang)

    def _bring_back(self, gang: Gang) -> None:
        self.infeasible.remove(gang)
        self.give_reason(gang, "")
        pool = gang.pool
        pool.pending.add_first(gang)
        pool.want(gang.charge)
        pool.unexplained.append(gang)
        self.waiting[pool] = None
        self.changed = True

    def keep_aside(self, shape: Shape, shortage: Shortage) -> None:
        """The hosts have changed, but gangs of that shape do not fit still."""
        if self.infeasible.shortage(shape) == shortage:
            return
        self.infeasible.update(shape, shortage)
        for gang in self.infeasible.gangs(shape):
            self.give_reason(gang, str(shortage))

    def retry(self, gang: Gang, now: float) -> None:
        """To the tail of the ready queue; its allocation is kept."""
        self.recall(gang, Event.RETRY, now)
        self.ready[gang.type].add(gang)

    def recall(self, gang: Gang, event: Event, now: float) -> None:
        """Take every member back from wherever it is."""
        self.deadlines.cancel(gang)
        if gang.queue is not None:
            gang.queue.remove(gang)
        for task in gang.tasks:
            self.step(task, event, now)
            self.unplace(task)
            self.registry.leave_host(task)

    def step(self, task: Task, event: Event, now: float) -> None:
        """Raises IllegalTransition."""
        following = STATES.table.get((task.state, event))
        task.state = STATES.next(task.state, event, repr(task)) if following is None else following
        task.since = now

    def forget(self, task: Task) -> None:
        """A run that is over: out of everything, its allocation free."""
        queued = task.state is _S.PENDING
        self.leave_gang(task)
        if not queued:
            task.pool.free(task.needs.charge)
        self.deadlines.cancel(task)
        self.registry.remove(task)
        self.reasons.set(task, "")
        task.state = STATES.table[task.state, Event.END]
        self.changed = True

    def leave_gang(self, task: Task) -> None:
        """Out of its queue, its gang, its placement, its lease. What remains of the gang keeps its place."""
        self.unplace(task)
        gang = task.gang
        if gang is None:
            return
        aside = isinstance(gang.queue, Infeasible)
        if task.state is _S.PENDING and not aside:
            gang.pool.unwant(task.needs.charge)
        gang.leave(task)
        if not gang.tasks:
            self.deadlines.cancel(gang)
            if gang.queue is not None:
                gang.queue.remove(gang)
        elif aside:
            self._bring_back(gang)

    def unplace(self, task: Task) -> None:
        """Out of its lease and of its placement; a placement without tasks is forsaken."""
        self.leases.release(task)
        placement = task.placement
        if placement is not None:
            task.placement = None
            del placement.tasks[task]
            if not placement.tasks:
                del self.placed[placement]
                self.forsaken.append(placement.handed())
