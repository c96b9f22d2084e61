"""Elastic gangs: a round begins with the members that are placed, and ends for a larger one.

The members that a gang needs are enqueued as one. Once they are placed, its extras are enqueued, each alone,
and those that are placed within a moment start with them. The others wait: when the round has lasted for the
growth interval, they are enqueued as demand of their pool. An extra that is placed then shows that there is
room. It is not launched: all members end, none counted as failed, and the next round begins in the same way.
Others may take the room meanwhile: each growth in vain doubles the interval.

Of a gang that grows in place (GANG_POLICY_RESTART_MEMBER) each member ends, and runs again, alone: there are
no rounds. Extras are enqueued once the members that the gang needs have hosts, and start when they are
placed.
"""

from __future__ import annotations

from enum import StrEnum

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Placement
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.actions import TaskActions
from jobmgr.core.task.deadlines import GATHERING
from jobmgr.core.task.gang import growth_interval, note_end, why_grows
from jobmgr.core.task.goal import ENDING_GOALS, Goal, goal_of
from peloton.model.ids import Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, Termination

NOT_NEEDED = "its gang has ended without it"
TOO_EARLY = "GANG_GROWS_LATER"
"""The reason of an extra's run that was placed when its gang could not grow."""
_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class Outlook(StrEnum):
    """What extras that wait may do."""

    CLOSED = "closed"
    """Wait: the members that the gang needs have no hosts, or the gang ends."""
    GATHERS = "gathers"
    """Start with the members that are placed."""
    RUNS = "runs"
    """Make the gang grow, once the growth interval is over."""


def outlook(change: Change) -> Outlook:
    """Return what extras of an elastic gang may do."""
    if change.in_flight.gathered:
        return Outlook.GATHERS
    some = False
    for _, task in _needed(change):
        goal = goal_of(change.goal, task)
        if goal is Goal.RUN and task.state in ON_HOST_TASK_STATES:
            some = True
        elif goal not in ENDING_GOALS:
            return Outlook.CLOSED
    return Outlook.RUNS if some else Outlook.CLOSED


def joins(actions: TaskActions, change: Change, instance: int) -> bool:
    """Return whether an extra is enqueued now. Else it is set aside, until its gang gathers or may grow."""
    seen = outlook(change)
    if change.spec.workload.in_place:
        if seen is Outlook.CLOSED:
            change.in_flight.spares.add(instance)
        return seen is not Outlook.CLOSED
    if seen is Outlook.GATHERS and change.task(instance).run == _round(change):
        return True
    if seen is Outlook.RUNS:
        seconds = _until_growth(actions, change)
        if seconds <= 0:
            return True
        change.in_flight.begin(instance, PendingOp.BACKOFF)
        actions.set_deadline(change, instance, seconds)
        return False
    change.in_flight.spares.add(instance)
    return False


def wake_spares(change: Change) -> None:
    """Look again at extras that were set aside, where their gang gathers or runs by now."""
    spares = change.in_flight.spares
    if spares and outlook(change) is not Outlook.CLOSED:
        late = {i for i in spares if change.in_flight.gathered and change.task(i).run != _round(change)}
        for instance in spares - late:
            change.in_flight.mark_ready(instance)
        change.in_flight.spares = late


def stop_unneeded(active: ActiveJobs, change: Change) -> None:
    """Stop the extras of a gang that grows in place which wait when the members that it needs are done.

    Those on hosts end by themselves.
    """
    needed = [task for _, task in _needed(change)]
    if change.incomplete or not all(t.state.terminal and not _begins_again(change, t) for t in needed):
        return
    for instance in range(change.spec.gang_size, change.spec.instance_count):
        task = change.task(instance)
        if _waits(change, task):
            how = Termination(TerminationReason.KILLED_ON_REQUEST)
            change.revise(
                instance, goal=TaskState.KILLED, desired_run=task.run, termination=how, killed_for=NOT_NEEDED
            )
            active.actions.evaluate(change, instance)


