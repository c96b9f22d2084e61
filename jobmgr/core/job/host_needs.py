"""Instances that could run nowhere else while hosts are in maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.model.host_pool import implicit_pool
from peloton.model.ids import JobId
from peloton.model.job import JobSpec, instance_count
from peloton.model.plural import plural
from peloton.model.states import JobType, TaskType
from peloton.model.task import TaskSpec


@dataclass(frozen=True, slots=True)
class Concern:
    """Instances of a job that would wait until the maintenance of some hosts is over."""

    job_id: JobId
    job_name: str
    instances: int
    of: int
    """Number of instances that the job has."""
    hosts: tuple[str, ...]
    """The hosts that they could run on."""
    volumes: bool = False
    """Whether the instances are bound to the hosts by their volumes."""

    def __str__(self) -> str:
        """Describe it in one line."""
        one = len(self.hosts) == 1
        names = ", ".join(self.hosts)
        count = (
            "its only instance" if self.of == 1 else f"{self.instances} of its {plural(self.of, 'instance')}"
        )
        until = f"until {'the host is' if one else 'one of the hosts is'} UP again"
        if self.volumes:
            return f"job {self.job_name} ({self.job_id}): {count} would wait {until}: volumes are on {names}"
        last = "is the last host" if one else "are the last hosts"
        return f"{names} {last} that can run job {self.job_name} ({self.job_id}): {count} would wait {until}"


def is_bound_to_hosts(job: CachedJob) -> bool:
    """Return whether the hosts that there are matter to a job: it goes on, and does not follow the hosts."""
    return job.spec.type is not JobType.DAEMON and job.runtime.goal not in ENDING_JOB_GOALS


def task_specs(spec: JobSpec) -> list[tuple[TaskSpec, int]]:
    """Return the specs of a job's instances, equal ones once, with the number of instances of each."""
    kinds = {id(task): task for task in (spec.default, *spec.overrides.values())}
    counts = Counter(id(task) for task in spec.overrides.values())
    counts[id(spec.default)] += spec.instance_count - len(spec.overrides)
    return [(kinds[key], count) for key, count in counts.items() if count > 0]


def host_pool(spec: JobSpec, task: TaskSpec) -> str:
    """Return the host pool that such an instance gets by its kind; empty: the hosts of all pools."""
    if task.stateful:
        return implicit_pool(TaskType.STATEFUL, preemptible=False)
    kind = TaskType.BATCH if spec.type is JobType.BATCH else TaskType.STATELESS
    preemptible = spec.sla.preemptible if task.preemptible is None else task.preemptible
    return implicit_pool(kind, preemptible)


def without_a_host(
    job: CachedJob, matches: Iterable[tuple[int, Collection[str]]], leaving: Sequence[str]
) -> Concern | None:
    """Return the instances that would have no host; None where there are none.

    `matches` are numbers of instances with the hosts in service that can run them; `leaving` the hosts that
    would be in maintenance.
    """
    gone = frozenset(leaving)
    lost = [(count, hosts) for count, hosts in matches if hosts and gone.issuperset(hosts)]
    of = instance_count(job.spec, job.runtime)
    instances = min(sum(count for count, _ in lost), of)
    if not instances:
        return None
    hosts = tuple(host for host in leaving if any(host in found for _, found in lost))
    return Concern(job.job_id, job.spec.name, instances, of, hosts)


def with_volumes_on(job: CachedJob, leaving: Sequence[str]) -> Concern | None:
    """Return the instances whose volumes are on hosts that would be in maintenance."""
    if not any(spec.stateful for spec in job.specs.values()):
        return None
    bound = [
        task.desired_host for _, task in job.created() if task.volume_id and task.desired_host in leaving
    ]
    if not bound:
        return None
    hosts = tuple(host for host in leaving if host in bound)
    of = instance_count(job.spec, job.runtime)
    return Concern(job.job_id, job.spec.name, len(bound), of, hosts, volumes=True)
