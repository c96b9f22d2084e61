"""Translate pods of others, and the jobs that stand for them."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.foreign_pod import ForeignPod, PodChanges, Told
from peloton.model.ids import PoolId
from peloton.private.hostmgr.foreign import foreign_pb2
from peloton.wire.constraint import constraint_from, constraint_to
from peloton.wire.task import resources_from, resources_to

COMMAND = "the pod's own"
"""What stands for the command of a task whose pod was made by somebody else."""


def changes_to(changes: PodChanges) -> foreign_pb2.WaitForPodsResponse:
    """Encode what has become of pods."""
    return foreign_pb2.WaitForPodsResponse(
        stream_id=changes.stream,
        last=changes.last,
        whole=changes.whole,
        pods=map(_pod_to, changes.pods),
        gone=changes.gone,
        enabled=changes.enabled,
    )


def changes_from(wire: foreign_pb2.WaitForPodsResponse) -> PodChanges:
    """Decode what has become of pods. Raises InvalidArgument."""
    pods = tuple(map(_pod_from, wire.pods))
    return PodChanges(wire.stream_id, wire.last, wire.whole, pods, tuple(wire.gone), wire.enabled)


def told_to(told: Iterable[Told]) -> foreign_pb2.TellOwnersRequest:
    """Encode what owners are told."""
    return foreign_pb2.TellOwnersRequest(
        told=[
            foreign_pb2.Told(uid=each.uid, reason=each.reason, message=each.message, warning=each.warning)
            for each in told
        ]
    )


def told_from(wire: foreign_pb2.TellOwnersRequest) -> list[Told]:
    """Decode what owners are told."""
    return [Told(each.uid, each.reason, each.message, each.warning) for each in wire.told]


def _pod_to(pod: ForeignPod) -> foreign_pb2.Pod:
    return foreign_pb2.Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        created=pod.created,
        pool=pod.pool,
        gang=pod.gang,
        gang_size=pod.gang_size,
        priority=pod.priority,
        preemptible=pod.preemptible,
        resource=resources_to(pod.resources),
        constraint=None if pod.constraint is None else constraint_to(pod.constraint),
        waits=pod.waits,
        refusal=pod.refusal,
        grows=pod.grows,
        bound=pod.bound,
    )


def _pod_from(wire: foreign_pb2.Pod) -> ForeignPod:
    return ForeignPod(
        wire.namespace,
        wire.name,
        wire.uid,
        wire.created,
        wire.pool,
        wire.gang,
        wire.gang_size,
        wire.priority,
        wire.preemptible,
        resources_from(wire.resource),
        constraint_from(wire.constraint) if wire.HasField("constraint") else None,
        wire.waits,
        wire.refusal,
        wire.grows,
        wire.bound,
    )


def job_config_of(pods: Iterable[ForeignPod], pool: PoolId, cluster: str, wall: int) -> job_pb2.JobConfig:
    """Return the job that stands for a pod, or for a gang of several. `wall`: nanoseconds since 1970."""
    pods = list(pods)
    first = pods[0]
    config = job_pb2.JobConfig(
        name=first.gang or first.name,
        type=job_pb2.BATCH,
        owningTeam=first.namespace,
        owner=first.namespace,
        description=f"{'the gang' if first.gang else 'the pod'} {first.gang or first.name} of Kubernetes",
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        instanceCount=len(pods),
        sla=job_pb2.SlaConfig(
            priority=max(each.priority for each in pods),
            preemptible=all(each.preemptible for each in pods),
            minimumRunningInstances=len(pods) if len(pods) > 1 else 0,
        ),
        changeLog=peloton_pb2.ChangeLog(version=1, createdAt=wall, updatedAt=wall),
    )
    for instance, pod in enumerate(pods):
        config.instanceConfig[instance].CopyFrom(_task(pod, cluster))
    return config


def _task(pod: ForeignPod, cluster: str) -> task_pb2.TaskConfig:
    task = task_pb2.TaskConfig(name=pod.name, resource=resources_to(pod.resources))
    task.command.shell, task.command.value = True, COMMAND
    if pod.constraint is not None:
        task.constraint.CopyFrom(constraint_to(pod.constraint))
    reference = task_pb2.ForeignPod(cluster=cluster, namespace=pod.namespace, name=pod.name, uid=pod.uid)
    task.foreignPod.CopyFrom(reference)
    return task
