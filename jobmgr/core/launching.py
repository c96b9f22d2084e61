"""Handlers of placements and launches, and of the deadlines of tasks."""

from __future__ import annotations

from jobmgr.core.job import elastic, gangs
from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.dispatch import free_slots
from jobmgr.core.state.cache import NOT_CREATED, is_reached, waits_for
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import (
    Launched,
    LaunchRefused,
    LaunchUncertain,
    Placed,
    Placement,
    SecretMissing,
)
from jobmgr.core.state.in_flight import PendingOp
from jobmgr.core.state.instructions import Launch, Release, Settle, ShutDown
from jobmgr.core.state.ports import ports_needed, shares
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.actions import NO_PORTS
from jobmgr.core.task.deadlines import GATHERING
from jobmgr.core.task.gang import is_bound
from jobmgr.core.task.goal import Goal, goal_of
from jobmgr.core.task.retry import delay
from jobmgr.core.task.survivors import give_up
from jobmgr.core.task.volumes import home_for_launch
from peloton.model.amounts import duration
from peloton.model.cluster import cluster_of
from peloton.model.ids import JobId, Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState, TerminationReason
from peloton.model.task import PortSpec, TaskRuntime, TaskStatus

FAULTY = "CONTAINER_LAUNCH_FAILED"
"""The reason of a run that cannot be launched at all."""
INVALID = "INVALID_OFFERS"
"""The reason of a run whose placement was not valid."""
PEER_HAS_NO_HOST = "PEER_HAS_NO_HOST"
"""The reason of a run that was placed when the instance whose address it needs had no host any more."""
SECRET_NOT_FOUND = "SECRET_NOT_FOUND"
"""The reason of a run whose job has a secret that is not stored."""
_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


def on_placed(active: ActiveJobs, cycle: Cycle, event: Placed) -> None:
    """Launch the placed runs that still wait; release hosts that get none. Elastic gangs gather first."""
    for placement in event.placements:
        if not elastic.set_aside(active, cycle, placement):
            _place(active, cycle, placement)


def start_gathered(active: ActiveJobs, cycle: Cycle, change: Change) -> None:
    """Launch the members of an elastic gang that are placed."""
    active.actions.deadlines.cancel((change.job_id, GATHERING))
    placements, change.in_flight.gathered = change.in_flight.gathered, []
    for placement in placements:
        _place(active, cycle, placement, change.job_id)
    elastic.note_start(change)


def advance_elastic(active: ActiveJobs, cycle: Cycle, change: Change) -> None:
    """Start an elastic gang that has gathered, and look at the extras that wait for it."""
    if change.in_flight.gathered and elastic.is_gathered(change):
        start_gathered(active, cycle, change)
        gangs.advance(active, change)
    if change.spec.workload.in_place:
        elastic.stop_unneeded(active, change)
    elastic.wake_spares(change)


def on_launched(active: ActiveJobs, cycle: Cycle, event: Launched) -> None:
    """Finish the launches of runs, and settle them with resmgr."""
    settled = []
    for run in event.runs:
        change = _current(active, cycle, run)
        if change is None:
            continue
        change.in_flight.finish(run.instance, PendingOp.LAUNCH)
        if change.task(run.instance).state in ON_HOST_TASK_STATES:
            settled.append((run, TaskState.LAUNCHED))
            if goal_of(change.goal, change.task(run.instance)) is not Goal.RUN:
                active.actions.evaluate(change, run.instance)
    _settle(cycle, settled)


def on_launch_refused(active: ActiveJobs, cycle: Cycle, event: LaunchRefused) -> None:
    """End runs that were not launched."""
    settled = []
    for run in event.runs:
        settled.append((run, TaskState.FAILED if event.faulty else TaskState.LOST))
        change = _not_launched(active, cycle, run)
        if change is None:
            continue
        if event.faulty:
            active.actions.end(change, run.instance, _faulty(run, event.message))
        else:
            active.actions.not_started(change, run.instance, event.message, INVALID)
    _settle(cycle, settled)


def on_secret_missing(active: ActiveJobs, cycle: Cycle, event: SecretMissing) -> None:
    """End runs that cannot have their secrets as KILLED; their instances stay so until they are started."""
    settled = []
    for run in event.runs:
        settled.append((run, TaskState.KILLED))
        change = _not_launched(active, cycle, run)
        if change is None:
            continue
        change.revise(run.instance, goal=TaskState.KILLED, desired_run=run.run)
        killed = TaskStatus("", TaskState.KILLED, 0, message=event.message, reason=SECRET_NOT_FOUND)
        active.actions.end(change, run.instance, killed)
    _settle(cycle, settled)


