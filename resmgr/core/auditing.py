"""The comparison of the tasks in memory with the stored ones: which differ, and which differ again.

This daemon and jobmgr learn of a run at different moments. So a difference counts only when two audits in a
row have found it (docs/behaviour/recovery.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from peloton.model.ids import JobId, Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime
from resmgr.core.restoring import WAITING
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Task
from resmgr.core.state.task_states import ON_HOST


class Missing(NamedTuple):
    """Stored tasks of a job, by instance, that are not held as they should be."""

    queue: dict[int, TaskRuntime]
    """To be enqueued."""
    take_in: dict[int, TaskRuntime]
    """To be taken in: they are on hosts."""


class Audit:
    """Compares, and forgets what is over."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._before: set[Run] = set()
        """Runs that differed in the last audit."""
        self._differ: set[Run] = set()
        self._began = 0.0
        self.repaired: Counter[str] = Counter()
        """Number of tasks by what was done with them."""

    def begin(self, now: float) -> None:
        """Begin an audit, before the store is read."""
        self._began, self._differ = now, set()

    def end(self) -> None:
        """End an audit: the next one compares with it."""
        self._before = self._differ

    def compare(self, job_id: JobId, runtimes: Mapping[int, TaskRuntime], now: float) -> Missing:
        """Compare stored tasks with those held; forget what is over, and return what is missing."""
        missing = Missing({}, {})
        for instance, runtime in runtimes.items():
            known = self._scheduler.registry.current(job_id, instance)
            if known is not None and _is_over(known, runtime):
                self._forget(known.key, now)
            if _is_missing(known, runtime) and self._again(Run(job_id, instance, runtime.run)):
                where = missing.queue if runtime.state in WAITING else missing.take_in
                where[instance] = runtime
        return missing

    def check_absent(self, job_id: JobId, instances: Collection[int], now: float) -> None:
        """Forget a job's tasks that were held before the audit began and are not stored."""
        job = self._scheduler.registry.jobs.get(job_id)
        tasks = job.tasks.values() if job is not None else ()
        absent = [t.key for t in tasks if t.instance not in instances and t.since < self._began]
        for run in absent:
            self._forget(run, now)

    def check_absent_jobs(self, seen: Collection[JobId], now: float) -> None:
        """Do the same with all jobs that are held and were not seen in the store, and with orphans.

        The end of an orphan may be among events that were missed before it became one. One that lives is
        killed by jobmgr when Mesos reports it, known here or not.
        """
        registry = self._scheduler.registry
        for absent in [job_id for job_id in registry.jobs if job_id not in seen]:
            self.check_absent(absent, (), now)
        for orphan in list(registry.orphans):
            self._forget(orphan, now)

    def note(self, done: str, tasks: int = 1) -> None:
        """Count repaired tasks."""
        self.repaired[done] += tasks

    def _forget(self, run: Run, now: float) -> None:
        if self._again(run):
            self._scheduler.observe(run, TaskState.LOST, now)
            self.note("forgotten")

    def _again(self, run: Run) -> bool:
        """Note that a run differs; return whether it did in the last audit."""
        self._differ.add(run)
        return run in self._before


def _is_over(known: Task, runtime: TaskRuntime) -> bool:
    if known.run == runtime.run:
        return runtime.state.terminal
    return known.run < runtime.run and known.state in ON_HOST


def _is_missing(known: Task | None, runtime: TaskRuntime) -> bool:
    """Return whether it is stored as on a host or as waiting, and held in an earlier state or not at all."""
    on_host = runtime.state in ON_HOST_TASK_STATES
    if known is None or known.run < runtime.run:
        return on_host or runtime.state in WAITING
    return on_host and known.run == runtime.run and known.state not in ON_HOST
