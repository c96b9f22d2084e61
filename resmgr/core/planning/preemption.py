"""Which tasks would be preempted for gangs that are not enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from peloton.model.ids import Run
from resmgr.core.planning.admission import AdmissionPlan, PlannedGangs
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.snapshot import FIRST_GANGS, take_snapshot
from resmgr.core.preemption.view import CROSS_POOL, Waiting
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.pool import Pool

PLANNED_JOB = "the planned job"
"""In place of the id of a job."""


def plan_preemption(
    scheduler: Scheduler, pool: Pool, groups: Sequence[PlannedGangs], plan: AdmissionPlan, now: float
) -> Steps[list[Victim]]:
    """Return the gangs that would be preempted for the planned gangs that wait, if nothing else changes.

    Those across pools are preempted only after some checks.
    """
    waiting = [
        (group, group.count - admitted.count)
        for group, admitted in zip(groups, plan.groups, strict=True)
        if not admitted.limited and admitted.count < group.count
    ]
    if not waiting or not scheduler.limits.preemption:
        return []
    view = yield from take_snapshot(scheduler.lifecycle, scheduler.tree, plan.tree)
    queues = {
        (part.path, part.hosts): _queues(
            scheduler, part, [each for each in waiting if _in(pool, each[0], part)]
        )
        for part in pool.divided()
    }
    view = replace(
        view,
        pools=tuple(
            replace(each, queues=queues[each.path, each.hosts]) if (each.path, each.hosts) in queues else each
            for each in view.pools
        ),
    )
    victims = yield from scheduler.preemptor.plan(view, now)
    return [victim for victim in victims if _is_for(victim, pool)]


def _queues(
    scheduler: Scheduler, pool: Pool, waiting: Sequence[tuple[PlannedGangs, int]]
) -> tuple[tuple[Waiting, ...], ...]:
    """Return the first gangs of each queue, with the planned ones in their places."""
    queues = [
        [Waiting(gang.tasks[0].key, gang.priority, gang.charge) for gang in islice(queue, FIRST_GANGS)]
        for queue in scheduler.pending.of(pool).all
    ]
    number = 0
    for group, count in waiting:
        queue = queues[group.queue]
        at = sum(1 for each in queue if each.priority >= group.priority)
        new = range(number, number + min(count, FIRST_GANGS))
        queue[at:at] = [Waiting(Run(PLANNED_JOB, i, 1), group.priority, group.charge) for i in new]
        number += count
    return tuple(tuple(queue[:FIRST_GANGS]) for queue in queues if queue)


def _in(pool: Pool, group: PlannedGangs, part: Pool) -> bool:
    """Return whether gangs would wait in a part of a pool."""
    return pool.part(group.charge) is part


def _is_for(victim: Victim, pool: Pool) -> bool:
    if victim.benefits != pool.path:
        return False
    return victim.policy == CROSS_POOL or (victim.lead is not None and victim.lead.job_id == PLANNED_JOB)
