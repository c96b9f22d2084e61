"""Explanations of where tasks are, with figures. Reads the scheduler's state and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from peloton.model.ids import Run, mesos_task_id
from peloton.model.resources import KINDS
from peloton.model.shortage import Shortage
from peloton.model.states import TaskState
from resmgr.core.admission.checks import Check, Refusal, refusal
from resmgr.core.admission.cycle import CAPACITY_UNKNOWN
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import NOTHING, Charge, Vector
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.infeasible import Infeasible
from resmgr.core.state.pools import Pool
from resmgr.core.state.queues import GangQueue, ReadyQueue

PLACEMENTS = "placements"
"""Name of the queue of placements that wait for jobmgr."""
SHOWN = 1000
"""Most instances listed in one group."""
_S = TaskState
_CHARGE = attrgetter("charge")
_SIDES = {Check.SLACK_ENTITLEMENT: (True,), Check.NON_SLACK_ENTITLEMENT: (False, True)}
"""The sides to report, slack or not, where such a check refuses."""
_WAITS_FOR = {
    _S.PLACING: "a placement engine looks for a host",
    _S.PLACED: "a host was found; the job manager has not taken the placement yet",
    _S.LAUNCHING: "the job manager launches it",
    _S.RESERVED: "hosts are reserved for it",
    _S.KILLING: "it is being killed",
    _S.PREEMPTING: "it is to be evicted",
}


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a queue."""

    queue: str
    position: int
    """1: the head."""
    length: int
    ahead: Vector
    """Total request of the gangs ahead, in thousandths."""


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
class Share:
    """Amounts of one kind in a pool, in thousandths."""

    pool: str
    kind: str
    slack: bool
    allocation: int
    entitlement: int
    demand: int
    reservation: int
    limit: int


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
    check: Refusal | None = None
    """The check that the gang itself does not pass."""
    head_check: Refusal | None = None
    """The check that the head of its queue does not pass, where it is not the head."""
    tries: Tries | None = None
    until: float = 0.0
    holder: str = ""
    host: str = ""
    reason: str = ""
    shares: Sequence[Share] = ()
    shortage: Shortage | None = None
    """Why its gang would not fit on empty hosts either: it is set aside, in no queue."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks in one state with one cause."""

    first: Explanation
    """The task that is first in its queue."""
    count: int
    instances: list[int]
    """Ascending; SHOWN at most."""
    last_position: int
    """0 where they are in no queue."""


def explain(scheduler: Scheduler, tasks: Sequence[Task]) -> list[Explanation]:
    """Explain each task, in the order given.

    Reads each of their queues once, and once more for each gang: meant for a few tasks.
    """
    places = _positions(scheduler, tasks)
    heads = _Heads(scheduler)
    checks: dict[Gang, Refusal | None] = {}
    return [_explain(scheduler, task, places, heads, checks) for task in tasks]


@dataclass(slots=True)
class _Members:
    """Tasks that wait for the same thing."""

    first: Task
    count: int = 0
    instances: list[int] = field(default_factory=list)
    queue: GangQueue | ReadyQueue | None = None
    """Where their gangs are."""
    head: bool = False
    """Whether they are of the gang that is first there."""

    def has(self, gang: Gang) -> bool:
        """Return whether a gang of the queue is one of theirs."""
        task = gang.tasks[0]
        like = self.first
        return task.job is like.job and task.state is like.state and task.pool is like.pool


