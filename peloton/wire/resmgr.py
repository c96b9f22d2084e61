"""Encode tasks for the resource manager: jobmgr enqueues them, resmgr reads them back at recovery."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.model.fixed_ports import port_labels, with_ports
from peloton.model.ids import JobId, mesos_task_id, task_id
from peloton.model.job import JobSpec
from peloton.model.resources import Resources
from peloton.model.retry import avoiding
from peloton.model.states import JobType
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.private.resmgr import resmgr_pb2
from peloton.wire.constraint import constraint_to
from peloton.wire.task import resources_to


def _resources(task: TaskSpec, runtime: TaskRuntime) -> Resources:
    """Return what a run needs of a host's free resources. A volume that exists is not among these."""
    if task.volume is None or runtime.volume_id:
        return task.resources
    return task.resources + Resources.of(disk=task.volume.size_mb)


def resmgr_task(job_id: JobId, spec: JobSpec, instance: int, runtime: TaskRuntime) -> resmgr_pb2.Task:
    """Encode the needs of run `runtime.run` of `instance`, by the config `spec`.

    `minInstances` is the size of the gang that the instance belongs to, 1 for one on its own. `hostname` is
    where the run is, empty before launch.
    """
    task = spec.task(instance)
    run = mesos_task_id(job_id, instance, runtime.run)
    wire = resmgr_pb2.Task(
        name=spec.name,
        id=peloton_pb2.TaskID(value=task_id(job_id, instance)),
        jobId=peloton_pb2.JobID(value=job_id),
        taskId=mesos_pb2.TaskID(value=run),
        resource=resources_to(_resources(task, runtime)),
        priority=spec.sla.priority,
        preemptible=spec.preemptible(instance),
        type=resmgr_pb2.TaskType.ValueType(spec.task_type(instance)),
        numPorts=task.dynamic_ports,
        minInstances=spec.gang_size_of(instance),
        hostname=runtime.host,
        controller=task.controller,
        revocable=spec.revocable(instance),
        desiredHost=runtime.desired_host,
        placementStrategy=job_pb2.PlacementStrategy.ValueType(spec.placement_strategy),
        maxUnavailable=0 if spec.type is JobType.BATCH else spec.sla.maximum_unavailable_instances,
        extra=spec.is_extra(instance),
    )
    fixed = [port.value for port in task.ports if port.value]
    labels = (*task.labels, *port_labels(fixed))
    if labels:
        wire.labels.labels.extend(mesos_pb2.Label(key=key, value=value) for key, value in labels)
    constraint = with_ports(avoiding(task.constraint, runtime.avoided_hosts), fixed)
    if constraint is not None:
        wire.constraint.CopyFrom(constraint_to(constraint))
    return wire
