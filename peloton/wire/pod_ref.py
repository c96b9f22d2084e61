"""The pod of somebody else that a task stands for."""

from __future__ import annotations

from peloton.api.v0.task import task_pb2
from peloton.model.foreign_pod import PodRef


def foreign_pod(config: object) -> PodRef | None:
    """Return the pod that a task stands for; None where it has none."""
    if not isinstance(config, task_pb2.TaskConfig) or not config.HasField("foreignPod"):
        return None
    wire = config.foreignPod
    return PodRef(wire.cluster, wire.namespace, wire.name, wire.uid)
