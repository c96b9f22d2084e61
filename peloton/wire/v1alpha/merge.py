"""Merge the spec of an instance over the default of its job (docs/behaviour/jobs.md).

By top-level field, as in the v0 API; the fields of the container and of `mesos_spec` are merged in the same
way. A newer form of a field that the override gives replaces the older form in the default.
"""

from __future__ import annotations

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.wire.laying import lay_over

_NOTHING = pod_pb2.ContainerSpec()


def merged(default: pod_pb2.PodSpec, override: pod_pb2.PodSpec) -> pod_pb2.PodSpec:
    """Return a new spec: `override` merged over `default`."""
    result = pod_pb2.PodSpec()
    result.CopyFrom(default)
    drop_older_forms(result, override)
    lay_over(result, override, ("containers", "mesos_spec"))
    if override.HasField("mesos_spec"):
        result.mesos_spec.SetInParent()
        lay_over(result.mesos_spec, override.mesos_spec)
    if override.containers:
        lay_over(
            result.containers[0] if result.containers else result.containers.add(), override.containers[0]
        )
    return result


def pod_spec(spec: stateless_pb2.JobSpec, instance: int) -> pod_pb2.PodSpec:
    """Return the whole spec of one instance.

    It must not be changed: without an override it is the default of the job.
    """
    if instance in spec.instance_spec:
        return merged(spec.default_spec, spec.instance_spec[instance])
    return spec.default_spec


def drop_older_forms(result: pod_pb2.PodSpec, override: pod_pb2.PodSpec) -> None:
    """Clear the older form of what `override` gives in its newer form only: the older one would win."""
    if not result.containers:
        return
    container, own = result.containers[0], override.containers[0] if override.containers else _NOTHING
    if own.HasField("entrypoint") and not own.HasField("command"):
        container.ClearField("command")
    if own.image and not own.HasField("container"):
        container.ClearField("container")
    if override.mesos_spec.HasField("executor_spec") and not own.HasField("executor"):
        container.ClearField("executor")
    if own.environment and container.HasField("command"):
        _drop_variables(container, {variable.name for variable in own.environment})


def _drop_variables(container: pod_pb2.ContainerSpec, names: set[str]) -> None:
    """Remove variables from the older form of the command: those there would win."""
    environment = container.command.environment
    kept = [variable for variable in environment.variables if variable.name not in names]
    if len(kept) < len(environment.variables):
        del environment.variables[:]
        environment.variables.extend(kept)
