"""How the scheduler is brought to what is stored: at the start of a term, and after missed events.

The store knows the current run of each instance only (docs/behaviour/recovery.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.needs import NewTask
from resmgr.core.state.pool import Pool
from resmgr.core.state.task_states import ON_HOST

NANOSECONDS = 1_000_000_000
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


class Moment(NamedTuple):
    """The time by both clocks."""

    now: float
    """Seconds on the monotonic clock."""
    wall: int
    """Nanoseconds since 1970, as stored times are."""

    def of(self, stored: int) -> float:
        """Return a stored time on the monotonic clock, at the latest now: clocks of hosts may be ahead."""
        return self.now - max(self.wall - stored, 0) / NANOSECONDS


def is_unknown_on_host(scheduler: Scheduler, job_id: JobId, instance: int, run: int) -> bool:
    """Return whether a run that is on a host, by the store, is not known here at all."""
    known = scheduler.registry.current(job_id, instance)
    return known is None or known.run < run


def take_in(scheduler: Scheduler, pool: Pool, new: NewTask, stored: TaskRuntime, moment: Moment) -> bool:
    """Take in a run that is on a host; return whether it was not known as such.

    Since when it runs and when it has saved its work decides which task goes first (docs/behaviour/pools.md).
    """
    run = Run(new.job_id, new.instance, new.run)
    if not is_unknown_on_host(scheduler, *run):
        return observe_on_host(scheduler, run, stored, moment)
    running = stored.state is TaskState.RUNNING and stored.start_time
    began = moment.of(stored.start_time) if running else moment.now
    scheduler.restore(pool, new, stored.state, stored.host, moment.now, began)
    _note_saved(scheduler, run, stored, moment)
    return True


def observe_on_host(scheduler: Scheduler, run: Run, stored: TaskRuntime, moment: Moment) -> bool:
    """Apply what is stored of a run on a host that is known here; return whether it was not as such."""
    known = scheduler.registry.current(run.job_id, run.instance)
    if known is None or known.run != run.run:
        return False
    _note_saved(scheduler, run, stored, moment)
    if known.state in ON_HOST:
        return False
    return scheduler.observe(known.key, stored.state, moment.now)


def _note_saved(scheduler: Scheduler, run: Run, stored: TaskRuntime, moment: Moment) -> None:
    if stored.saved_at:
        scheduler.note_saved(run, moment.of(stored.saved_at))


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
