"""All tasks: by job and instance, by host, and the orphans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from peloton.model.cluster import cluster_of
from peloton.model.constraint import Label
from peloton.model.host_class import HostClass
from peloton.model.ids import JobId, Run
from peloton.model.resources import Resources
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from resmgr.core.state.amounts import total
from resmgr.core.state.classes import ClassCapacity, Classes, added
from resmgr.core.state.entities import JobTasks, Task

_RUNNING, _PREEMPTING = TaskState.RUNNING, TaskState.PREEMPTING


class Registry:
    """The current run of each instance, and older runs that still hold resources (orphans)."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, JobTasks] = {}
        self.orphans: dict[Run, Task] = {}
        self.saved: dict[Task, float] = {}
        """When tasks have saved their work, of those that do, in seconds on the monotonic clock."""
        self._hosts: dict[str, dict[Task, None]] = {}
        self._count = 0
        self.states = [0] * len(TaskState)
        """Number of current tasks by state."""
        self.started = 0
        """Runs that began to run."""
        self.ended = 0
        """Runs that ended after they were on a host."""

    def __len__(self) -> int:
        """Return the number of current tasks, without orphans."""
        return self._count

    def __iter__(self) -> Iterator[Task]:
        for job in self.jobs.values():
            yield from job.tasks.values()

    def iterate_in_steps(self) -> Iterator[Task]:
        """Iterate while tasks come and go between two steps.

        Tasks added meanwhile may be left out, tasks removed meanwhile may be included.
        """
        for job in list(self.jobs.values()):
            yield from list(job.tasks.values())

    def job(self, job_id: JobId) -> JobTasks:
        """Return the job's record, a new one for an unknown job."""
        job = self.jobs.get(job_id)
        if job is None:
            job = self.jobs[job_id] = JobTasks(job_id)
        return job

    def current(self, job_id: JobId, instance: int) -> Task | None:
        """Return the instance's newest run."""
        job = self.jobs.get(job_id)
        return None if job is None else job.tasks.get(instance)

    def find(self, run: Run) -> Task | None:
        """Return exactly that run, current or orphan."""
        job = self.jobs.get(run.job_id)
        if job is not None and (task := job.tasks.get(run.instance)) is not None and task.run == run.run:
            return task
        return self.orphans.get(run) if self.orphans else None

    def add(self, task: Task) -> None:
        """Add a current task. The instance has no other: an older run is an orphan, or has been removed."""
        assert task.instance not in task.job.tasks, f"{task} beside {task.job.tasks[task.instance]}"
        task.job.tasks[task.instance] = task
        task.pool.tasks += 1
        self.states[task.state] += 1
        self._count += 1

    def add_all(self, tasks: Sequence[Task]) -> None:
        """Add current tasks of one job, one pool and one state."""
        first = tasks[0]
        first.job.tasks.update((task.instance, task) for task in tasks)
        first.pool.tasks += len(tasks)
        self.states[first.state] += len(tasks)
        self._count += len(tasks)

    def moved(self, task: Task, before: TaskState) -> None:
        """Count a task's step from another state."""
        after = task.state
        if after is _RUNNING and before is not _RUNNING:
            self.started += before is not _PREEMPTING
        if not self.orphans or not task.orphan:
            states = self.states
            states[before] -= 1
            states[after] += 1

    def orphan(self, task: Task) -> None:
        """Make a task an orphan: a newer run replaces it, but it stays until it ends."""
        assert not task.orphan, f"{task} is an orphan already"
        del task.job.tasks[task.instance]
        self._count -= 1
        self.states[task.state] -= 1
        self.orphans[task.key] = task

    def reinstate(self, task: Task) -> None:
        """Make an orphan its instance's current run again: the one that replaced it is gone."""
        task.job = job = self.job(task.job.id)
        assert task.instance not in job.tasks, f"{task} beside {job.tasks[task.instance]}"
        job.tasks[task.instance] = task
        self._count += 1
        self.states[task.state] += 1
        del self.orphans[task.key]

    def remove(self, task: Task) -> None:
        """Forget a run."""
        self.ended += task.state in ON_HOST_TASK_STATES
        self.leave_host(task)
        self.saved.pop(task, None)
        task.pool.tasks -= 1
        if self.orphans and task.orphan:
            del self.orphans[task.key]
            return
        del task.job.tasks[task.instance]
        self._count -= 1
        self.states[task.state] -= 1
        if not task.job.tasks:
            self.jobs.pop(task.job.id, None)

    def put_on_host(self, task: Task, host: str) -> None:
        """Move a task to a host; empty: to none."""
        self.leave_host(task)
        if not host:
            return
        there = self._hosts.get(host)
        if there is None:
            self._hosts[host], task.host = {task: None}, host
        else:
            # The text that the others have: each message brings another one, of which a million take 60 MB.
            task.host = next(iter(there)).host
            there[task] = None

    def leave_host(self, task: Task) -> None:
        """Remove a task from its host, where it has one."""
        if not task.host:
            return
        tasks = self._hosts[task.host]
        del tasks[task]
        if not tasks:
            del self._hosts[task.host]
        task.host = ""

    def labels_on_host(self, host: str) -> Counter[Label]:
        """Count the labels of the tasks placed or running on a host."""
        return Counter(label for task in self.on_host(host) for label in task.needs.labels)

    def clusters(self) -> set[str]:
        """Return the Mesos clusters on whose hosts there are tasks."""
        return {cluster_of(host) for host in self._hosts}

    def held_in(self, cluster: str) -> tuple[Resources, Resources]:
        """Return what tasks hold on the hosts of a Mesos cluster: resources, and slack."""
        charges = [
            task.needs.charge
            for host, tasks in self._hosts.items()
            if cluster_of(host) == cluster
            for task in tasks
        ]
        slack_cpu = sum(charge.slack[0] for charge in charges if charge.slack is not None)
        return Resources(*total(charge.entitled for charge in charges)), Resources(cpu=slack_cpu)

    def held_by_class(self, cluster: str, classes: Classes) -> dict[HostClass, ClassCapacity]:
        """Return the same as `held_in` by class of hosts."""
        found: dict[HostClass, ClassCapacity] = {}
        for host, tasks in self._hosts.items():
            if cluster_of(host) == cluster:
                for task in tasks:
                    charge = task.needs.charge
                    slack = charge.slack[0] if charge.slack is not None else 0
                    of = {classes.of(charge.asked): ClassCapacity(Resources(*charge.entitled), slack)}
                    found = added(found, of)
        return found

    def on_host(self, host: str) -> Iterable[Task]:
        """Return the tasks placed or running on a host, in the order of their arrival."""
        return self._hosts.get(host, {})