def on_launch_uncertain(active: ActiveJobs, cycle: Cycle, event: LaunchUncertain) -> None:
    """Watch runs that may be launched."""
    for run in event.runs:
        change = _current(active, cycle, run)
        if change is None:
            continue
        change.in_flight.finish(run.instance, PendingOp.LAUNCH)
        task = change.task(run.instance)
        if task.state is TaskState.LAUNCHED:
            change.in_flight.unconfirmed.add(run.instance)
        elif goal_of(change.goal, task) is Goal.RUN:
            continue
        active.actions.evaluate(change, run.instance)


def on_deadline(active: ActiveJobs, cycle: Cycle, change: Change, instance: int) -> None:
    """Handle a task's deadline, whose purpose follows from its state."""
    actions, task = active.actions, change.task(instance)
    change.in_flight.finish(instance, PendingOp.BACKOFF)
    if task.state in (TaskState.LAUNCHED, TaskState.STARTING):
        patient = change.service and task.state is TaskState.STARTING
        if actions.age(task) >= actions.limits.stuck_after and not patient:
            actions.start_over(change, instance, task)
        else:
            _reconcile(active, cycle, change, instance, task)
    elif task.state is TaskState.RUNNING:
        _running_due(active, cycle, change, instance, task)
    elif task.state is TaskState.KILLING and actions.age(task) >= actions.limits.stuck_after:
        run = Run(change.job_id, instance, task.run)
        cycle.instructions.append(ShutDown(((run, task.agent_id),), cluster_of(task.host)))
        actions.set_deadline(change, instance, actions.limits.kill_again_most)
    else:
        actions.evaluate(change, instance)


def _running_due(active: ActiveJobs, cycle: Cycle, change: Change, instance: int, task: TaskRuntime) -> None:
    actions = active.actions
    left = actions.time_left(change, instance)
    if left is not None and left <= 0:
        longest = change.spec_of(instance).sla.max_running_time
        past = f"ran longer than its maxRunningTime of {duration(longest)}"
        actions.kill_for(change, instance, TerminationReason.DEADLINE_TIMEOUT_EXCEEDED, past)
    elif instance in change.in_flight.unconfirmed:
        _reconcile(active, cycle, change, instance, task)
    else:
        actions.evaluate(change, instance)


def _reconcile(active: ActiveJobs, cycle: Cycle, change: Change, instance: int, task: TaskRuntime) -> None:
    """Ask Mesos for a status of the run, again after growing delays."""
    actions, limits = active.actions, active.actions.limits
    run = Run(change.job_id, instance, task.run)
    cycle.reconcile.setdefault(cluster_of(task.host), []).append((run, task.agent_id))
    again = delay(change.in_flight.count_failure(instance), limits.kill_again_after, limits.news_after)
    left = actions.time_left(change, instance) if task.state is TaskState.RUNNING else None
    actions.set_deadline(change, instance, again if left is None else min(again, left))


def _current(active: ActiveJobs, cycle: Cycle, run: Run) -> Change | None:
    """Return the change of the job if the run is its instance's current one."""
    change = active.change(cycle, run.job_id)
    return change if change is not None and change.task(run.instance).run == run.run else None


def _not_launched(active: ActiveJobs, cycle: Cycle, run: Run) -> Change | None:
    """End the launch of a run that was not made; return the change of its job where the run waits for it.

    One that is to end by now is evaluated.
    """
    change = _current(active, cycle, run)
    if change is None:
        return None
    change.in_flight.finish(run.instance, PendingOp.LAUNCH)
    if change.task(run.instance).state is TaskState.LAUNCHED:
        return change
    active.actions.evaluate(change, run.instance)
    return None