class Grouping:
    """Group a job's tasks, some at a time, so that a large job does not block other work.

    Only one task of each group is explained. A task that moves on meanwhile may be counted where it was.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._found: dict[tuple[object, ...], _Members] = {}

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks in the order of their instances, over all calls."""
        heads: dict[GangQueue, Gang | None] = {}
        members: _Members
        state: TaskState | None = None
        pool: Pool | None = None
        last: object = None
        head: Gang | None = None
        for task in tasks:
            gang = task.gang
            queue = None if gang is None else gang.queue
            # Of a hundred thousand tasks most wait for what the one before them waits for.
            alike = (
                queue is last is not None and gang is not head and task.state is state and task.pool is pool
            )
            if not alike:
                members = self._members(task, heads)
                state, pool = task.state, task.pool
                head = heads.get(queue) if isinstance(queue, GangQueue) else None
                last = queue if isinstance(queue, GangQueue | ReadyQueue) and gang is not head else None
            members.count += 1
            if members.count <= SHOWN:
                members.instances.append(task.instance)

    def _members(self, task: Task, heads: dict[GangQueue, Gang | None]) -> _Members:
        """Return the group of a task, a new one where it is the first."""
        key = _key(task, heads)
        members = self._found.get(key)
        if members is None:
            members = self._found[key] = _Members(task)
            queue = None if task.gang is None else task.gang.queue
            if isinstance(queue, GangQueue | ReadyQueue):
                members.queue = queue
                members.head = isinstance(queue, GangQueue) and heads[queue] is task.gang
        return members

    def finish(self) -> list[Group]:
        """Return the groups, the largest first."""
        found, last = [], []
        for members in self._found.values():
            task, end = _ends(members)
            found.append(task)
            last.append(end)
        explained = explain(self._scheduler, found)
        made = [
            Group(first, members.count, members.instances, end)
            for first, members, end in zip(explained, self._found.values(), last, strict=True)
        ]
        return sorted(made, key=lambda group: -group.count)


def _key(task: Task, heads: dict[GangQueue, Gang | None]) -> tuple[object, ...]:
    """Return a key that tasks with the same state and cause share."""
    gang = task.gang
    if gang is None:
        return task.state, task.pool
    queue = gang.queue
    if queue is None:
        return task.state, task.pool, gang.failure if task.state is _S.READY else ""
    if isinstance(queue, Infeasible):
        return task.state, task.pool, queue, queue.shortage(gang.shape)
    if not isinstance(queue, GangQueue):
        return task.state, task.pool, queue
    if queue not in heads:
        heads[queue] = queue.head()
    return task.state, task.pool, queue, heads[queue] is gang


def _ends(members: _Members) -> tuple[Task, int]:
    """Return the queued task that is first, and the position of the last one.

    The queue is read from both of its ends: the tasks between may be a hundred thousand.
    """
    first = members.first
    if members.queue is None:
        return first, 0
    order = members.queue.gangs()
    if members.head:
        return first, 1 if order and first.gang is order[0] else 0
    behind = 1 if isinstance(members.queue, GangQueue) else 0  # the head is a group of its own
    found = (place for place in range(behind, len(order)) if members.has(order[place]))
    place = next(found, None)
    if place is None:
        return first, 0
    last = next(at for at in range(len(order) - 1, -1, -1) if members.has(order[at]))
    tasks = (task for task in order[place].tasks if task.job is first.job)
    return min(tasks, key=lambda task: task.instance), last + 1


