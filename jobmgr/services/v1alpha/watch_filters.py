"""Filters of watches, and the messages that changes become by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from jobmgr.core.state.cache import CachedJob
from jobmgr.services.common.job_info import parsed_spec, summary_message
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb
from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.model.ids import JobId, is_uuid, parse_task_id
from peloton.model.job import JobSummary
from peloton.model.states import JobType
from peloton.model.task import TaskRuntime
from peloton.model.workflow import WorkflowStatus
from peloton.wire.v1alpha.constraint import labels_from
from peloton.wire.v1alpha.merge import pod_spec
from peloton.wire.v1alpha.pod_status import pod_name, pod_status

_NO_CONTAINER = pod_pb2.ContainerSpec()


class Changes:
    """Jobs that changed, with the instances that did, and jobs that were deleted."""

    def __init__(self, workflow: Callable[[CachedJob], WorkflowStatus | None]) -> None:
        """Begin without changes; `workflow` returns the last workflow of a job."""
        self.workflow = workflow
        self.jobs: dict[JobId, CachedJob] = {}
        self.instances: dict[JobId, set[int]] = {}
        self.deleted: set[JobId] = set()

    def add(self, job: CachedJob, instances: Iterable[int]) -> None:
        """Note a change of a job, and of instances of it."""
        self.jobs[job.job_id] = job
        self.instances.setdefault(job.job_id, set()).update(instances)

    def delete(self, job_id: JobId) -> None:
        """Note the deletion of a job."""
        self.jobs.pop(job_id, None)
        self.instances.pop(job_id, None)
        self.deleted.add(job_id)

    def within(self, allowed: Callable[[CachedJob], bool]) -> Changes:
        """Return the changes of jobs that may be seen. Jobs that are gone have none."""
        part = Changes(self.workflow)
        part.jobs = {job_id: job for job_id, job in self.jobs.items() if allowed(job)}
        part.instances, part.deleted = self.instances, self.deleted
        return part

    def of(self, ids: frozenset[JobId]) -> Iterator[CachedJob]:
        """Yield the jobs that changed, of these ids only unless there are none."""
        if not ids:
            yield from self.jobs.values()
            return
        for job_id in ids if len(ids) < len(self.jobs) else self.jobs:
            if job_id in ids and job_id in self.jobs:
                yield self.jobs[job_id]


class Filter(Protocol):
    """What a watcher wants to see."""

    key: bytes
    """Equal for equal filters."""
    ids: frozenset[JobId]
    """The jobs that it names; empty for all."""

    def message(self, changes: Changes) -> pb.WatchResponse | None:
        """Return the changes that the filter lets through; None where there are none."""
        ...


class JobFilter:
    """Services, by id and by labels."""

    def __init__(self, wire: watch_pb2.StatelessJobFilter) -> None:
        """Read a filter. Raises InvalidArgument for an id that is no UUID."""
        for i, job_id in enumerate(wire.job_ids):
            if not is_uuid(job_id.value):
                raise InvalidArgument(f"stateless_job_filter.job_ids[{i}]", job_id.value, "a UUID")
        self.key = b"job" + wire.SerializeToString(deterministic=True)
        self.ids = frozenset(job_id.value for job_id in wire.job_ids)
        self._labels = frozenset(labels_from(wire.labels))

    def message(self, changes: Changes) -> pb.WatchResponse | None:
        """Return the changes that the filter lets through; None where there are none."""
        found = [
            summary_message(JobSummary(job.job_id, job.spec, job.runtime), changes.workflow(job))
            for job in changes.of(self.ids)
            if self._matches(job)
        ]
        gone = [peloton_pb2.JobID(value=job_id) for job_id in sorted(self.ids & changes.deleted)]
        if not found and not gone:
            return None
        return pb.WatchResponse(stateless_jobs=found, stateless_jobs_not_found=gone)

    def _matches(self, job: CachedJob) -> bool:
        return job.spec.type is JobType.SERVICE and _has(job.spec.labels, self._labels)


class PodFilter:
    """Pods of all jobs, by job, name and labels."""

    def __init__(self, wire: watch_pb2.PodFilter) -> None:
        """Read a filter.

        Raises InvalidArgument for what is no id or name, and for a pod of another job than the filter's.
        """
        job_id = wire.job_id.value
        if job_id and not is_uuid(job_id):
            raise InvalidArgument("pod_filter.job_id", job_id, "a UUID")
        self.key = b"pod" + wire.SerializeToString(deterministic=True)
        self.names = frozenset(_pod(i, name.value, job_id) for i, name in enumerate(wire.pod_names))
        self.ids = frozenset(job for job, _ in self.names) or frozenset(filter(None, [job_id]))
        self._labels = frozenset(labels_from(wire.labels))

    def message(self, changes: Changes) -> pb.WatchResponse | None:
        """Return the changes that the filter lets through; None where there are none."""
        answer = pb.WatchResponse()
        for job in changes.of(self.ids):
            for instance in sorted(changes.instances[job.job_id]):
                if not self.names or (job.job_id, instance) in self.names:
                    self._add(answer, job, instance)
        gone = sorted(name for name in self.names if name[0] in changes.deleted)
        answer.pods_not_found.extend(pod_name(*name) for name in gone)
        return answer if answer.pods or answer.pods_not_found else None

    def _add(self, answer: pb.WatchResponse, job: CachedJob, instance: int) -> None:
        task = job.task(instance)
        if task is None:
            answer.pods_not_found.append(pod_name(job.job_id, instance))
        elif not self._labels or _has(job.task_spec(instance).labels, self._labels):
            answer.pods.append(_pod_summary(job, instance, task))


def _pod(index: int, name: str, job_id: JobId) -> tuple[JobId, int]:
    field = f"pod_filter.pod_names[{index}]"
    try:
        found = parse_task_id(name)
    except InvalidArgument as error:
        raise InvalidArgument(field, name, error.expected) from None
    if job_id and found[0] != job_id:
        raise InvalidArgument(field, name, f"a pod of the job {job_id}")
    return found


def _has(labels: Sequence[Label], wanted: frozenset[Label]) -> bool:
    return not wanted or wanted <= set(labels)


def _pod_summary(job: CachedJob, instance: int, task: TaskRuntime) -> pod_pb2.PodSummary:
    spec = pod_spec(parsed_spec(job.spec_of(instance).payload), instance)
    container = spec.containers[0] if spec.containers else _NO_CONTAINER
    return pod_pb2.PodSummary(
        pod_name=pod_name(job.job_id, instance),
        status=pod_status(job.job_id, instance, task, container),
    )
