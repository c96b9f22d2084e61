"""Jobs with pod templates: clusters are asked whether they take such tasks before a job is accepted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from jobmgr.ports.hostmgr import MOST_TRIALS, Trials
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, PelotonError
from peloton.wire.overrides import merged

log = logging.getLogger(__name__)


class TemplateTrials:
    """Tries each template of a job once. What cannot be asked refuses nothing: the launch will tell."""

    def __init__(self, trials: Trials | None = None) -> None:
        """Without `trials` nothing is asked."""
        self._trials = trials

    async def check(self, config: job_pb2.JobConfig) -> None:
        """Raise InvalidArgument, with the words of the clusters, where none takes a task of the job."""
        tasks = dict(_distinct(config))
        if not tasks or self._trials is None:
            return
        paths = list(tasks)[:MOST_TRIALS]
        try:
            refusals = await self._trials.try_tasks([tasks[path].SerializeToString() for path in paths])
        except PelotonError as error:
            log.warning("the pod templates of a job are not tried: %s", error)
            return
        for path, refusal in zip(paths, refusals, strict=True):
            if refusal:
                raise InvalidArgument(path, tasks[path].podTemplate, f"taken: {refusal}")


def _distinct(config: job_pb2.JobConfig) -> Iterator[tuple[str, task_pb2.TaskConfig]]:
    """Iterate over one task of each template, with the path of the template."""
    known = {""}
    default = config.defaultConfig
    if default.podTemplate not in known:
        known.add(default.podTemplate)
        yield "defaultConfig.podTemplate", default
    for instance in sorted(config.instanceConfig):
        override = config.instanceConfig[instance]
        if override.podTemplate not in known:
            known.add(override.podTemplate)
            yield f"instanceConfig[{instance}].podTemplate", merged(default, override)
