"""What admission would do with gangs that are not enqueued: decided on a copy of the pools.

See docs/behaviour/placement.md, Plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from peloton.model.ids import mesos_task_id
from peloton.model.states import TaskType
from resmgr.core.admission.checks import FailedCheck, beyond_limit, refusal
from resmgr.core.entitlement.sharing import entitle
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import NOTHING, Charge
from resmgr.core.state.entities import Gang
from resmgr.core.state.needs import ABOVE_ALL, Place
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolTree
from resmgr.core.state.queue_order import QueuedGang
from resmgr.core.state.queues import NAMES, GangQueue

MOST_QUEUED = 100_000
"""Gangs of each queue that are tried before the planned ones."""
_NON_PREEMPTIBLE, _CONTROLLER, _REVOCABLE, _PENDING = range(len(NAMES))


@dataclass(frozen=True, slots=True)
class PlannedGangs:
    """Gangs that are alike and not enqueued."""

    charge: Charge
    """Of one gang."""
    priority: int
    type: TaskType
    count: int
    size: int = 1
    """Tasks of one gang."""

    @property
    def rank(self) -> int:
        """Return the order in queues, as of `Gang`."""
        return self.priority + (ABOVE_ALL if self.type is TaskType.DAEMON else 0)

    @property
    def queue(self) -> int:
        """Return the position in NAMES of the queue where a refused one waits."""
        if self.charge.non_preemptible is not None:
            return _NON_PREEMPTIBLE
        if self.charge.controller is not None:
            return _CONTROLLER
        return _REVOCABLE if self.charge.slack is not None else _PENDING


@dataclass(frozen=True, slots=True)
class Admitted:
    """What would become of one group."""

    count: int
    """Gangs that would be admitted."""
    reason: str = ""
    """Why the others would wait, or none may be admitted; empty where all are."""
    limited: bool = False
    """Whether the gang is more than a limit allows: it would be refused."""
    ahead: int = 0
    """Gangs that wait in the same queue ahead of the first one that would wait."""


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """What would become of all groups, and the pools as they would be."""

    groups: tuple[Admitted, ...]
    tree: PoolTree
    """A copy: with the demand of the gangs that would wait and the allocation of those that would not."""


def plan_admission(scheduler: Scheduler, pool: Pool, groups: Sequence[PlannedGangs]) -> AdmissionPlan:
    """Return what would be admitted if the gangs were enqueued now, in their order, in a leaf."""
    tree = scheduler.tree.copy()
    leaf = tree.get(pool.id)
    limited = [beyond_limit(leaf, (group.charge,)) for group in groups]
    for group, refused in zip(groups, limited, strict=True):
        if not refused:
            leaf.add_demand(group.charge.times(group.count))
    _entitle(tree, leaf)
    simulations: dict[Pool, _Simulation] = {}

    def of_class(charge: Charge) -> _Simulation:
        part = pool.part(charge)
        if part not in simulations:
            simulations[part] = _Simulation(scheduler, part, leaf)
        return simulations[part]

    admitted = [
        Admitted(0, refused, limited=True) if refused else of_class(group.charge).admit(group)
        for group, refused in zip(groups, limited, strict=True)
    ]
    return AdmissionPlan(tuple(admitted), tree)


def _entitle(tree: PoolTree, leaf: Pool) -> None:
    """Share the capacity, without the demand of other pools that was found to be unusable.

    They keep what they would be entitled to themselves, as `leave_out_unusable` has it.
    """
    others = (part for each in tree.leaves() if each is not leaf for part in (each, *each.parts.values()))
    unusable = [each for each in others if each.unusable]
    entitle(tree)
    if not unusable:
        return
    own = [(each.entitlement, each.slack_entitlement) for each in unusable]
    entitle(tree, dict.fromkeys(unusable, NOTHING))
    for each, amounts in zip(unusable, own, strict=True):
        each.entitle(*amounts)
        each.unusable = True


class _Simulation:
    """One cycle of admission over the queues of a leaf, with the planned gangs in their places."""

    def __init__(self, scheduler: Scheduler, pool: Pool, leaf: Pool) -> None:
        """`pool`: the leaf, or its part, whose queues these are; `leaf`: the copy of the leaf."""
        self._pending = scheduler.pending
        self._preemption = scheduler.limits.preemption
        self._leaf = leaf
        self._queues = scheduler.pending.of(pool).all
        self._tried: dict[GangQueue, int] = {}
        """The number of gangs of each queue that were tried."""
        self._blocked: dict[GangQueue, tuple[Gang | None, FailedCheck]] = {}
        """The gang, None for a planned one, that blocks a queue."""
        for queue in self._queues[:_PENDING]:
            self._try(queue, None)

    def admit(self, group: PlannedGangs) -> Admitted:
        """Admit as many gangs of a group as may be."""
        first = self._queues[_NON_PREEMPTIBLE if group.rank >= ABOVE_ALL else _PENDING]
        place = self._pending.place_of((-group.rank, 0.0), lambda: _queued(self._leaf.path, group))
        self._try(first, place)
        blocked = self._blocked.get(first)
        if blocked is not None:
            return Admitted(0, self._behind(first, *blocked), ahead=self._ahead(first, place))
        count = self._most(group)
        self._charge(group.charge.times(count))
        if count == group.count:
            return Admitted(count)
        refused = refusal(group.charge, self._leaf, self._preemption)
        assert refused is not None
        waits_in = self._queues[group.queue] if first is self._queues[_PENDING] else first
        if waits_in is first:
            self._blocked[first] = (None, refused)
        return Admitted(count, str(refused), ahead=self._ahead(waits_in, place))

    def _try(self, queue: GangQueue, place: Place | None) -> None:
        """Try the gangs of a queue that come before new ones of that place, as admission does; None: all."""
        if queue in self._blocked:
            return
        done = self._tried.get(queue, 0)
        for gang in islice(queue, done, MOST_QUEUED):
            if place is not None and gang.place > place:
                break
            done += 1
            refused = refusal(gang.charge, self._leaf, self._preemption)
            if refused is None:
                self._charge(gang.charge)
            elif queue is not self._queues[_PENDING] or _stays(gang):
                self._blocked[queue] = gang, refused
                break
        self._tried[queue] = done

    def _most(self, group: PlannedGangs) -> int:
        """Return how many gangs of a group pass all checks together."""
        least, most = 0, group.count
        while least < most:
            middle = (least + most + 1) // 2
            if refusal(group.charge.times(middle), self._leaf, self._preemption) is None:
                least = middle
            else:
                most = middle - 1
        return least

    def _charge(self, charge: Charge) -> None:
        self._leaf.remove_demand(charge)
        self._leaf.charge(charge)

    def _behind(self, queue: GangQueue, gang: Gang | None, refused: FailedCheck) -> str:
        head = "earlier instances" if gang is None else mesos_task_id(*gang.tasks[0].key)
        return f"behind {head} in queue {queue.name} of {self._leaf.path}, which waits: {refused}"

    def _ahead(self, queue: GangQueue, place: Place) -> int:
        """Return how many gangs of a queue come before new ones of that place."""
        return sum(1 for gang in queue if gang.place <= place)


def _queued(path: str, group: PlannedGangs) -> QueuedGang:
    """Return a gang of a group as an order of queues gets it."""
    charge = group.charge
    return QueuedGang(
        path,
        "",
        group.priority,
        group.size,
        *charge.asked_in_all,
        charge.non_preemptible is None,
        charge.controller is not None,
        charge.slack is not None,
        (),
    )


def _stays(gang: Gang) -> bool:
    """Return whether a refused head of the queue `pending` blocks those behind it."""
    return gang.preemptible and not gang.controller and not gang.revocable
