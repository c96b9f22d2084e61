"""Fields of a container spec that come in an older and a newer form (docs/behaviour/jobs.md).

Specs are stored as given and returned with both of `command` and `entrypoint`. Where both are given, the
older one is used.
"""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2


def command_of(container: pod_pb2.ContainerSpec, shell: bool) -> mesos_pb2.CommandInfo | None:
    """Return the command that the container is given in either form, without `environment`; None for none.

    `shell`: whether the newer form is run by a shell, as the `mesos_spec` of the pod says.
    """
    if container.HasField("command"):
        return container.command
    if not container.HasField("entrypoint"):
        return None
    given = container.entrypoint
    return mesos_pb2.CommandInfo(shell=shell, value=given.value, arguments=given.arguments)


def entrypoint_of(command: mesos_pb2.CommandInfo) -> pod_pb2.CommandSpec:
    """Return the newer form of a command."""
    return pod_pb2.CommandSpec(value=command.value, arguments=command.arguments)


def filled_pod(pod: pod_pb2.PodSpec) -> pod_pb2.PodSpec:
    """Return a copy of a whole spec whose containers have both forms of their commands."""
    result = pod_pb2.PodSpec()
    result.CopyFrom(pod)
    _fill(result, pod.mesos_spec.shell)
    return result


def filled_job(spec: stateless_pb2.JobSpec) -> stateless_pb2.JobSpec:
    """Return a copy whose containers have both forms of their commands."""
    result = stateless_pb2.JobSpec()
    result.CopyFrom(spec)
    shell = spec.default_spec.mesos_spec.shell
    if spec.HasField("default_spec"):
        _fill(result.default_spec, shell)
    for pod in result.instance_spec.values():
        own = pod.mesos_spec.shell if pod.HasField("mesos_spec") else shell
        if own != shell:
            _repeat_entrypoint(pod, spec.default_spec)
        _fill(pod, own)
    return result


def _repeat_entrypoint(pod: pod_pb2.PodSpec, default: pod_pb2.PodSpec) -> None:
    """Give an override that runs the default's entrypoint in another way an entrypoint of its own.

    Without it the override would inherit the older form, which is filled in the default's way.
    """
    inherited = default.containers[0] if default.containers else None
    if inherited is None or inherited.HasField("command") or not inherited.HasField("entrypoint"):
        return
    container = pod.containers[0] if pod.containers else pod.containers.add()
    if not container.HasField("command") and not container.HasField("entrypoint"):
        container.entrypoint.CopyFrom(inherited.entrypoint)


def _fill(pod: pod_pb2.PodSpec, shell: bool) -> None:
    for container in (*pod.init_containers, *pod.containers):
        command = command_of(container, shell)
        if command is not None and not container.HasField("command"):
            container.command.CopyFrom(command)
        elif command is not None and not container.HasField("entrypoint"):
            container.entrypoint.CopyFrom(entrypoint_of(command))