def _place(active: ActiveJobs, cycle: Cycle, placement: Placement, starting: JobId = "") -> None:
    """Launch the runs of a placement. `starting` is the job whose elastic gang starts; empty: none does."""
    ports = _shares(active, cycle, placement)
    going: list[Run] = []
    settled: list[tuple[Run, TaskState]] = []
    for run, share in zip(placement.runs, ports, strict=True):
        change = active.change(cycle, run.job_id)
        task = NOT_CREATED if change is None else change.task(run.instance)
        if change is None or task.run != run.run or task.state not in _WAITS:
            settled.append((run, _known_state(task, run)))
        elif share is None:
            settled.append((run, TaskState.LOST))
            message = f"placed on {placement.hostname} without the ports that it needs"
            active.actions.not_started(change, run.instance, message, INVALID)
        elif task.volume_id and placement.hostname != task.desired_host:
            settled.append((run, TaskState.LOST))
            message = f"placed on {placement.hostname}, while its volume is on {task.desired_host}"
            active.actions.not_started(change, run.instance, message, INVALID)
        elif _is_too_many(change, run.instance, task):
            settled.append((run, TaskState.LOST))
            message = f"maximumRunningInstances of {change.spec.sla.maximum_running_instances} are scheduled"
            active.actions.not_started(change, run.instance, message, INVALID)
        elif change.spec.has_peers and (waits := _waits_for_peer(change, run.instance)):
            settled.append((run, TaskState.LOST))
            active.actions.not_started(change, run.instance, waits, PEER_HAS_NO_HOST)
        elif _is_taken_back(change, run.instance):
            continue
        elif run.job_id != starting and change.spec.is_extra(run.instance) and is_bound(change, run.instance):
            settled.append((run, TaskState.LOST))
            elastic.has_room(active, change, run.instance)
        else:
            _note_launch(active, change, run, task, placement, share)
            going.append(run)
    host = (placement.hostname, placement.agent_id, placement.offer_id)
    cycle.instructions.append(Launch(*host, tuple(going)) if going else Release(*host))
    _settle(cycle, settled)


def _waits_for_peer(change: Change, instance: int) -> str:
    """Return why an instance, which is placed, is to wait for the one whose address it needs."""
    spec = change.spec_of(instance)
    peer = spec.task(instance).workload.peer
    if peer is None or peer == instance or spec.in_gang(instance) or is_reached(change.task(peer)):
        return ""
    return waits_for(peer, change.task(peer))


def _is_taken_back(change: Change, instance: int) -> bool:
    """Return whether a run is being withdrawn, or will be once it is enqueued."""
    in_flight = change.in_flight
    return in_flight.pending.get(instance) is PendingOp.WITHDRAW or instance in in_flight.survivors


def _is_too_many(change: Change, instance: int, task: TaskRuntime) -> bool:
    """Return whether an earlier leader enqueued the run, while this one has scheduled others instead."""
    counted = (
        task.state is not TaskState.INITIALIZED or change.in_flight.pending.get(instance) is PendingOp.ENQUEUE
    )
    return not counted and free_slots(change) <= 0


def _note_launch(
    active: ActiveJobs,
    change: Change,
    run: Run,
    task: TaskRuntime,
    placement: Placement,
    ports: tuple[int, ...],
) -> None:
    """Note the host of a run, to be stored before the launch."""
    change.in_flight.begin(run.instance, PendingOp.LAUNCH)
    give_up(change, run.instance)
    home = home_for_launch(change, run, task, placement.hostname)
    change.move(
        run.instance,
        Cause.PLACED,
        host=placement.hostname,
        agent_id=placement.agent_id,
        ports=_named(change.task_spec(run.instance).ports, ports),
        volume_id=home.volume_id,
        desired_host=home.host or task.desired_host,
        message="",
        reason="",
    )
    active.actions.set_deadline(change, run.instance, active.actions.limits.news_after)


def _known_state(task: TaskRuntime, run: Run) -> TaskState:
    """Return the state to report to resmgr of a run that does not wait for a placement."""
    if task.run == run.run and task.state in ON_HOST_TASK_STATES:
        return TaskState.LAUNCHED
    return task.state if task.run == run.run and task.state.terminal else TaskState.KILLED


def _shares(active: ActiveJobs, cycle: Cycle, placement: Placement) -> list[tuple[int, ...] | None]:
    """Return each run's ports out of the flat list; None where they cannot be told apart."""
    return shares(placement.ports, [_need(active.change(cycle, run.job_id), run) for run in placement.runs])


def _need(change: Change | None, run: Run) -> int | None:
    """Return how many dynamic ports a run has; None where that is unknown."""
    if change is None:
        return None
    return ports_needed(run, change.task(run.instance), change.specs)


def _named(specs: tuple[PortSpec, ...], ports: tuple[int, ...]) -> dict[str, int]:
    """Return all ports of a run by name: the fixed ones, and its share of dynamic ones."""
    if not specs:
        return NO_PORTS
    dynamic = iter(ports)
    return {spec.name: spec.value or next(dynamic) for spec in specs}


def _faulty(run: Run, message: str) -> TaskStatus:
    return TaskStatus("", TaskState.FAILED, 0, message=message, reason=FAULTY)


def _settle(cycle: Cycle, runs: list[tuple[Run, TaskState]]) -> None:
    if runs:
        cycle.instructions.append(Settle(tuple(runs)))
