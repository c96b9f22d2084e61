"""Explanations of where tasks are, with figures. Reads the scheduler's state and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peloton.model.ids import Run, mesos_task_id
from peloton.model.plural import plural
from peloton.model.shortage import Shortage
from peloton.model.states import TaskState
from resmgr.core.admission.checks import FailedCheck, refusal
from resmgr.core.explain.outlook import Excess, outlook
from resmgr.core.explain.pool_shares import Share, shares
from resmgr.core.explain.queue_positions import Position, positions
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.pending_reasons import Common
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import GangQueue

_S = TaskState
_WAITS_FOR = {
    _S.PLACING: "a placement engine looks for a host",
    _S.PLACED: "a host was found; the job manager has not taken the placement yet",
    _S.LAUNCHING: "the job manager launches it",
    _S.RESERVED: "hosts are reserved for it",
    _S.KILLING: "it is being killed",
    _S.PREEMPTING: "it is to be evicted",
}


@dataclass(frozen=True, slots=True)
class Tries:
    """Failed placements of a gang."""

    failed: int
    most: int
    returns: int
    reason: str
    hosts: Mapping[str, int]
    """Examined hosts by finding."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a task is, and why."""

    run: Run
    state: TaskState
    since: float
    """On the monotonic clock, like `until`."""
    cause: str
    """The same for tasks that wait for the same thing."""
    pool: Pool
    gang_size: int = 0
    position: Position | None = None
    check: FailedCheck | None = None
    """The check that the gang itself does not pass."""
    head_check: FailedCheck | None = None
    """The check that the head of its queue does not pass, where it is not the head."""
    tries: Tries | None = None
    until: float = 0.0
    holder: str = ""
    host: str = ""
    reason: str = ""
    shares: Sequence[Share] = ()
    excesses: Sequence[Excess] = ()
    """Pools that hold more than their entitlement of what it waits for."""
    shortage: Shortage | None = None
    """Why its gang would not fit on empty hosts either: it is set aside, in no queue."""


def explain(scheduler: Scheduler, tasks: Sequence[Task]) -> list[Explanation]:
    """Explain each task, in the order given.

    Reads each of their queues once, and once more for each gang: meant for a few tasks.
    """
    places = positions(scheduler, tasks)
    heads = _Heads(scheduler)
    checks: dict[Gang, FailedCheck | None] = {}
    return [_explain(scheduler, task, places, heads, checks) for task in tasks]


class _Heads:
    """The heads of queues with the check that each does not pass, found once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._preemption = scheduler.limits.preemption
        self._known: dict[GangQueue, tuple[Gang | None, FailedCheck | None]] = {}

    def of(self, queue: GangQueue) -> tuple[Gang | None, FailedCheck | None]:
        found = self._known.get(queue)
        if found is None:
            head = queue.head()
            found = self._known[queue] = (
                head,
                refusal(head.charge, head.pool, self._preemption) if head else None,
            )
        return found


def _explain(
    scheduler: Scheduler,
    task: Task,
    places: Mapping[object, Position],
    heads: _Heads,
    checks: dict[Gang, FailedCheck | None],
) -> Explanation:
    gang = task.gang
    check = head_check = head = None
    if gang is not None and isinstance(gang.queue, GangQueue) and scheduler.tree.capacity is not None:
        if gang not in checks:
            checks[gang] = refusal(gang.charge, gang.pool, scheduler.limits.preemption)
        check = checks[gang]
        head, blocked = heads.of(gang.queue)
        head_check = blocked if head is not gang else None
    return Explanation(
        run=task.key,
        state=task.state,
        since=task.since,
        cause=_cause(scheduler, task, check, head, head_check),
        pool=task.pool,
        gang_size=len(gang.tasks) if gang else 0,
        position=places.get(gang) if task.placement is None else places.get(task.placement),
        check=check,
        head_check=head_check,
        tries=_tries(scheduler, gang) if gang else None,
        until=(gang.deadline if gang else 0.0) or task.deadline,
        holder=task.holder.name if task.holder else "",
        host=task.host,
        reason=task.reason,
        shares=shares(task, head_check or check),
        excesses=() if _shortage(scheduler, gang) else outlook(scheduler, task, head_check or check),
        shortage=_shortage(scheduler, gang),
    )


def _shortage(scheduler: Scheduler, gang: Gang | None) -> Shortage | None:
    if gang is None or gang.queue is not scheduler.infeasible:
        return None
    return scheduler.infeasible.shortage(gang.shape)


def _cause(
    scheduler: Scheduler,
    task: Task,
    check: FailedCheck | None,
    head: Gang | None,
    head_check: FailedCheck | None,
) -> str:
    gang = task.gang
    if task.state is _S.PENDING and gang is not None and gang.queue is not None:
        shortage = _shortage(scheduler, gang)
        if shortage is not None:
            return f"no host could take it, even when empty: {shortage.explained}"
        if scheduler.tree.capacity is None:
            return Common.CAPACITY_UNKNOWN
        if head is not None and head is not gang:
            first = mesos_task_id(*head.tasks[0].key)
            held = f", which waits: {head_check}" if head_check else ""
            return f"behind {first}, the head of queue {gang.queue.name} of {task.pool.path}{held}"
        ready = scheduler.ready[gang.type]
        if check is None and len(ready) >= scheduler.limits.ready_limit:
            return f"the {ready.name} is full with {plural(len(ready), 'gang')}"
        return str(check) if check else "it is admitted in the next cycle"
    if task.state is _S.READY and gang is not None:
        if gang.queue is None:
            return f"placing is tried again: {gang.attempts.failure}"
        return f"no placement engine for {gang.type.name} tasks has taken it yet"
    if task.state is _S.RESERVED and task.reason:
        return task.reason
    return _WAITS_FOR.get(task.state, "it is on a host")


def _tries(scheduler: Scheduler, gang: Gang) -> Tries | None:
    made = gang.attempts
    if not made.failure:
        return None
    return Tries(made.tries, scheduler.limits.tries, made.returns, made.failure, made.hosts)
