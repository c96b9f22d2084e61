"""Pods to launch, as the messages that launch tasks."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.errors import InvalidArgument
from peloton.model.ids import parse_mesos_task_id, task_id
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.wire.v1alpha.task_config import task_config


def launchable_task(pod: hostmgr_pb2.LaunchablePod, path: str) -> hostsvc_pb2.LaunchableTask:
    """Return a pod as a task to launch.

    Raises InvalidArgument for an id that is not that of a run, for a spec that cannot be launched, and for a
    persistent volume, which this message has no id for.
    """
    run = instance_of(pod.pod_id.value, f"{path}.pod_id.value")
    if pod.spec.HasField("volume"):
        raise InvalidArgument(
            f"{path}.spec.volume", pod.spec.volume.container_path,
            "launched here; LaunchTasks of InternalHostService launches pods with persistent volumes",
        )  # fmt: skip
    return hostsvc_pb2.LaunchableTask(
        taskId=mesos_pb2.TaskID(value=pod.pod_id.value),
        config=task_config(pod.spec, f"{path}.spec"),
        ports=pod.ports,
        id=peloton_pb2.TaskID(value=run),
    )


def instance_of(pod_id: str, path: str) -> str:
    """Return the task id of a run. Raises InvalidArgument, with the path of the field."""
    try:
        run = parse_mesos_task_id(pod_id)
    except InvalidArgument as error:
        raise InvalidArgument(path, pod_id, error.expected) from None
    return task_id(run.job_id, run.instance)
