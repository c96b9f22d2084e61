"""Translation of launches to pods.

What Kubernetes cannot keep, or this adapter does not do yet, is refused with the field's path: a task never
runs as something else than what was asked for.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hostmgr.kubernetes import volumes as persistent
from hostmgr.kubernetes.core.nodes import Toleration
from hostmgr.kubernetes.core.pods import PELOTON
from hostmgr.kubernetes.core.quantities import GPU, MEMORY, amounts_of
from hostmgr.kubernetes.secrets import (
    SANDBOX,
    mount_of,
    secret_manifest,
    secret_variables,
    secret_volumes,
    volume_of,
)
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.ids import parse_mesos_task_id, task_id
from peloton.model.pod_template import CONTAINER, MANAGED_BY, check_allowed, merge
from peloton.model.system_labels import (
    INSTANCE_LABEL,
    JOB_ID_LABEL,
    SYSTEM_KEYS,
    SYSTEM_PREFIX,
    TASK_LABEL,
)
from peloton.model.task import (
    CHECK_FAILURES,
    CHECK_INTERVAL_SECONDS,
    CHECK_TIMEOUT_SECONDS,
    KILL_GRACE_SECONDS,
    Launch,
)
from peloton.wire.pod_template import pod_template

LABELS = "peloton/labels"
"""The annotation with all labels of the task, as JSON: not all are labels of Kubernetes."""
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_RESERVED = ("kubernetes.io/", "k8s.io/")
TRIAL = "peloton-trial"
"""The name of pods that are tried, and of their node: there are none."""
OWN_FOLDER = "sandbox"
"""The name of the volume that is the sandbox of a task."""
_DEFAULTS: Mapping[str, Any] = {"spec": {"automountServiceAccountToken": False, "enableServiceLinks": False}}
"""What counts where no template says otherwise."""
_Check = task_pb2.HealthCheckConfig
_Container = mesos_pb2.ContainerInfo
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRules:
    """How pods are described."""

    namespace: str
    default_image: str = ""
    """The image of tasks that name none; empty: they are refused."""
    tolerations: tuple[Toleration, ...] = ()
    longest_grace: int = 600
    cpu_limits: bool = False
    """Whether a task has no more CPU than it requests also where others are idle."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """The template of the site: a pod over which what Peloton says is merged."""
    job_fields: tuple[str, ...] = ()
    """What templates of jobs may set, as paths without places in lists."""
    storage_class: str = ""
    """The StorageClass of persistent volumes; empty: the default one of the cluster."""


def pod_manifest(launch: Launch, node: str, rules: PodRules) -> Manifest:
    """Return the pod of a launch, bound to its node.

    Raises InvalidArgument for an id that is not a run's, and for what cannot be had on Kubernetes.
    """
    config, run = launch.payload, parse_mesos_task_id(launch.mesos_task_id)
    if not isinstance(config, task_pb2.TaskConfig):
        raise TypeError(f"{launch.mesos_task_id}: not a v0 TaskConfig: {type(config).__name__}")
    _refuse(launch, config)
    labels = {
        JOB_ID_LABEL: run.job_id,
        INSTANCE_LABEL: str(run.instance),
        TASK_LABEL: task_id(run.job_id, run.instance),
    }
    given, template = _labels(config), _template(config, rules)
    return merge(
        template,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": launch.mesos_task_id,
                "namespace": rules.namespace,
                "labels": {**dict(filter(_valid, given)), **labels, MANAGED_BY: PELOTON},
                "annotations": {LABELS: json.dumps(given)} if given else {},
            },
            "spec": _spec(launch, config, node, rules, _mounted(template)),
        },
    )


def has_template(launch: Launch) -> bool:
    """Return whether a launch has a template of its job."""
    return isinstance(launch.payload, task_pb2.TaskConfig) and bool(launch.payload.podTemplate)


def trial_manifest(rules: PodRules) -> Manifest:
    """Return a pod of the site's template, by which the API server is asked what it would say."""
    container = {"name": CONTAINER, "image": rules.default_image or "peloton/trial"}
    spec = {"nodeName": TRIAL, "restartPolicy": "Never", "containers": [container]}
    metadata = {"name": TRIAL, "namespace": rules.namespace, "labels": {MANAGED_BY: PELOTON}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return merge(merge(_DEFAULTS, rules.template), pod)


def _template(config: task_pb2.TaskConfig, rules: PodRules) -> Manifest:
    """Return what site and job say of a pod. Raises InvalidArgument for what jobs may not set."""
    own = pod_template(config.podTemplate)
    check_allowed(own, rules.job_fields, "podTemplate")
    return merge(merge(_DEFAULTS, rules.template), own)


def secret_of(launch: Launch, rules: PodRules) -> Manifest | None:
    """Return the Secret that the pod of a launch uses; None where it uses none. Raises InvalidArgument."""
    config = launch.payload
    if not isinstance(config, task_pb2.TaskConfig):
        raise TypeError(f"{launch.mesos_task_id}: not a v0 TaskConfig: {type(config).__name__}")
    return secret_manifest(launch, config, rules.namespace)


def claim_of(launch: Launch, node: str, rules: PodRules) -> Manifest | None:
    """Return the PersistentVolumeClaim that is to be made for a launch; None where it needs no new one."""
    return persistent.claim_manifest(launch, node, rules.namespace, rules.storage_class)


def _refuse(launch: Launch, config: task_pb2.TaskConfig) -> None:
    """Raise InvalidArgument for what tasks cannot have on Kubernetes."""
    if config.HasField("executor") and config.executor.type == mesos_pb2.ExecutorInfo.CUSTOM:
        raise InvalidArgument("executor.type", "CUSTOM", "no executor: Kubernetes runs containers only")
    if config.command.uris:
        uri = config.command.uris[0].value
        raise InvalidArgument("command.uris", uri, "no URI on Kubernetes: put the files into the image")
    if config.workload.stop_signal not in ("", "SIGTERM"):
        signal = config.workload.stop_signal
        raise InvalidArgument(
            "workload.stop_signal", signal, "SIGTERM: that of the image counts on Kubernetes"
        )
    if launch.revocable:
        raise InvalidArgument("revocable", True, "false: Kubernetes offers no revocable CPU")
    docker = config.container.docker
    if docker.privileged:
        raise InvalidArgument(
            "container.docker.privileged", True, "false: kubernetes.pod_template may allow it"
        )
    if docker.parameters:
        key = docker.parameters[0].key
        raise InvalidArgument("container.docker.parameters", key, "no option of `docker run`, on Kubernetes")
    if config.command.user and not config.command.user.isdecimal():
        raise InvalidArgument("command.user", config.command.user, "the number of a user, on Kubernetes")


def _labels(config: task_pb2.TaskConfig) -> list[tuple[str, str]]:
    pairs = ((each.key, each.value) for each in config.labels)
    return [pair for pair in pairs if not pair[0].startswith(SYSTEM_PREFIX) or pair[0] in SYSTEM_KEYS]


def _valid(label: tuple[str, str]) -> bool:
    """Return whether Kubernetes takes a label, and it is not one of Kubernetes' own."""
    key, value = label
    reserved = any(f"{key.rpartition('/')[0]}/".endswith(each) for each in _RESERVED)
    return not reserved and bool(_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value))


