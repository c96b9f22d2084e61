"""Bound gangs: all members end when one does, and their next runs begin together."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.dispatch import is_to_be_examined
from jobmgr.core.job.elastic import NOT_NEEDED
from jobmgr.core.state.change import Change
from jobmgr.core.task.gang import STEPS, Gang, Stage, Step, first_to_end, gang_of, how_ended, why_ended
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

_TURNS = 4
"""A gang that ends, whose runs all end at once, and that runs again, is whole in the third turn.

Where nobody of an elastic gang runs again but extras, these are stopped in the third, and have ended in the
fourth.
"""


def advance(active: ActiveJobs, change: Change) -> None:
    """Bring about what follows for the members of a bound gang from runs that end or have ended.

    It waits until all have a row, and were evaluated.
    """
    in_flight, size = change.in_flight, change.spec.bound_members
    for _ in range(_TURNS):
        if not in_flight.gang_due or not size or is_to_be_examined(change, size):
            return
        in_flight.gang_due = False
        _take_turn(active, change, [change.task(instance) for instance in range(size)])
    assert not in_flight.gang_due, f"{change.job_id}: its gang is not settled after {_TURNS} turns"


def _take_turn(active: ActiveJobs, change: Change, tasks: list[TaskRuntime]) -> None:
    gang = gang_of(change.goal, tasks, change.spec.gang_size)
    change.in_flight.gang_ends = gang.stage in (Stage.ENDING, Stage.FAILING)
    blamed = first_to_end(gang, tasks)
    why = NOT_NEEDED if blamed is None else why_ended(gang.stage, blamed, tasks[blamed])
    for instance, member in enumerate(gang.members):
        step = STEPS[gang.stage, member]
        if step is Step.RUN:
            _begin(active, change, instance, tasks[instance], gang)
        elif step is Step.END:
            change.revise(instance, desired_run=gang.run, termination=how_ended(gang.stage), killed_for=why)
            active.actions.evaluate(change, instance)
        elif step is Step.STOP:
            _stop(active, change, instance, tasks[instance], gang.stage, why)
    if gang.stage is Stage.READY and change.spec.workload.elastic:
        change.in_flight.gang_due = True  # only extras may run again: users may have stopped the others


def _begin(active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, gang: Gang) -> None:
    """Begin the next run of a member, after a pause where runs of it were refused again and again."""
    tries = change.in_flight.attempts.get(instance, 0)
    active.actions.next_run(change, instance, task, gang.run)
    if task.state is TaskState.LOST:
        active.actions.pause_after_refusals(change, instance, tries)


def _stop(
    active: ActiveJobs, change: Change, instance: int, task: TaskRuntime, stage: Stage, why: str
) -> None:
    """Let a member end for good; one that ends already, or has ended, stays so."""
    change.revise(instance, goal=TaskState.KILLED, desired_run=task.run)
    if not task.state.terminal and task.state is not TaskState.KILLING:
        change.revise(instance, termination=how_ended(stage), killed_for=why)
        active.actions.evaluate(change, instance)
