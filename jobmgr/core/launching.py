"""From a placement to a launch, and what becomes of runs of which nothing is heard."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.dispatch import room
from jobmgr.core.state.cache import UNBORN
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Turn
from jobmgr.core.state.events import Launched, LaunchRefused, LaunchUncertain, Placed, Placement
from jobmgr.core.state.in_flight import Busy
from jobmgr.core.state.instructions import Launch, Release, Settle, ShutDown
from jobmgr.core.state.ports import ports_needed, shares
from jobmgr.core.state.task_states import Cause
from jobmgr.core.task.actions import NO_PORTS
from jobmgr.core.task.goal import Aim, aim_of
from jobmgr.core.task.retry import delay
from peloton.model.ids import Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState, TerminationReason
from peloton.model.task import PortSpec, TaskRuntime, TaskStatus

FAULTY = "CONTAINER_LAUNCH_FAILED"
"""The reason of a run whose launch is refused for what it asks."""
INVALID = "INVALID_OFFERS"
"""The reason of a run whose placement was of no use."""
_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


def placed(active: ActiveJobs, turn: Turn, event: Placed) -> None:
    for placement in event.placements:
        _place(active, turn, placement)


def launched(active: ActiveJobs, turn: Turn, event: Launched) -> None:
    settled = []
    for run in event.runs:
        change = _current(active, turn, run)
        if change is None:
            continue
        change.work.free(run.instance, Busy.LAUNCH)
        if change.task(run.instance).state in ON_HOST_TASK_STATES:
            settled.append((run, TaskState.LAUNCHED))
            if aim_of(change.goal, change.task(run.instance)) is not Aim.RUN:
                active.steering.evaluate(change, run.instance)
    _settle(turn, settled)


def refused(active: ActiveJobs, turn: Turn, event: LaunchRefused) -> None:
    settled = []
    for run in event.runs:
        settled.append((run, TaskState.FAILED if event.faulty else TaskState.LOST))
        change = _current(active, turn, run)
        if change is None:
            continue
        change.work.free(run.instance, Busy.LAUNCH)
        if change.task(run.instance).state is not TaskState.LAUNCHED:
            active.steering.evaluate(change, run.instance)
        elif event.faulty:
            active.steering.end(change, run.instance, _faulty(run, event.message))
        else:
            active.steering.not_started(change, run.instance, event.message, INVALID)
    _settle(turn, settled)


def uncertain(active: ActiveJobs, turn: Turn, event: LaunchUncertain) -> None:
    for run in event.runs:
        change = _current(active, turn, run)
        if change is None:
            continue
        change.work.free(run.instance, Busy.LAUNCH)
        task = change.task(run.instance)
        if task.state is TaskState.LAUNCHED:
            change.work.unconfirmed.add(run.instance)
        elif aim_of(change.goal, task) is Aim.RUN:
            continue
        active.steering.evaluate(change, run.instance)


def due(active: ActiveJobs, turn: Turn, change: Change, instance: int) -> None:
    """A task's deadline has come: what it was for follows from its state."""
    steering, task = active.steering, change.task(instance)
    change.work.free(instance, Busy.PAUSE)
    if task.state in (TaskState.LAUNCHED, TaskState.STARTING):
        if steering.age(task) >= steering.limits.stuck_after:
            steering.start_over(change, instance, task)
        else:
            _ask(active, turn, change, instance, task)
    elif task.state is TaskState.RUNNING:
        _running_due(active, turn, change, instance, task)
    elif task.state is TaskState.KILLING and steering.age(task) >= steering.limits.stuck_after:
        run = Run(change.job_id, instance, task.run)
        turn.instructions.append(ShutDown(((run, task.agent_id),)))
        steering.arm(change, instance, steering.limits.kill_again_most)
    else:
        steering.evaluate(change, instance)


def _running_due(active: ActiveJobs, turn: Turn, change: Change, instance: int, task: TaskRuntime) -> None:
    steering = active.steering
    left = steering.time_left(change, instance)
    if left is not None and left <= 0:
        longest = change.spec_of(instance).sla.max_running_time
        past = f"ran longer than its maxRunningTime of {longest} s"
        steering.kill_for(change, instance, TerminationReason.DEADLINE_TIMEOUT_EXCEEDED, past)
    elif instance in change.work.unconfirmed:
        _ask(active, turn, change, instance, task)
    else:
        steering.evaluate(change, instance)


