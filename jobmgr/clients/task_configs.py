"""The configs of tasks for launches, parsed once for each version of a job."""

from __future__ import annotations

from collections import OrderedDict

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.wire.overrides import task_config
from peloton.wire.payload import job_config

MAX_CONFIGS = 1000


class TaskConfigs:
    """A cache of parsed configs."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[tuple[JobId, int], job_pb2.JobConfig] = OrderedDict()

    def task(self, job_id: JobId, spec: JobSpec, instance: int) -> task_pb2.TaskConfig:
        """Return the instance's config in a version of the job's spec. Not to be changed."""
        key = (job_id, spec.version)
        config = self._parsed.get(key)
        if config is None:
            config = self._parsed[key] = job_config(spec.payload)
            if len(self._parsed) > MAX_CONFIGS:
                self._parsed.popitem(last=False)
        else:
            self._parsed.move_to_end(key)
        return task_config(config, instance)
