"""Taking back what was handed out in an answer that never reached its caller: each goes where it was."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.states import TaskState
from resmgr.core.leases import Holder
from resmgr.core.lifecycle import Lifecycle
from resmgr.core.placements import Handover, Placement
from resmgr.core.tasks import Event, Gang, Task

_S = TaskState


def take_back_gangs(held: Lifecycle, gangs: Sequence[Gang], holder: Holder | None, now: float) -> int:
    """To the head of their ready queues, in the order in which they stood; no try is counted. What has moved
    on meanwhile is left as it is. How many came back."""
    count = 0
    for gang in reversed(gangs):
        tasks = gang.tasks
        if not tasks or any(task.state is not _S.PLACING or task.holder is not holder for task in tasks):
            continue
        held.recall(gang, Event.TAKE_BACK, now)
        held.ready[gang.type].add_first(gang)
        count += 1
    return count


def take_back_placements(
    held: Lifecycle, given: Sequence[Handover], holder: Holder | None, now: float
) -> int:
    """To the head of the placements that wait for jobmgr, without the tasks that have moved on meanwhile; one
    of which all have is forsaken. How many came back."""
    count = 0
    for handover in reversed(given):
        placement = _placement(held, handover, holder)
        if holder is not None:
            holder.let_go(handover)
        for task in placement.tasks:
            _put_back(held, task, placement, now)
        if placement.tasks:
            held.placed[placement] = None
            held.placed.move_to_end(placement, last=False)
            count += 1
        else:
            held.forsaken.append(handover)
    return count


def _placement(held: Lifecycle, given: Handover, holder: Holder | None) -> Placement:
    """As it was before it was handed over."""
    placement = Placement(given.host, given.agent_id, given.offer_id, given.type)
    position = 0
    for run, count in zip(given.runs, given.port_counts, strict=True):
        ports, position = given.ports[position : position + count], position + count
        task = held.registry.find(run)
        if task is not None and task.state is _S.LAUNCHING and task.holder is holder and task.gang:
            placement.tasks[task] = ports
    return placement


def _put_back(held: Lifecycle, task: Task, placement: Placement, now: float) -> None:
    held.step(task, Event.TAKE_BACK, now)
    held.leases.release(task)
    task.placement = placement
    gang = task.gang
    if gang is not None and all(member.state is not _S.LAUNCHING for member in gang.tasks):
        held.deadlines.cancel(gang)
