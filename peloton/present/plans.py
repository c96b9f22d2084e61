"""What would become of a job that is planned, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peloton.model.amounts import duration
from peloton.model.plural import plural
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.private.plan.plan_pb2 import PlanJobResponse, PlannedInstances
    from peloton.private.resmgr.planning.planning_pb2 import GangsPlan, PlannedVictims

_INDENT = "  "


def plan_lines(plan: PlanJobResponse) -> Iterator[str]:
    """Describe a plan, line by line."""
    yield "Nothing is created. As things are now:"
    for group in plan.groups:
        yield from _group_lines(group, daemon=not plan.instances)
    if plan.held_back:
        more = _counted(plan.held_back, "more instance")
        yield f"{more} would follow as others end: maximumRunningInstances"
    for victims in plan.victims:
        yield _victims_line(victims)


def _group_lines(group: PlannedInstances, daemon: bool) -> Iterator[str]:
    plan = group.plan
    gangs = plan.placed + plan.unplaced + plan.waiting + plan.refused_gangs
    size = 1 if daemon else group.count // max(1, gangs)
    if daemon:
        yield "an instance for each host that matches:"
    elif size > 1:
        yield f"instances {group.instances}: a gang of {plural(size, 'task')}, placed together or not at all"
    else:
        yield f"{'instances' if group.count > 1 else 'instance'} {group.instances}:"
    for line in _outcomes(plan, size):
        yield f"{_INDENT}{line}"


def _outcomes(plan: GangsPlan, size: int) -> Iterator[str]:
    if plan.placed:
        hosts = sum(each.hosts for each in plan.hosts)
        yield f"{plan.placed * size} would be placed now, on {_counted(hosts, 'host')}"
        for each in plan.hosts:
            names = ", ".join(map(clean, each.names)) + (", …" if each.hosts > len(each.names) else "")
            yield f"{_INDENT}{_counted(each.tasks, 'task')} on {'each of ' if each.hosts > 1 else ''}{names}"
    if plan.unplaced:
        yield f"{plan.unplaced * size} would be admitted and wait for a host: {clean(plan.unplaced_reason)}"
    if plan.waiting:
        yield f"{plan.waiting * size} would wait in the queue of the pool: {clean(plan.waiting_reason)}"
        if plan.ahead:
            yield f"{_INDENT}{_counted(plan.ahead, 'gang')} would be ahead of them"
    if plan.refused_gangs:
        count = plan.refused_gangs * size
        always = f"no host could take {'it' if count == 1 else 'them'}, even when empty: "
        yield f"{count}: {always if plan.HasField('shortage') else 'refused: '}{clean(plan.refused)}"


def _victims_line(victims: PlannedVictims) -> str:
    jobs = ", ".join(job.value for job in victims.jobs)
    return (
        f"{_counted(victims.tasks, 'task')} in pool {clean(victims.pool)} would be preempted within about"
        f" {duration(victims.after_seconds)} (jobs {jobs}): {clean(victims.reason)}"
    )


def _counted(count: int, what: str) -> str:
    return plural(count, what)
