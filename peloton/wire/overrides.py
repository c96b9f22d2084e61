"""Merge the config of an instance over the default of its job (docs/behaviour/jobs.md).

By top-level field: a message or list that is set, a number or string that is not zero, replaces the
default's whole field; a bool always comes from the override, also when false; the default's secrets
(volumes that carry a secret) stay.
"""

from __future__ import annotations

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.wire.laying import lay_over
from peloton.wire.secrets import is_secret


def merged(default: task_pb2.TaskConfig, override: task_pb2.TaskConfig) -> task_pb2.TaskConfig:
    """Return a new config: `override` merged over `default`."""
    result = task_pb2.TaskConfig()
    result.CopyFrom(default)
    lay_over(result, override)
    _keep_secrets(default, result)
    return result


def task_config(config: job_pb2.JobConfig, instance: int) -> task_pb2.TaskConfig:
    """Return the whole config of one instance.

    It must not be changed: without an override it is the default of the job.
    """
    if instance in config.instanceConfig:
        return merged(config.defaultConfig, config.instanceConfig[instance])
    return config.defaultConfig


def _keep_secrets(default: task_pb2.TaskConfig, result: task_pb2.TaskConfig) -> None:
    kept = [volume for volume in default.container.volumes if is_secret(volume)]
    if not kept or not result.HasField("container"):
        return
    held = {volume.container_path for volume in result.container.volumes if is_secret(volume)}
    result.container.volumes.extend(volume for volume in kept if volume.container_path not in held)