def set_aside(active: ActiveJobs, cycle: Cycle, placement: Placement) -> bool:
    """Keep a placement for the start of an elastic gang, which gathers; return whether that was done."""
    for job_id in dict.fromkeys(run.job_id for run in placement.runs):
        change = active.change(cycle, job_id)
        if change is None or not change.spec.workload.elastic or change.spec.workload.in_place:
            continue
        in_flight, actions = change.in_flight, active.actions
        if in_flight.gathered or any(_begins(change, run) for run in placement.runs):
            if not in_flight.gathered:
                due = actions.now.monotonic + actions.limits.gather_seconds
                actions.deadlines.set((job_id, GATHERING), due)
            in_flight.gathered.append(placement)
            return True
    return False


def is_gathered(change: Change) -> bool:
    """Return whether a gang that gathers starts now: all who wait are placed, or it is to end."""
    placed = {
        run.instance
        for placement in change.in_flight.gathered
        for run in placement.runs
        if run.job_id == change.job_id and change.task(run.instance).run == run.run
    }
    begun = _round(change)
    for instance in range(change.spec.instance_count):
        task = change.task(instance)
        if instance in placed:
            if not change.spec.is_extra(instance) and goal_of(change.goal, task) is not Goal.RUN:
                return True
        elif _waits(change, task) and task.run == begun and not _backs_off(change, instance):
            return False
    return True


def has_room(active: ActiveJobs, change: Change, instance: int) -> None:
    """Let an elastic gang grow for an extra that is placed while it runs; else let the extra wait."""
    task = change.task(instance)
    if goal_of(change.goal, task) is not Goal.RUN:
        return
    if outlook(change) is Outlook.RUNS and _until_growth(active.actions, change) <= 0:
        change.in_flight.grows_from = _there(change)
        how = Termination(TerminationReason.KILLED_FOR_RESTART)
        why = why_grows(instance)
        change.revise(instance, desired_run=task.run + 1, termination=how, killed_for=why)
        note_end(change, instance)
        active.actions.evaluate(change, instance)
        return
    why = "there is room for it, but its gang may not grow yet"
    lost = change.move(instance, Cause.NOT_STARTED, message=why, reason=TOO_EARLY)
    active.actions.next_run(change, instance, lost)


def note_start(change: Change) -> None:
    """Note how large a round is that begins. Where growth was in vain, the next one is put off."""
    in_flight = change.in_flight
    if in_flight.grows_from:
        grown = _there(change) > in_flight.grows_from
        change.job.vain_growths = 0 if grown else change.job.vain_growths + 1
        in_flight.grows_from = 0


def _there(change: Change) -> int:
    """Return how many members are on hosts."""
    tasks = (change.task(instance) for instance in range(change.spec.instance_count))
    return sum(task.state in ON_HOST_TASK_STATES for task in tasks)


def _needed(change: Change) -> list[tuple[int, TaskRuntime]]:
    """Return the members that an elastic gang needs."""
    return [(i, change.task(i)) for i in range(min(change.spec.gang_size, change.spec.instance_count))]


def _round(change: Change) -> int:
    """Return the number of the runs of the present round, or of the one that begins."""
    return max((task.run for _, task in _needed(change) if _runs(change, task)), default=0)


def _runs(change: Change, task: TaskRuntime) -> bool:
    return goal_of(change.goal, task) is Goal.RUN


def _begins_again(change: Change, task: TaskRuntime) -> bool:
    return goal_of(change.goal, task) is Goal.RESTART


def _waits(change: Change, task: TaskRuntime) -> bool:
    return task.state in _WAITS and _runs(change, task)


def _backs_off(change: Change, instance: int) -> bool:
    return change.in_flight.pending.get(instance) is PendingOp.BACKOFF


def _begins(change: Change, run: Run) -> bool:
    """Return whether a placed run is of a member that the gang needs, and is to be launched."""
    task = change.task(run.instance)
    current = run.job_id == change.job_id and task.run == run.run
    taken = change.in_flight.pending.get(run.instance) is PendingOp.WITHDRAW
    return current and not change.spec.is_extra(run.instance) and _waits(change, task) and not taken


def _until_growth(actions: TaskActions, change: Change) -> float:
    """Return the seconds after which a gang that runs may grow: its members have run for the interval."""
    interval = float(growth_interval(change.job))
    begun = 0
    for _, task in _needed(change):
        if not _runs(change, task):
            continue
        if task.state is not TaskState.RUNNING:
            return interval
        begun = max(begun, task.start_time)
    return interval - actions.seconds_since(begun)