def _mounted(template: Manifest) -> set[str]:
    """Return the paths at which a template mounts something into the container of the task."""
    containers = template.get("spec", {}).get("containers") or ()
    return {str(mount.get("mountPath")) for each in containers for mount in each.get("volumeMounts") or ()}


def _spec(
    launch: Launch, config: task_pb2.TaskConfig, node: str, rules: PodRules, mounted: set[str]
) -> Manifest:
    volumes, mounts = _volumes(config.container)
    secrets = dict(secret_volumes(config))
    if secrets:
        volumes.append(volume_of(launch.mesos_task_id))
        mounts += [mount_of(key, volume) for key, volume in secrets.items()]
    if launch.volume is not None:
        volumes.append(persistent.volume_of(launch.volume.id))
        mounts.append(persistent.mount_of(launch.volume.container_path))
    if SANDBOX not in map(posixpath.normpath, mounted.union(each["mountPath"] for each in mounts)):
        volumes.insert(0, {"name": OWN_FOLDER, "emptyDir": {}})
        mounts.insert(0, {"name": OWN_FOLDER, "mountPath": SANDBOX})
    spec: Manifest = {
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _grace(config, rules.longest_grace),
        "containers": [_container(launch, config, rules, mounts)],
    }
    if launch.ports:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if rules.tolerations:
        spec["tolerations"] = [_toleration(each) for each in rules.tolerations]
    if volumes:
        spec["volumes"] = volumes
    return spec


