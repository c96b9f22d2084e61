"""Which tasks there are: by job and instance, by host, and the orphans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from peloton.model.ids import JobId, Run
from resmgr.core.tasks import JobTasks, Task


class Registry:
    """The current run of each instance, and older runs that still hold resources (orphans)."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, JobTasks] = {}
        self.orphans: dict[Run, Task] = {}
        self._hosts: dict[str, dict[Task, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Current tasks, without orphans."""
        return self._count

    def __iter__(self) -> Iterator[Task]:
        for job in self.jobs.values():
            yield from job.tasks.values()

    def in_turns(self) -> Iterator[Task]:
        """As by iteration, but tasks may come and go between two steps: those that come meanwhile may be left
        out, those that go may be told of."""
        for job in list(self.jobs.values()):
            yield from list(job.tasks.values())

    def job(self, job_id: JobId) -> JobTasks:
        """The job's record, made where it is new."""
        job = self.jobs.get(job_id)
        if job is None:
            job = self.jobs[job_id] = JobTasks(job_id)
        return job

    def current(self, job_id: JobId, instance: int) -> Task | None:
        """The instance's newest run."""
        job = self.jobs.get(job_id)
        return None if job is None else job.tasks.get(instance)

    def find(self, run: Run) -> Task | None:
        """That very run, current or orphan."""
        task = self.current(run.job_id, run.instance)
        if task is not None and task.run == run.run:
            return task
        return self.orphans.get(run) if self.orphans else None

    def add(self, task: Task) -> None:
        task.job.tasks[task.instance] = task
        task.pool.tasks += 1
        self._count += 1

    def orphan(self, task: Task) -> None:
        """A newer run takes its place; it stays until it ends."""
        del task.job.tasks[task.instance]
        self._count -= 1
        task.orphan = True
        self.orphans[task.key] = task

    def remove(self, task: Task) -> None:
        """Forget a run."""
        self.leave_host(task)
        task.pool.tasks -= 1
        if task.orphan:
            del self.orphans[task.key]
            return
        del task.job.tasks[task.instance]
        self._count -= 1
        if not task.job.tasks:
            self.jobs.pop(task.job.id, None)

    def put_on_host(self, task: Task, host: str) -> None:
        self.leave_host(task)
        if host:
            task.host = host
            self._hosts.setdefault(host, {})[task] = None

    def leave_host(self, task: Task) -> None:
        if not task.host:
            return
        there = self._hosts[task.host]
        del there[task]
        if not there:
            del self._hosts[task.host]
        task.host = ""

    def on_host(self, host: str) -> Iterable[Task]:
        """Tasks placed or running there, in the order in which they came."""
        return self._hosts.get(host, {})
