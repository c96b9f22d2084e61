"""Gangs whose members end as one: what follows for each member from the states of all.

Decided from the rows of the members alone, so that any leader goes on where the one before fell. The first
member whose run ends is stored with a desired run above its own; by this the others are known to end, too,
before they are killed. The next runs begin together, once no run of a member lives, with one number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from jobmgr.core.state.cache import CachedJob, is_reached
from jobmgr.core.state.change import Change
from jobmgr.core.task.goal import Goal, goal_of
from jobmgr.core.task.retry import EndCause, runs_again
from peloton.model.amounts import duration
from peloton.model.job import GangMembers, GangRestart, instance_count
from peloton.model.states import ON_HOST_TASK_STATES, JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, Termination
from peloton.model.workload import NO_JOB_WORKLOAD, GangPolicy


class Member(StrEnum):
    """What a member does."""

    LIVES = "lives"
    """It waits in a queue or is on a host, and is to go on."""
    JOINED = "joined"
    """Its next run has begun, and nobody was told of it yet."""
    SPARE = "spare"
    """It is an extra of an elastic gang, and waits for room to join the others."""
    ENDING = "ending"
    """It is killed or withdrawn, for its next run."""
    ENDED = "ended"
    """Its run has ended, and the next one is to follow."""
    DONE = "done"
    """It has succeeded."""
    FAILED = "failed"
    """It has failed, or is preempted, for good: the gang fails."""
    LEAVING = "leaving"
    """It is killed or withdrawn, for good."""
    LEFT = "left"
    """It was stopped, and has ended: the gang is without it."""


class Stage(StrEnum):
    """What a gang does."""

    WHOLE = "whole"
    """Its members run, wait or have succeeded."""
    ENDING = "ending"
    """It is to run again, and some runs have not ended."""
    READY = "ready"
    """It is to run again, and all runs have ended."""
    FAILING = "failing"
    """A member will not run again: the others are ended."""
    OVER = "over"
    """Its members have succeeded, and extras that have not joined are not needed any more."""


class Step(StrEnum):
    """What becomes of a member."""

    STAY = "stay"
    END = "end"
    """End its run; the next one follows with those of the others."""
    RUN = "run"
    """Begin its next run."""
    STOP = "stop"
    """End its run for good."""


_M, _G = Member, Stage
STEPS: Mapping[tuple[Stage, Member], Step] = {
    (_G.WHOLE, _M.LIVES): Step.STAY,
    (_G.WHOLE, _M.JOINED): Step.STAY,
    (_G.WHOLE, _M.SPARE): Step.STAY,
    (_G.WHOLE, _M.DONE): Step.STAY,
    (_G.WHOLE, _M.LEAVING): Step.STAY,
    (_G.WHOLE, _M.LEFT): Step.STAY,
    (_G.ENDING, _M.LIVES): Step.END,
    (_G.ENDING, _M.JOINED): Step.END,
    (_G.ENDING, _M.SPARE): Step.END,
    (_G.ENDING, _M.ENDING): Step.STAY,
    (_G.ENDING, _M.ENDED): Step.STAY,
    (_G.ENDING, _M.DONE): Step.STAY,
    (_G.ENDING, _M.LEAVING): Step.STAY,
    (_G.ENDING, _M.LEFT): Step.STAY,
    (_G.READY, _M.JOINED): Step.STAY,
    (_G.READY, _M.ENDED): Step.RUN,
    (_G.READY, _M.DONE): Step.RUN,
    (_G.READY, _M.LEFT): Step.STAY,
    (_G.FAILING, _M.LIVES): Step.STOP,
    (_G.FAILING, _M.JOINED): Step.STOP,
    (_G.FAILING, _M.SPARE): Step.STOP,
    (_G.FAILING, _M.ENDING): Step.STOP,
    (_G.FAILING, _M.ENDED): Step.STOP,
    (_G.FAILING, _M.DONE): Step.STAY,
    (_G.FAILING, _M.FAILED): Step.STAY,
    (_G.FAILING, _M.LEAVING): Step.STAY,
    (_G.FAILING, _M.LEFT): Step.STAY,
    (_G.OVER, _M.JOINED): Step.STOP,
    (_G.OVER, _M.SPARE): Step.STOP,
    (_G.OVER, _M.DONE): Step.STAY,
    (_G.OVER, _M.LEAVING): Step.STAY,
    (_G.OVER, _M.LEFT): Step.STAY,
}
"""What becomes of a member by what its gang does. Pairs that are missing do not exist."""

_RESTARTS = frozenset({Member.ENDING, Member.ENDED})
_ALIVE = frozenset({Member.LIVES, Member.SPARE, Member.ENDING, Member.LEAVING})
_WAITING = frozenset({Member.JOINED, Member.SPARE})
_AT_END = frozenset({Member.DONE, Member.LEAVING, Member.LEFT})
_WAITING_STATES = frozenset({TaskState.INITIALIZED, TaskState.PENDING})
_WITH_GANG = "its gang "
_GROWS = "its gang grows: "
_REASONS = {Stage.FAILING: TerminationReason.FAILED, Stage.OVER: TerminationReason.KILLED_ON_REQUEST}
LONGEST_GROWTH_INTERVAL_SECONDS = 3600
"""How far growth in vain can raise the growth interval; a job may ask for a longer one."""
_MAX_CHARACTERS = 500
"""Of the reason for which a member is ended."""


class Gang(NamedTuple):
    """The members of a gang, by instance, and what it does."""

    stage: Stage
    members: tuple[Member, ...]
    run: int
    """The number that the next runs have."""


def gang_of(goal: JobState, tasks: Sequence[TaskRuntime], needed: int | None = None) -> Gang:
    """Return the gang of these members, whose job has the goal; all have a row.

    The first `needed` are those that it does not go without; None: all.
    """
    run, least = _next_number(goal, tasks), len(tasks) if needed is None else needed
    members = tuple(_member(goal, task, run, at >= least) for at, task in enumerate(tasks))
    return Gang(_stage(members, least), members, run)


def first_to_end(gang: Gang, tasks: Sequence[TaskRuntime]) -> int | None:
    """Return the member by which its gang ends: the first that was not ended with it; None: it is whole."""
    causes = {Member.FAILED} if gang.stage is Stage.FAILING else _RESTARTS
    those = [instance for instance, member in enumerate(gang.members) if member in causes]
    own = [instance for instance in those if not ended_with_gang(tasks[instance])] or those
    return min(own, key=lambda i: tasks[i].completion_time or tasks[i].updated_at, default=None)


def failures(tasks: Sequence[TaskRuntime]) -> int:
    """Return the failures of a gang: each is counted for the member that ended first."""
    return sum(task.failure_count for task in tasks)


def ended_with_gang(task: TaskRuntime) -> bool:
    """Return whether Peloton ends, or has ended, a run because that of another member has ended."""
    how = task.termination
    return how is not None and not how.by and task.killed_for.startswith(_WITH_GANG)


def why_ended(stage: Stage, instance: int, task: TaskRuntime) -> str:
    """Say why a member is ended with its gang: by which instance, and how that ended."""
    if stage is not Stage.FAILING and task.killed_for.startswith(_GROWS):
        return task.killed_for
    what = "ends with" if stage is Stage.FAILING else "runs again after"
    return f"{_WITH_GANG}{what} {_ended_by(instance, task)}"[:_MAX_CHARACTERS]


def why_grows(instance: int) -> str:
    """Say why an elastic gang ends for a larger one."""
    return f"{_GROWS}there is room for instance {instance}"


def how_ended(stage: Stage) -> Termination:
    """Return how a member ends that is ended with its gang."""
    return Termination(_REASONS.get(stage, TerminationReason.KILLED_FOR_RESTART))


def restart_of(job: CachedJob) -> GangRestart | None:
    """Return for which runs the bound gang of a job waits before it runs again; None where it does not."""
    tasks = job.tasks[: job.spec.bound_members]
    gang = gang_of(job.runtime.goal, tasks, job.spec.gang_size)
    first = first_to_end(gang, tasks)
    if gang.stage is not Stage.ENDING or first is None:
        return None
    waits = tuple(instance for instance, member in enumerate(gang.members) if member in _ALIVE)
    most, grows = job.task_spec(first).max_failures, tasks[first].killed_for
    cause = grows if grows.startswith(_GROWS) else _ended_by(first, tasks[first])
    counted = 0 if tasks[first].rule_ends else failures(tasks)  # a retry rule says its count in the cause
    return GangRestart(waits, cause, counted, most)


def members_of(job: CachedJob) -> GangMembers | None:
    """Return how many members an elastic gang has now; None where a job has no such gang."""
    if not job.spec.workload.elastic:
        return None
    there = sum(job.counts.get(state, 0) for state in ON_HOST_TASK_STATES)
    return GangMembers(there, job.spec.gang_size, instance_count(job.spec, job.runtime))


def growth_interval(job: CachedJob) -> int:
    """Return the seconds that a round of an elastic gang lasts at least before it ends for a larger one.

    They double with each round that has ended for it in vain, up to an hour.
    """
    interval = job.spec.workload.growth_interval
    return max(interval, min(interval << min(job.vain_growths, 20), LONGEST_GROWTH_INTERVAL_SECONDS))


def extra_reason(job: CachedJob, instance: int) -> str:
    """Return why an extra of an elastic gang is not enqueued; empty of other instances."""
    spec = job.spec_of(instance)
    if not spec.is_extra(instance):
        return ""
    if spec.workload.in_place and all(is_reached(task) for task in job.tasks[: spec.gang_size]):
        return ""
    if all(is_reached(task) for task in job.tasks[: spec.gang_size]):
        interval = duration(growth_interval(job))
        return f"its gang runs without it, and may grow {interval} after its start"
    needed = "instance 0 is" if spec.gang_size == 1 else f"instances 0-{spec.gang_size - 1} are"
    return f"it joins its gang when {needed} placed and there is room"


def is_bound(change: Change, instance: int) -> bool:
    """Return whether an instance ends, and runs again, with the other members of its gang."""
    spec = change.spec
    return spec.workload is not NO_JOB_WORKLOAD and instance < spec.bound_members


def round_begun(change: Change) -> int:
    """Return the number of the newest round that members of a bound gang are in; 1 where none has a row."""
    return max((change.task(member).run for member in range(change.spec.bound_members)), default=1) or 1


def note_end(change: Change, instance: int) -> None:
    """Note that a run ends, or has ended: where it is of a bound gang, the others are to follow."""
    if is_bound(change, instance):
        change.in_flight.gang_due = True


def note_new(change: Change) -> None:
    """Note that an elastic gang gets members: where those that it needs are gone, nobody waits for these."""
    if change.spec.workload.elastic and change.spec.bound_members:
        change.in_flight.gang_due = True


def is_ending(change: Change) -> bool:
    """Return whether the bound gang ends by another member already: what ends now is no cause of it."""
    in_flight = change.in_flight
    members = (change.task(instance) for instance in range(change.spec.bound_members))
    in_flight.gang_ends = in_flight.gang_ends or any(_ends_gang(change.goal, task) for task in members)
    return in_flight.gang_ends


def gang_runs_again(change: Change, instance: int, cause: EndCause) -> bool:
    """Return whether a bound gang runs again after a member's run, the first to end, ended so.

    A loss or an eviction is no failure, whatever maxFailures is.
    """
    if not cause.is_failure:
        return cause is not EndCause.SUCCESS
    spec = change.task_spec(instance)
    if change.spec.workload.gang_policy is GangPolicy.FAIL:
        spec = replace(spec, max_failures=0)
    members = [change.task(member) for member in range(change.spec.bound_members)]
    before = failures(members) - sum(task.rule_ends.total for task in members if task.rule_ends)
    return runs_again(cause, before + 1, spec)


def _ended_by(instance: int, task: TaskRuntime) -> str:
    return f"instance {instance}, {task.state.name}" + (f": {task.message}" if task.message else "")


def _member(goal: JobState, task: TaskRuntime, run: int, extra: bool = False) -> Member:
    wanted, ended = goal_of(goal, task), task.state.terminal
    if wanted is Goal.RESTART:
        return Member.ENDED if ended else Member.ENDING
    if task.goal is TaskState.PREEMPTING:
        return Member.FAILED
    if wanted is not Goal.RUN:
        return Member.LEFT if ended else Member.LEAVING
    if ended:
        return Member.DONE if task.state is TaskState.SUCCEEDED else Member.FAILED
    if task.state is TaskState.INITIALIZED and task.run == run:
        return Member.JOINED
    return Member.SPARE if extra and task.state in _WAITING_STATES else Member.LIVES


def _stage(members: Sequence[Member], needed: int) -> Stage:
    if Member.FAILED in members:
        return Stage.FAILING
    if _RESTARTS.isdisjoint(members):
        extras = members[needed:]
        over = not _WAITING.isdisjoint(extras) and _AT_END.issuperset(members[:needed])
        return Stage.OVER if over and (_AT_END | _WAITING).issuperset(extras) else Stage.WHOLE
    return Stage.READY if _ALIVE.isdisjoint(members) else Stage.ENDING


def _ends_gang(goal: JobState, task: TaskRuntime) -> bool:
    return _member(goal, task, 0) in (Member.ENDING, Member.ENDED, Member.FAILED)


def _next_number(goal: JobState, tasks: Sequence[TaskRuntime]) -> int:
    """Return the run to follow: the one that is desired or begun, or a new one where it has been used."""
    number = max(task.desired_run for task in tasks)
    had = any(task.run >= number and not _is_fresh(goal, task) for task in tasks)
    return max(task.run for task in tasks) + 1 if had else number


def _is_fresh(goal: JobState, task: TaskRuntime) -> bool:
    """Return whether nothing has become of the present run yet."""
    return task.state is TaskState.INITIALIZED and goal_of(goal, task) is Goal.RUN