def _toleration(toleration: Toleration) -> Manifest:
    found = {"operator": "Equal" if toleration.value else "Exists"}
    pairs = (("key", toleration.key), ("value", toleration.value), ("effect", toleration.effect))
    return found | {name: value for name, value in pairs if value}


def _grace(config: task_pb2.TaskConfig, longest: int) -> int:
    grace = config.killGracePeriodSeconds or KILL_GRACE_SECONDS
    return max(grace, min(config.workload.grace_seconds, longest)) if config.HasField("workload") else grace


def _container(
    launch: Launch, config: task_pb2.TaskConfig, rules: PodRules, mounts: list[Manifest]
) -> Manifest:
    image = image_of(config.container) or rules.default_image
    if not image:
        raise InvalidArgument("container", "no image", "an image: hosts of Kubernetes run containers only")
    container: Manifest = {
        "name": CONTAINER,
        "image": image,
        **_command(config.command),
        "env": [*_environment(launch, config)],
        "resources": _amounts(launch, rules),
    }
    if config.container.docker.force_pull_image:
        container["imagePullPolicy"] = "Always"
    if launch.ports:
        container["ports"] = [
            {"name": f"p{port}", "containerPort": port, "hostPort": port}
            for port in sorted(set(launch.ports.values()))
        ]
    if mounts:
        container["volumeMounts"] = mounts
    if launch.volume is not None and not launch.volume.container_path.startswith("/"):
        container["workingDir"] = SANDBOX
    if config.command.user:
        container["securityContext"] = {"runAsUser": int(config.command.user)}
    if config.HasField("healthCheck") and config.healthCheck.enabled:
        probe = _probe(config.healthCheck)
        container |= {"livenessProbe": probe, "readinessProbe": {**probe, "failureThreshold": 1}}
    return container


def image_of(container: _Container) -> str:
    """Return the image that a task names; empty where it names none.

    Raises InvalidArgument for an image of another kind than Docker's.
    """
    if container.HasField("docker"):
        return container.docker.image
    image = container.mesos.image
    if not container.mesos.HasField("image"):
        return ""
    if image.type != mesos_pb2.Image.DOCKER:
        raise InvalidArgument("container.mesos.image.type", mesos_pb2.Image.Type.Name(image.type), "DOCKER")
    return image.docker.name


def literal(text: str) -> str:
    """Return a text of a container so that Kubernetes replaces nothing in it: no `$(NAME)`, no `$$`."""
    return text.replace("$", "$$")


def _command(command: mesos_pb2.CommandInfo) -> Manifest:
    if command.shell:
        return {"command": ["/bin/sh", "-c", literal(command.value)]}
    arguments = list(map(literal, command.arguments))
    if not command.value:
        return {"args": arguments} if arguments else {}
    return {"command": [literal(command.value), *arguments[1:]]}  # Mesos' first argument is argv[0]


