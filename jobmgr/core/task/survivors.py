"""Runs that were given up as lost, and live: their agents came back before anything replaced them.

Such a run is kept where its replacement has not been launched. The replacement is taken out of resmgr first,
then the run is its instance's current one again, in the store, and then resmgr counts it. What a lost run was
is kept in memory: the next leader kills it as an orphan, as everybody does once the replacement is launched.
"""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.goal import Goal, goal_of
from jobmgr.core.task.retry import EndCause
from jobmgr.core.task.status_rules import health, moment
from peloton.model.cluster import cluster_of
from peloton.model.ids import Run
from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime, TaskStatus

WAITING = frozenset({TaskState.INITIALIZED, TaskState.PENDING})
_LOSSES = frozenset({EndCause.LOST, EndCause.NOT_STARTED})


def note_lost(change: Change, instance: int, lost: TaskRuntime, cause: EndCause) -> None:
    """Keep what a run was that is lost and has been replaced, in case it lives.

    A stateful run and one of a gang are not kept: a volume and the other members go by the replacement.
    """
    spec = change.spec_of(instance)
    if cause not in _LOSSES or spec.task(instance).stateful or lost.volume_id or spec.in_gang(instance):
        return
    if spec.is_extra(instance) and not spec.workload.in_place:
        return
    if change.task(instance).previous_run == lost.run and change.task(instance).state in WAITING:
        change.in_flight.lost[instance] = lost


def lives_on(change: Change, run: Run, status: TaskStatus, cluster: str) -> bool:
    """Return whether a run that is reported alive is a lost one that may be kept."""
    lost = change.in_flight.lost.get(run.instance)
    if lost is None or lost.run != run.run or status.state is not TaskState.RUNNING:
        return False
    same = cluster_of(lost.host) == cluster and status.agent_id in ("", lost.agent_id)
    return same and _is_replaced_by_its_like(change, run.instance, lost)


def _is_replaced_by_its_like(change: Change, instance: int, lost: TaskRuntime) -> bool:
    """Return whether the replacement waits, is to run, and is what the lost run was."""
    task = change.task(instance)
    versions = {lost.config_version, task.config_version, task.desired_config_version}
    waits = task.state in WAITING and task.previous_run == lost.run
    return waits and len(versions) == 1 and goal_of(change.goal, task) is Goal.RUN


def take_back(change: Change, instance: int, now: int) -> None:
    """Take the replacement of a lost run that lives out of resmgr, or keep the run where it is in none."""
    in_flight, task = change.in_flight, change.task(instance)
    in_flight.finish(instance, PendingOp.BACKOFF)
    if task.state is TaskState.INITIALIZED and not in_flight.recovered:
        _keep(change, instance, now)
        return
    in_flight.begin(instance, PendingOp.WITHDRAW)
    change.withdrawals.append((instance, task.run))


def on_taken_back(change: Change, instance: int, now: int) -> None:
    """Keep a lost run that lives, now that resmgr has let go of its replacement.

    Where the run has ended meanwhile, or is not wanted any more, another one is to follow. The replacement
    is not enqueued again: its withdrawal may come once more, and late.
    """
    in_flight = change.in_flight
    lost, alive = in_flight.lost.get(instance), in_flight.survivors.get(instance) is not None
    if lost is not None and alive and _is_replaced_by_its_like(change, instance, lost):
        _keep(change, instance, now)
        return
    give_up(change, instance)
    task = change.task(instance)
    if goal_of(change.goal, task) is Goal.RUN:
        change.revise(instance, desired_run=task.run + 1)


def give_up(change: Change, instance: int) -> None:
    """Forget a lost run, for the instance goes on without it; kill it where it is known to live."""
    lost = change.in_flight.lost.pop(instance, None)
    alive = change.in_flight.survivors.pop(instance, None) is not None
    if lost is not None and alive:
        change.kill(instance, lost)


def note_ended(change: Change, run: Run) -> None:
    """Note that a run has ended: a lost one cannot be kept any more."""
    in_flight, lost = change.in_flight, change.in_flight.lost.get(run.instance)
    if lost is not None and lost.run == run.run:
        del in_flight.lost[run.instance]
        if run.instance in in_flight.survivors:
            in_flight.survivors[run.instance] = None


def _keep(change: Change, instance: int, now: int) -> None:
    """Make a lost run that lives its instance's current one again, and have resmgr count it."""
    in_flight, task = change.in_flight, change.task(instance)
    lost, status = in_flight.lost.pop(instance), in_flight.survivors.pop(instance)
    assert task.previous_run == lost.run, (
        f"{change.job_id}-{instance}: run {task.run} replaces run {task.previous_run}, not {lost.run}"
    )
    in_flight.finish(instance)
    in_flight.missing.discard(instance)
    in_flight.attempts.pop(instance, None)
    in_flight.taken_back[instance] = task.run
    change.add_usage(_counted_too_early(lost, task))
    change.move(
        instance,
        Cause.SURVIVED,
        run=lost.run,
        desired_run=lost.run,
        previous_run=lost.previous_run,
        previous_state=lost.previous_state,
        host=lost.host,
        agent_id=lost.agent_id,
        ports=lost.ports,
        saved_at=lost.saved_at,
        start_time=lost.start_time or (now if status is None else moment(status, lost, now)),
        completion_time=0,
        termination=None,
        killed_for="",
        message=f"lives on: its agent came back before run {task.run} was launched",
        reason="",
        health=_health(lost, status),
        desired_host=lost.desired_host,
        failure_count=lost.failure_count,
        rule_ends=lost.rule_ends,
        resource_usage=lost.resource_usage,
    )
    change.gangs_again.append(((instance, lost.run),))


def _counted_too_early(lost: TaskRuntime, task: TaskRuntime) -> dict[str, float]:
    """Return, as negative amounts, what was counted as used when the run seemed to end."""
    before = lost.resource_usage
    return {kind: before.get(kind, 0.0) - amount for kind, amount in task.resource_usage.items()}


def _health(lost: TaskRuntime, status: TaskStatus | None) -> HealthState:
    return lost.health if status is None or status.healthy is None else health(status.healthy)