class _Heads:
    """The heads of queues with the check that each does not pass, found once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._preemption = scheduler.policy.preemption
        self._known: dict[GangQueue, tuple[Gang | None, Refusal | None]] = {}

    def of(self, queue: GangQueue) -> tuple[Gang | None, Refusal | None]:
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
    checks: dict[Gang, Refusal | None],
) -> Explanation:
    gang = task.gang
    check = head_check = head = None
    if gang is not None and isinstance(gang.queue, GangQueue) and scheduler.tree.capacity is not None:
        if gang not in checks:
            checks[gang] = refusal(gang.charge, gang.pool, scheduler.policy.preemption)
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
        shares=_shares(task, head_check or check),
        shortage=_shortage(scheduler, gang),
    )


def _shortage(scheduler: Scheduler, gang: Gang | None) -> Shortage | None:
    if gang is None or gang.queue is not scheduler.infeasible:
        return None
    return scheduler.infeasible.shortage(gang.shape)


def _cause(
    scheduler: Scheduler, task: Task, check: Refusal | None, head: Gang | None, head_check: Refusal | None
) -> str:
    gang = task.gang
    if task.state is _S.PENDING and gang is not None and gang.queue is not None:
        shortage = _shortage(scheduler, gang)
        if shortage is not None:
            return f"no host could take it, even when empty: {shortage.explained}"
        if scheduler.tree.capacity is None:
            return CAPACITY_UNKNOWN
        if head is not None and head is not gang:
            first = mesos_task_id(*head.tasks[0].key)
            held = f", which waits: {head_check}" if head_check else ""
            return f"behind {first}, the head of queue {gang.queue.name} of {task.pool.path}{held}"
        ready = scheduler.ready[gang.type]
        if check is None and len(ready) >= scheduler.policy.ready_limit:
            return f"the {ready.name} is full with {len(ready)} gangs"
        return str(check) if check else "it is admitted in the next cycle"
    if task.state is _S.READY and gang is not None:
        if gang.queue is None:
            return f"placing is tried again: {gang.failure}"
        return f"no placement engine for {gang.type.name} tasks has taken it yet"
    if task.state is _S.RESERVED and task.reason:
        return task.reason
    return _WAITS_FOR.get(task.state, "it is on a host")


def _tries(scheduler: Scheduler, gang: Gang) -> Tries | None:
    if not gang.failure:
        return None
    return Tries(gang.tries, scheduler.policy.tries, gang.cycles, gang.failure, gang.hosts)


# Queues.


def _positions(scheduler: Scheduler, tasks: Iterable[Task]) -> dict[object, Position]:
    """Return the positions of the tasks' gangs and placements."""
    wanted: dict[GangQueue | ReadyQueue, set[Gang]] = {}
    placed = set()
    for task in tasks:
        if task.placement is not None:
            placed.add(task.placement)
        elif task.gang is not None and isinstance(task.gang.queue, GangQueue | ReadyQueue):
            wanted.setdefault(task.gang.queue, set()).add(task.gang)
    found: dict[object, Position] = {}
    for queue, gangs in wanted.items():
        found.update(_in_queue(queue, gangs))
    if placed:
        length = len(scheduler.placements)
        for position, placement in enumerate(scheduler.placements, 1):
            if placement in placed:
                found[placement] = Position(PLACEMENTS, position, length, NOTHING)
    return found


def _in_queue(queue: GangQueue | ReadyQueue, gangs: set[Gang]) -> Iterator[tuple[Gang, Position]]:
    """Iterate over gangs with their positions.

    A queue may hold a million gangs, so the gangs ahead are counted by charge, which similar gangs share.
    """
    order = queue.gangs()
    for gang in gangs:
        position = order.index(gang)
        charges = list(map(_CHARGE, islice(order, position)))
        alike = dict(zip(map(id, charges), charges, strict=True))
        ahead = _total((alike[one], count) for one, count in Counter(map(id, charges)).items())
        yield gang, Position(queue.name, position + 1, len(order), ahead)


def _total(charges: Iterable[tuple[Charge, int]]) -> Vector:
    cpu = memory = disk = gpu = 0
    for charge, count in charges:
        for part in (charge.firm, charge.slack):
            if part is not None:
                cpu, memory = cpu + count * part[0], memory + count * part[1]
                disk, gpu = disk + count * part[2], gpu + count * part[3]
    return cpu, memory, disk, gpu


# Pools.


def _shares(task: Task, check: Refusal | None) -> list[Share]:
    """Return the shares of the leaf and its ancestors.

    They are of the kind of the check, else of all kinds that the gang requests; with the part for revocable
    tasks where that is missing.
    """
    if task.gang is None:
        return []
    charge = task.gang.charge
    if check is not None:
        kinds, sides = [check.kind], _SIDES.get(check.check, (False,))
    else:
        sides = (charge.slack is not None,)
        requested = charge.slack if charge.slack is not None else charge.entitled
        kinds = [kind for kind, amount in zip(KINDS, requested, strict=True) if amount]
    return [_share(pool, kind, slack) for pool in task.pool.ancestors for kind in kinds for slack in sides]


def _share(pool: Pool, kind: str, slack: bool) -> Share:
    i = KINDS.index(kind)
    return Share(
        pool=pool.path,
        kind=kind,
        slack=slack,
        allocation=(pool.slack if slack else pool.used)[i],
        entitlement=(pool.slack_entitlement if slack else pool.entitlement)[i],
        demand=sum(_demand(each, i, slack) for each in pool.subtree()),
        reservation=pool.reservation[i],
        limit=pool.limit[i],
    )


def _demand(leaf: Pool, i: int, slack: bool) -> int:
    """Return the demand: revocable tasks request slack cpu, and the pool's memory, disk and gpu."""
    if slack:
        return leaf.slack_demand[i]
    return leaf.demand[i] + (leaf.slack_demand[i] if KINDS[i] != "cpu" else 0)
