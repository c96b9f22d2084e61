"""Parts of a task's config that Mesos' messages describe."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2

Variable = mesos_pb2.Environment.Variable


def has_custom_executor(config: task_pb2.TaskConfig) -> bool:
    """Return whether the task brings its own executor."""
    return config.HasField("executor") and config.executor.type == mesos_pb2.ExecutorInfo.CUSTOM


def executor_type(config: task_pb2.TaskConfig) -> str:
    """Return the name of the executor's type."""
    return mesos_pb2.ExecutorInfo.Type.Name(config.executor.type)


def has_image(config: task_pb2.TaskConfig) -> bool:
    """Return whether the task asks for a container with an image, be it run by docker or by Mesos."""
    container = config.container
    by_docker = config.HasField("container") and container.type == mesos_pb2.ContainerInfo.DOCKER
    return by_docker or container.mesos.HasField("image")
