"""How the scheduler is brought to what is stored: at the start of a term, and after missed events.

The store knows the current run of each instance only (docs/behaviour/recovery.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.needs import NewTask
from resmgr.core.state.pool import Pool
from resmgr.core.state.task_states import ON_HOST

WAITING = frozenset(
    {
        TaskState.PENDING,
        TaskState.READY,
        TaskState.PLACING,
        TaskState.PLACED,
        TaskState.LAUNCHING,
        TaskState.RESERVED,
    }
)
"""Stored states that are enqueued again; INITIALIZED ones are jobmgr's to enqueue."""


def is_unknown_on_host(scheduler: Scheduler, job_id: JobId, instance: int, run: int) -> bool:
    """Return whether a run that is on a host, by the store, is not known here at all."""
    known = scheduler.registry.current(job_id, instance)
    return known is None or known.run < run


def take_in(scheduler: Scheduler, pool: Pool, new: NewTask, state: TaskState, host: str, now: float) -> bool:
    """Take in a run that is on a host; return whether it was not known as such."""
    if is_unknown_on_host(scheduler, new.job_id, new.instance, new.run):
        scheduler.restore(pool, new, state, host, now)
        return True
    return observe_on_host(scheduler, Run(new.job_id, new.instance, new.run), state, now)


def observe_on_host(scheduler: Scheduler, run: Run, state: TaskState, now: float) -> bool:
    """Apply the stored state of a run on a host that is known here; return whether it was not as such."""
    known = scheduler.registry.current(run.job_id, run.instance)
    if known is None or known.run != run.run or known.state in ON_HOST:
        return False
    return scheduler.observe(known.key, state, now)


def forget_ended(scheduler: Scheduler, job_id: JobId, runtimes: Mapping[int, TaskRuntime], now: float) -> int:
    """Forget the runs that have ended by what is stored of their instances; return how many."""
    count = 0
    for instance, runtime in runtimes.items():
        known = scheduler.registry.current(job_id, instance)
        if known is None:
            continue
        ended = known.run == runtime.run and runtime.state.terminal
        if ended or (known.run < runtime.run and known.state in ON_HOST):
            scheduler.observe(known.key, TaskState.LOST, now)
            count += 1
    return count


def held(scheduler: Scheduler) -> list[Run]:
    """Return the runs known to be on hosts, orphans included."""
    registry = scheduler.registry
    return [*(task.key for task in registry if task.state in ON_HOST), *registry.orphans]


def forget_absent(
    scheduler: Scheduler, before: Iterable[Run], stored: Mapping[JobId, Collection[int]], now: float
) -> int:
    """Forget runs held before the store was read that it does not list; return how many.

    Forget orphans too: their ends may be among the missed events.
    """
    count = 0
    for run in before:
        if run in scheduler.registry.orphans or run.instance not in stored.get(run.job_id, ()):
            count += scheduler.observe(run, TaskState.LOST, now)
    return count
