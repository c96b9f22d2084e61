"""Configs of jobs whose tasks are kept in another cluster than before: their constraints alone change."""

from __future__ import annotations

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.constraint import AndConstraint, Constraint
from peloton.model.destination import kept_in
from peloton.wire.constraint import constraint_from, constraint_to
from peloton.wire.v1alpha.constraint import v0_constraint, v1alpha_constraint

ANY = AndConstraint(())
"""Holds on any host. An instance with a constraint of its own keeps one: without it, it had the job's."""


def moved_config(config: job_pb2.JobConfig, wanted: Constraint | None) -> job_pb2.JobConfig:
    """Return a valid config of the v0 API whose tasks go where `wanted` holds. Raises InvalidArgument."""
    moved = job_pb2.JobConfig()
    moved.CopyFrom(config)
    _move(moved.defaultConfig, wanted, "defaultConfig")
    for instance, task in moved.instanceConfig.items():
        if task.HasField("constraint"):
            _move(task, wanted, f"instanceConfig[{instance}]", ANY)
    return moved


def moved_spec(spec: stateless_pb2.JobSpec, wanted: Constraint | None) -> stateless_pb2.JobSpec:
    """Return a valid spec of the v1alpha API whose pods go where `wanted` holds. Raises InvalidArgument."""
    moved = stateless_pb2.JobSpec()
    moved.CopyFrom(spec)
    _move_pod(moved.default_spec, wanted, "default_spec")
    for instance, pod in moved.instance_spec.items():
        if pod.HasField("constraint"):
            _move_pod(pod, wanted, f"instance_spec[{instance}]", ANY)
    return moved


def _move(
    task: task_pb2.TaskConfig, wanted: Constraint | None, path: str, least: Constraint | None = None
) -> None:
    old = constraint_from(task.constraint) if task.HasField("constraint") else None
    new = kept_in(old, wanted, f"{path}.constraint") or least
    task.ClearField("constraint")
    if new is not None:
        task.constraint.CopyFrom(constraint_to(new))


def _move_pod(
    pod: pod_pb2.PodSpec, wanted: Constraint | None, path: str, least: Constraint | None = None
) -> None:
    path = f"{path}.constraint"
    old = constraint_from(v0_constraint(pod.constraint, path)) if pod.HasField("constraint") else None
    new = kept_in(old, wanted, path) or least
    pod.ClearField("constraint")
    if new is not None:
        pod.constraint.CopyFrom(v1alpha_constraint(constraint_to(new)))