def _ask(active: ActiveJobs, turn: Turn, change: Change, instance: int, task: TaskRuntime) -> None:
    """Ask Mesos about the run, and again after a growing pause, until a status tells."""
    steering, limits = active.steering, active.steering.limits
    turn.reconcile.append((Run(change.job_id, instance, task.run), task.agent_id))
    pause = delay(change.work.failed(instance), limits.kill_again_after, limits.news_after)
    left = steering.time_left(change, instance) if task.state is TaskState.RUNNING else None
    steering.arm(change, instance, pause if left is None else min(pause, left))


def _current(active: ActiveJobs, turn: Turn, run: Run) -> Change | None:
    """The job's change where the run is still its instance's current one."""
    change = active.change(turn, run.job_id)
    return change if change is not None and change.task(run.instance).run == run.run else None


def _place(active: ActiveJobs, turn: Turn, placement: Placement) -> None:
    ports = _shares(active, turn, placement)
    going: list[Run] = []
    settled: list[tuple[Run, TaskState]] = []
    for run, share in zip(placement.runs, ports, strict=True):
        change = active.change(turn, run.job_id)
        task = UNBORN if change is None else change.task(run.instance)
        if change is None or task.run != run.run or task.state not in _WAITS:
            settled.append((run, _known_state(task, run)))
        elif share is None:
            settled.append((run, TaskState.LOST))
            message = f"placed on {placement.hostname} without the ports that it needs"
            active.steering.not_started(change, run.instance, message, INVALID)
        elif _is_too_many(change, run.instance, task):
            settled.append((run, TaskState.LOST))
            message = f"maximumRunningInstances of {change.spec.sla.maximum_running_instances} are scheduled"
            active.steering.not_started(change, run.instance, message, INVALID)
        elif change.work.busy.get(run.instance) is not Busy.WITHDRAW:
            _intend(active, change, run, task, placement, share)
            going.append(run)
    host = (placement.hostname, placement.agent_id, placement.offer_id)
    turn.instructions.append(Launch(*host, tuple(going)) if going else Release(*host))
    _settle(turn, settled)


def _is_too_many(change: Change, instance: int, task: TaskRuntime) -> bool:
    """An earlier leader enqueued it, and fell before it had stored that: this one has scheduled others."""
    counted = task.state is not TaskState.INITIALIZED or change.work.busy.get(instance) is Busy.ENQUEUE
    return not counted and room(change) <= 0


def _intend(
    active: ActiveJobs,
    change: Change,
    run: Run,
    task: TaskRuntime,
    placement: Placement,
    ports: tuple[int, ...],
) -> None:
    """Note where the run goes, before it goes there."""
    change.work.occupy(run.instance, Busy.LAUNCH)
    change.move(
        run.instance,
        Cause.PLACED,
        host=placement.hostname,
        agent_id=placement.agent_id,
        ports=_named(change.task_spec(run.instance).ports, ports),
        message="",
        reason="",
    )
    active.steering.arm(change, run.instance, active.steering.limits.news_after)


def _known_state(task: TaskRuntime, run: Run) -> TaskState:
    """What resmgr is told of a run that it hands over and that waits no more."""
    if task.run == run.run and task.state in ON_HOST_TASK_STATES:
        return TaskState.LAUNCHED
    return task.state if task.run == run.run and task.state.terminal else TaskState.KILLED


def _shares(active: ActiveJobs, turn: Turn, placement: Placement) -> list[tuple[int, ...] | None]:
    """Return each run's ports out of the flat list; None where they cannot be told apart."""
    return shares(placement.ports, [_need(active.change(turn, run.job_id), run) for run in placement.runs])


def _need(change: Change | None, run: Run) -> int | None:
    """Return how many dynamic ports a run has; None where that is unknown."""
    if change is None:
        return None
    return ports_needed(run, change.task(run.instance), change.specs)


def _named(specs: tuple[PortSpec, ...], ports: tuple[int, ...]) -> dict[str, int]:
    """All ports of a run by name: the fixed ones, and the dynamic ones that it got."""
    if not specs:
        return NO_PORTS
    dynamic = iter(ports)
    return {spec.name: spec.value or next(dynamic) for spec in specs}


def _faulty(run: Run, message: str) -> TaskStatus:
    return TaskStatus("", TaskState.FAILED, 0, message=message, reason=FAULTY)


def _settle(turn: Turn, runs: list[tuple[Run, TaskState]]) -> None:
    if runs:
        turn.instructions.append(Settle(tuple(runs)))