def _environment(launch: Launch, config: task_pb2.TaskConfig) -> Iterator[Manifest]:
    """Yield variables: those of Peloton after the user's, since of two with one name the later counts."""
    keys = {variable.name: key for key, variable in secret_variables(config)}
    for variable in config.command.environment.variables:
        key = keys.get(variable.name)
        if key is None or variable.type != mesos_pb2.Environment.Variable.SECRET:
            yield {"name": variable.name, "value": literal(variable.value)}
        else:
            reference = {"name": launch.mesos_task_id, "key": key}
            yield {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}
    for name, value in _own_variables(launch, config):
        yield {"name": name, "value": value}


def _own_variables(launch: Launch, config: task_pb2.TaskConfig) -> Iterator[tuple[str, str]]:
    run = parse_mesos_task_id(launch.mesos_task_id)
    yield "PELOTON_JOB_ID", run.job_id
    yield "PELOTON_INSTANCE_ID", str(run.instance)
    yield "PELOTON_TASK_ID", task_id(run.job_id, run.instance)
    yield "MESOS_TASK_ID", launch.mesos_task_id
    yield "MESOS_SANDBOX", SANDBOX
    yield "MESOS_DIRECTORY", SANDBOX
    for port in config.ports:
        if port.envName:
            yield port.envName, str(launch.ports[port.name])


def _amounts(launch: Launch, rules: PodRules) -> Manifest:
    """Return requests, and limits: of memory always, and of GPUs, which Kubernetes takes as limits only."""
    requests = amounts_of(launch.resources)
    limited = {MEMORY, GPU, "cpu"} if rules.cpu_limits else {MEMORY, GPU}
    limits = {name: amount for name, amount in requests.items() if name in limited}
    return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _probe(check: _Check) -> Manifest:
    found: Manifest = {
        "initialDelaySeconds": check.initialIntervalSecs,
        "periodSeconds": check.intervalSecs or CHECK_INTERVAL_SECONDS,
        "timeoutSeconds": check.timeoutSecs or CHECK_TIMEOUT_SECONDS,
        "failureThreshold": check.maxConsecutiveFailures or CHECK_FAILURES,
    }
    if check.type == _Check.COMMAND:
        return {**found, "exec": {"command": ["/bin/sh", "-c", check.commandCheck.command]}}
    if check.type == _Check.HTTP:
        http = check.httpCheck
        get = {"scheme": (http.scheme or "http").upper(), "port": http.port, "path": http.path or "/"}
        return {**found, "httpGet": get}
    raise InvalidArgument("healthCheck.type", _Check.Type.Name(check.type), "COMMAND or HTTP")


def _volumes(container: _Container) -> tuple[list[Manifest], list[Manifest]]:
    """Return volumes and their mounts: folders of the host, and folders that end with the pod.

    Raises InvalidArgument for other volumes.
    """
    volumes, mounts = [], []
    for number, each in enumerate(container.volumes):
        path = f"container.volumes[{number}]"
        if each.source.type == mesos_pb2.Volume.Source.SECRET:
            continue
        if _is_own(each):
            volumes.append({"name": f"v{number}", "emptyDir": {}})
        elif each.HasField("source"):
            kind = mesos_pb2.Volume.Source.Type.Name(each.source.type)
            raise InvalidArgument(f"{path}.source.type", kind, "a host_path, on Kubernetes")
        else:
            volumes.append({"name": f"v{number}", "hostPath": {"path": each.host_path}})
        mount = {"name": f"v{number}", "mountPath": each.container_path}
        mounts.append({**mount, "readOnly": True} if each.mode == mesos_pb2.Volume.RO else mount)
    return volumes, mounts


def _is_own(volume: mesos_pb2.Volume) -> bool:
    """Return whether a volume is a folder of the sandbox: it is empty at first, and ends with the run."""
    if volume.HasField("source"):
        own = mesos_pb2.Volume.Source.SandboxPath.SELF
        return (
            volume.source.type == mesos_pb2.Volume.Source.SANDBOX_PATH
            and volume.source.sandbox_path.type == own
        )
    return not volume.host_path.startswith("/")
