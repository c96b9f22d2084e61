"""What an update would do to each instance of a service, and for which changes of its config."""

from __future__ import annotations

from functools import cache

from jobmgr.core.state.cache import NOT_CREATED, CachedJob
from jobmgr.core.workflow.requests import diff
from jobmgr.core.workflow.stages import Aim
from peloton.api.v0.job import job_pb2
from peloton.model.job import JobSpec
from peloton.model.task import TaskRuntime
from peloton.model.workflow import (
    ConfigDiff,
    FieldChange,
    InstanceChanges,
    Ranges,
    Workflow,
    instances_in,
    ranges_of,
)
from peloton.wire.changes import changes
from peloton.wire.overrides import task_config
from peloton.wire.payload import job_config

MAX_GROUPS = 100
"""Groups of instances whose changes are told."""


def config_diff(job: CachedJob, spec: JobSpec, update: Workflow) -> ConfigDiff:
    """Return what `update`, to `spec`, would do. The job does not have its `config_version` yet."""

    def task(instance: int) -> TaskRuntime:
        return job.tasks[instance] if instance < len(job.tasks) else NOT_CREATED

    aim = Aim(update, {**job.specs, update.config_version: spec}, job.runtime.goal)
    found = diff(aim, len(job.tasks), task)
    return ConfigDiff(
        found.added, found.removed, found.updated, found.unchanged, _changes(job, spec, found.updated)
    )


def _changes(job: CachedJob, spec: JobSpec, updated: Ranges) -> tuple[InstanceChanges, ...]:
    """Return why instances are restarted: those together whose configs before, and after, mean the same."""
    alike: dict[tuple[bytes, bytes], list[int]] = {}
    for instance in instances_in(updated):
        old, new = job.spec_of(instance).task(instance), spec.task(instance)
        if old.fingerprint != new.fingerprint:
            alike.setdefault((old.fingerprint, new.fingerprint), []).append(instance)
    groups: dict[tuple[FieldChange, ...], list[int]] = {}
    fields = _Fields(job, spec)
    for instances in list(alike.values())[:MAX_GROUPS]:
        groups.setdefault(fields.of(instances[0]), []).extend(instances)
    return tuple(InstanceChanges(ranges_of(group), fields) for fields, group in groups.items())


class _Fields:
    """Compares configs of instances; each version is parsed once."""

    def __init__(self, job: CachedJob, spec: JobSpec) -> None:
        self._job = job
        self._spec = spec
        self._new = job_config(spec.payload)
        self._old = cache(self._parsed)

    def of(self, instance: int) -> tuple[FieldChange, ...]:
        """Return the changes of an instance."""
        held = self._job.spec_of(instance)
        return changes(
            task_config(self._old(held.version), instance),
            task_config(self._new, instance),
            held.payload.secrets,
            self._spec.payload.secrets,
        )

    def _parsed(self, version: int) -> job_pb2.JobConfig:
        return job_config(self._job.specs[version].payload)
