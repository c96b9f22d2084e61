"""Secrets in what is to be run."""

from __future__ import annotations

from collections.abc import Iterator

from mesos.v1 import mesos_pb2 as mesos


def secret_volumes(task: mesos.TaskInfo) -> list[mesos.Volume]:
    """Return the volumes of a task that carry a secret."""
    volumes = (*task.container.volumes, *task.executor.container.volumes)
    return [each for each in volumes if each.source.type == mesos.Volume.Source.SECRET]


def without_secrets(task: mesos.TaskInfo) -> mesos.TaskInfo:
    """Return a task whose secrets have no content: the task itself where it has none."""
    if not any(True for _ in _secrets(task)):
        return task
    result = mesos.TaskInfo()
    result.CopyFrom(task)
    for secret in _secrets(result):
        secret.value.data = b""
    return result


def _secrets(task: mesos.TaskInfo) -> Iterator[mesos.Secret]:
    for volume in secret_volumes(task):
        if volume.source.secret.HasField("value"):
            yield volume.source.secret
