"""Tasks of a job that wait for the same thing, grouped; one of each group is explained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from peloton.model.states import TaskState
from resmgr.core.explain.queue_reasons import Explanation, explain
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.infeasible import Infeasible
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import GangQueue, ReadyQueue

SHOWN = 1000
"""Most instances listed in one group."""


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
        return task.state, task.pool, gang.attempts.failure if task.state is TaskState.READY else ""
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
