"""Taking back what was handed out in an answer that did not reach its caller."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.states import TaskState
from resmgr.core.placing.owned import queue
from resmgr.core.state.entities import Gang, Holder, Placement, Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.placements import Handover
from resmgr.core.state.task_states import Event

_S = TaskState


def take_back_gangs(lifecycle: Lifecycle, gangs: Sequence[Gang], holder: Holder | None, now: float) -> int:
    """Return gangs to the head of their ready queues in their former order; return how many.

    No try is counted. A gang that has moved on meanwhile stays as it is.
    """
    count = 0
    for gang in reversed(gangs):
        tasks = gang.tasks
        if not tasks or any(task.state is not _S.PLACING or task.holder is not holder for task in tasks):
            continue
        lifecycle.recall(gang, Event.TAKE_BACK, now)
        lifecycle.ready[gang.type].add_first(gang)
        count += 1
    return count


def take_back_placements(
    lifecycle: Lifecycle, given: Sequence[Handover], holder: Holder | None, now: float
) -> int:
    """Return placements to the head of their queue, without tasks that have moved on; return how many.

    A placement whose tasks have all moved on is abandoned.
    """
    count = 0
    for handover in reversed(given):
        placement = _restored(lifecycle, handover, holder)
        if holder is not None:
            holder.drop(handover)
        for task in placement.tasks:
            _put_back(lifecycle, task, placement, now)
        if placement.tasks:
            queue(lifecycle, placement, now, first=True)
            count += 1
        else:
            lifecycle.placements.abandon(handover)
    return count


def _restored(lifecycle: Lifecycle, given: Handover, holder: Holder | None) -> Placement:
    """Return the placement as it was before it was handed over."""
    placement = Placement(given.host, given.agent_id, given.offer_id, given.type)
    position = 0
    for run, count in zip(given.runs, given.port_counts, strict=True):
        ports, position = given.ports[position : position + count], position + count
        task = lifecycle.registry.find(run)
        if task is not None and task.state is _S.LAUNCHING and task.holder is holder and task.gang:
            placement.tasks[task] = ports
    return placement


def _put_back(lifecycle: Lifecycle, task: Task, placement: Placement, now: float) -> None:
    lifecycle.step(task, Event.TAKE_BACK, now)
    lifecycle.leases.release(task)
    task.placement = placement
    gang = task.gang
    if gang is not None and all(member.state is not _S.LAUNCHING for member in gang.tasks):
        lifecycle.deadlines.cancel(gang)
