"""New runs: gangs that are queued, runs that are on a host already, and the runs that they replace."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.errors import Refused
from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.admission.checks import beyond_limit
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.needs import NewAlone, NewTask
from resmgr.core.state.pool import Pool
from resmgr.core.state.task_states import BEFORE_LAUNCH

_S = TaskState
_PENDING = TaskState.PENDING


class Enqueueing:
    """Create tasks and gangs."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._registry = lifecycle.registry

    def enqueue(self, pool: Pool, gang: Sequence[NewTask], now: float) -> list[Task]:
        """Queue a gang at a leaf and return the tasks that were queued.

        A known run, or one older than the known run, changes nothing; a newer run replaces the known one.
        What is on a host already is not queued, but counted there. Raises Refused where the members are of
        different task types, or are together more than a limit allows, having changed nothing.
        """
        if len(gang) == 1:
            return self._enqueue_one(pool, gang[0], now)
        current = self._registry.current
        unknown = [
            new for new in gang if (known := current(new.job_id, new.instance)) is None or known.run < new.run
        ]
        if any(new.host for new in unknown):
            unknown = self._waiting(pool, unknown, now)
        if not unknown:
            return []
        if len(unknown) > 1:
            unknown = list({(new.job_id, new.instance): new for new in unknown}.values())
        if len(unknown) > 1 and len({new.needs.type for new in unknown}) > 1:
            raise Refused("a gang's tasks must all be of one task type")
        too_large = beyond_limit(pool, [new.needs.charge for new in unknown])
        if too_large:
            raise Refused(too_large)
        tasks = [self._create(pool, new, _PENDING, now) for new in unknown]
        if len(unknown) > 1 and unknown[0].gang_size <= 1:
            first = min(new.instance for new in unknown)
            for task in tasks:
                task.job.gangs[task.instance] = first
        self._lifecycle.queue(Gang(pool, tuple(tasks)))
        return tasks

    def _enqueue_one(self, pool: Pool, new: NewTask, now: float) -> list[Task]:
        """Queue a gang of one; faster than `enqueue`, since most gangs have one task."""
        known = self._registry.current(new.job_id, new.instance)
        if known is not None and known.run >= new.run:
            return []
        if new.host:
            self.restore(pool, new, _S.LAUNCHED, new.host, now)
            return []
        too_large = beyond_limit(pool, (new.needs.charge,))
        if too_large:
            raise Refused(too_large)
        task = self._create(pool, new, _PENDING, now)
        self._lifecycle.queue(Gang(pool, (task,)))
        return [task]

    def enqueue_alone(self, pool: Pool, new: NewAlone, now: float) -> None:
        """Queue many gangs of one, as `enqueue` does each of them, in less time.

        Raises Refused where a run is more than a limit allows, having changed nothing.
        """
        too_large = beyond_limit(pool, (new.needs.charge,))
        if too_large:
            raise Refused(too_large)
        job = self._registry.job(new.job_id)
        if job.gangs or not job.tasks.keys().isdisjoint(instance for instance, _, _ in new.runs):
            for each in new.each():
                self._enqueue_one(pool, each, now)
            return
        tasks = [
            Task(job, instance, run, new.needs, pool, _PENDING, now, desired_host)
            for instance, run, desired_host in new.runs
        ]
        self._registry.add_all(tasks)
        self._lifecycle.queue_all([Gang(pool, (task,)) for task in tasks])

    def _waiting(self, pool: Pool, gang: Sequence[NewTask], now: float) -> list[NewTask]:
        """Count the runs that are on hosts, and return the others."""
        for new in gang:
            if new.host:
                self.restore(pool, new, _S.LAUNCHED, new.host, now)
        return [new for new in gang if not new.host]

    def _newer(self, new: NewTask) -> bool:
        """Return whether the run is newer than the known one of its instance."""
        known = self._registry.current(new.job_id, new.instance)
        return known is None or known.run < new.run

    def restore(
        self, pool: Pool, new: NewTask, state: TaskState, host: str, now: float, since: float | None = None
    ) -> None:
        """Take in a run that is on a host already, in its state `since` then, with its allocation."""
        if not self._newer(new):
            return
        orphan = self._registry.orphans.get(Run(new.job_id, new.instance, new.run))
        if orphan is not None:  # the run that replaced it was taken back: it is the current one again
            self._lifecycle.forget(orphan)
        task = self._create(pool, new, state, now)
        task.enqueued = 0.0
        task.since = now if since is None else since
        pool.charge(task.needs.charge)
        self._registry.put_on_host(task, host)
        if state is _S.PREEMPTING:
            lifecycle = self._lifecycle
            lifecycle.deadlines.set(task, now + lifecycle.limits.preempting)

    def _create(self, pool: Pool, new: NewTask, state: TaskState, now: float) -> Task:
        job = self._registry.job(new.job_id)
        known = job.tasks.get(new.instance)
        if known is not None:
            self._supersede(known, now)
            job = self._registry.job(new.job_id)
        if new.instance < new.gang_size > 1:
            job.gangs[new.instance] = 0
        elif job.gangs:
            job.gangs.pop(new.instance, None)
        task = Task(job, new.instance, new.run, new.needs, pool, state, now, new.desired_host)
        self._registry.add(task)
        return task

    def _supersede(self, old: Task, now: float) -> None:
        """Make room for a newer run.

        A run that may be on a host stays as an orphan until it ends. A run that jobmgr received and may yet
        launch stays as long as a launch may take.
        """
        lifecycle = self._lifecycle
        if old.state in BEFORE_LAUNCH and old.state is not _S.LAUNCHING:
            lifecycle.forget(old)
            return
        lifecycle.leave_gang(old)
        lifecycle.reasons.set(old, "")
        lifecycle.deadlines.cancel(old)
        if old.state is _S.LAUNCHING:
            lifecycle.deadlines.set(old, now + lifecycle.limits.launching)
        self._registry.orphan(old)
