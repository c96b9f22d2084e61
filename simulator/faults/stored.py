"""What must hold between store and cluster: intents come first, ends are kept, no write is undone."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from peloton.model.ids import JobId, parse_mesos_task_id
from peloton.model.job import JobRuntime
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime
from simulator.faults.violation import Violation
from simulator.world.agents import SimRun
from simulator.world.store import Store, StoredJob

_ORDER = {
    TaskState.LAUNCHED: 1,
    TaskState.STARTING: 2,
    TaskState.RUNNING: 3,
    TaskState.PREEMPTING: 4,
    TaskState.KILLING: 4,
}
"""How far a run is, as it is stored; ends are beyond, what waits is before."""
_END = 5


def check_write(job_id: JobId, job: StoredJob, change: Change) -> None:
    """Check that a change builds on what is stored: a former leader must not undo what another one wrote.

    A write whose outcome was unknown is repeated as it was.
    """
    if change.runtime is not None:
        _check_revision(f"job {job_id}", job.runtime, change.runtime)
    for instance, task in change.tasks.items():
        held = job.tasks.get(instance)
        if held is not None:
            _check_revision(f"{job_id}-{instance}", held, task)


def _check_revision(name: str, held: JobRuntime | TaskRuntime, written: JobRuntime | TaskRuntime) -> None:
    if written.revision > held.revision or written == held:
        return
    raise Violation(
        f"{name} is stored as {held.state.name}, revision {held.revision}, and is overwritten with "
        f"{written.state.name}, revision {written.revision}"
    )


def check_intent(store: Store, run: SimRun) -> None:
    """Check that a run which is launched is stored as on a host: the next leader has to know of it."""
    job_id, instance, number = parse_mesos_task_id(run.id)
    job = store.jobs.get(job_id)
    task = job.tasks.get(instance) if job is not None else None
    if task is None or task.run < number:
        raise Violation(f"{run.id} is launched, and no such run is stored")
    waits = task.state not in ON_HOST_TASK_STATES and not task.state.terminal
    if task.run == number and waits:
        raise Violation(f"{run.id} is launched while it is stored as {task.state.name}")


def check_acknowledged(store: Store, run: SimRun, state: TaskState) -> None:
    """Check that a status is stored that is acknowledged: the cluster does not repeat it."""
    job_id, instance, number = parse_mesos_task_id(run.id)
    job = store.jobs.get(job_id)
    if job is None:
        return
    task = job.tasks.get(instance)
    if task is None or task.run < number:
        raise Violation(f"{state.name} of {run.id} is acknowledged, and no such run is stored")
    if task.run == number and _progress(task.state) < _progress(state):
        raise Violation(f"{state.name} of {run.id} is acknowledged while {task.state.name} is stored")


def _progress(state: TaskState) -> int:
    return _END if state.terminal else _ORDER.get(state, 0)
