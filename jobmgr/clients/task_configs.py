"""The configs of tasks for launches, parsed and encoded once for each version of a job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.wire.overrides import task_config
from peloton.wire.payload import job_config

MAX_CONFIGS = 1000


class _Version:
    """A version of a job's config."""

    __slots__ = ("config", "encoded")

    def __init__(self, config: job_pb2.JobConfig) -> None:
        self.config = config
        self.encoded: dict[Hashable, bytes] = {}
        """Configs of the tasks without overrides, by what was added to them."""


class TaskConfigs:
    """A cache of configs."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[JobId, int], _Version] = OrderedDict()

    def task(self, job_id: JobId, spec: JobSpec, instance: int) -> task_pb2.TaskConfig:
        """Return the instance's config in a version of the job's spec. Not to be changed."""
        return task_config(self._version(job_id, spec).config, instance)

    def encoded(
        self,
        job_id: JobId,
        spec: JobSpec,
        instance: int,
        added: Hashable,
        encode: Callable[[task_pb2.TaskConfig], bytes],
    ) -> bytes:
        """Return the encoded config of an instance: of those without overrides one for each `added`."""
        version = self._version(job_id, spec)
        if instance in version.config.instanceConfig:
            return encode(task_config(version.config, instance))
        known = version.encoded.get(added)
        if known is None:
            known = version.encoded[added] = encode(version.config.defaultConfig)
        return known

    def _version(self, job_id: JobId, spec: JobSpec) -> _Version:
        key = (job_id, spec.version)
        version = self._versions.get(key)
        if version is None:
            version = self._versions[key] = _Version(job_config(spec.payload))
            if len(self._versions) > MAX_CONFIGS:
                self._versions.popitem(last=False)
        else:
            self._versions.move_to_end(key)
        return version
