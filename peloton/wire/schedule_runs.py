"""What a run of a scheduled job is: a batch job of its own, with the same config."""

from __future__ import annotations

from datetime import UTC, datetime

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.schedule import SCHEDULE_LABEL
from peloton.wire.job import config_payload, job_spec
from peloton.wire.payload import job_config
from peloton.wire.schedule import told

TIME_VARIABLE = "PELOTON_SCHEDULED_TIME"
"""The variable of its tasks with the time of the run, as RFC 3339 in UTC."""


def spec_of_run(job_id: JobId, spec: JobSpec, time: int) -> JobSpec:
    """Return the spec of the run of a time, in seconds since 1970, of a job with a schedule."""
    config = job_pb2.JobConfig()
    config.CopyFrom(job_config(spec.payload))
    config.ClearField("schedule")
    config.name = f"{config.name}-{datetime.fromtimestamp(time, UTC):%Y%m%dT%H%MZ}"
    config.labels.add(key=SCHEDULE_LABEL, value=job_id)
    for task in (config.defaultConfig, *config.instanceConfig.values()):
        _tell(task, told(time))
    config.changeLog.version = 1
    return job_spec(config, 1, config_payload(config))


def _tell(task: task_pb2.TaskConfig, time: str) -> None:
    if task.HasField("command"):
        task.command.environment.variables.add(name=TIME_VARIABLE, value=time)
