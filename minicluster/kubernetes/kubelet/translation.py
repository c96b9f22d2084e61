"""Translation of a pod to the task that the agent's launcher and supervisor run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from mesos.v1 import mesos_pb2 as mesos

Object = Mapping[str, Any]
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(m|k|M|G|T|Ki|Mi|Gi|Ti)?", re.ASCII)
_SUFFIXES: Mapping[str, Fraction | int] = {
    "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
MEGABYTE = 2**20


class CannotBeRun(ValueError):
    """This kubelet does not run such a pod; the text says why."""


def quantity(text: str) -> Fraction:
    """Return an amount of Kubernetes. Raise CannotBeRun for what is none, or has a unit unknown here."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise CannotBeRun(f"{text!r} is no amount that this kubelet knows")
    return Fraction(found[1]) * Fraction(_SUFFIXES.get(found[2] or "", 1))


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by a variable, if there is such a one, and `$$` by `$`, as kubelets do."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else variables.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def requested(pod: Object) -> dict[str, Fraction]:
    """Return what a pod's containers request in all, by name. Raise CannotBeRun."""
    amounts: dict[str, Fraction] = {}
    for container in pod["spec"].get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            amounts[name] = amounts.get(name, Fraction(0)) + quantity(str(text))
    return amounts


SANDBOX = "/mnt/mesos/sandbox"
"""Where pods of Peloton have what belongs into the sandbox; a process has it there."""
Sources = Mapping[str, Mapping[str, bytes]]
"""What the Secrets and ConfigMaps of a pod hold: `secrets/NAME` or `configmaps/NAME`, and keys."""


class Part(NamedTuple):
    """What a volume has of a Secret or a ConfigMap."""

    source: str
    """`secrets/NAME` or `configmaps/NAME`."""
    paths: Mapping[str, str] | None
    """Paths in the volume by the keys of the source; None: all keys, each by its name."""


def sources_of(pod: Object) -> set[str]:
    """Return the Secrets and ConfigMaps that a pod uses, as `secrets/NAME` and `configmaps/NAME`."""
    spec = pod["spec"]
    found = {part.source for parts in _parts(spec).values() for part in parts}
    for container in spec.get("containers") or ():
        for variable in container.get("env") or ():
            if "secretKeyRef" in (variable.get("valueFrom") or {}):
                found.add(f"secrets/{variable['valueFrom']['secretKeyRef']['name']}")
    return found


def _parts(spec: Object) -> dict[str, list[Part]]:
    """Return what volumes have of Secrets and ConfigMaps, by the names of the volumes."""
    found = {}
    for volume in spec.get("volumes") or ():
        each = [volume] if "projected" not in volume else volume["projected"].get("sources") or ()
        parts = [part for part in map(_part, each) if part is not None]
        if parts:
            found[volume["name"]] = parts
    return found


def _part(wire: Object) -> Part | None:
    secret, settings = wire.get("secret"), wire.get("configMap")
    held: Object = secret or settings or {}
    name = held.get("secretName") or held.get("name")
    if not name:
        return None
    items = held.get("items")
    paths = None if items is None else {each["key"]: each["path"] for each in items}
    return Part(f"{'secrets' if secret else 'configmaps'}/{name}", paths)


def claims_of(pod: Object) -> dict[str, str]:
    """Return the PersistentVolumeClaims that a pod uses, by the names of their volumes in the pod."""
    volumes = pod["spec"].get("volumes") or ()
    claims = ((each["name"], each.get("persistentVolumeClaim")) for each in volumes)
    return {name: claim["claimName"] for name, claim in claims if claim}


def task_of(pod: Object, sources: Sources | None = MappingProxyType({})) -> mesos.TaskInfo:
    """Return the task of a pod's only container; without `sources`, with empty files and secrets.

    Raise CannotBeRun for what a process cannot be.
    """
    spec = pod["spec"]
    containers: Sequence[Object] = spec.get("containers") or ()
    if len(containers) != 1 or spec.get("initContainers"):
        raise CannotBeRun("a process kubelet runs pods with one container, without init containers")
    container = containers[0]
    task = mesos.TaskInfo(name=pod["metadata"]["name"])
    task.task_id.value = pod["metadata"]["name"]
    variables = _environment(container.get("env") or (), sources)
    for name, value in variables.items():
        task.command.environment.variables.add(name=name, value=value)
    _set_command(task.command, container, variables)
    _set_amounts(task, requested(pod))
    _set_files(task, spec, container, sources)
    _set_volumes(task, pod, container)
    _set_check(task.health_check, container.get("livenessProbe"), task.command)
    if not container.get("livenessProbe"):
        task.ClearField("health_check")
    return task


def _environment(wires: Iterable[Object], sources: Sources | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in wires:
        if "valueFrom" in each:
            found[each["name"]] = _secret_text(each["name"], each["valueFrom"], sources)
            continue
        if each["name"] in ("MESOS_SANDBOX", "MESOS_DIRECTORY") and each.get("value") == SANDBOX:
            continue  # a process has its sandbox elsewhere
        found[each["name"]] = expanded(each.get("value") or "", found)
    return found


def _secret_text(name: str, source: Object, sources: Sources | None) -> str:
    reference = source.get("secretKeyRef")
    if not reference:
        raise CannotBeRun(f"variable {name}: a process kubelet knows valueFrom.secretKeyRef only")
    return _content(f"secrets/{reference['name']}", reference["key"], sources).decode("utf-8", "replace")


def _content(source: str, key: str, sources: Sources | None) -> bytes:
    if sources is None:
        return b""
    try:
        return sources[source][key]
    except KeyError:
        raise CannotBeRun(f"{source} has no {key}") from None


def _set_files(task: mesos.TaskInfo, spec: Object, container: Object, sources: Sources | None) -> None:
    """Give a task the files of Secrets and ConfigMaps: a single one by its subPath, or all of a volume."""
    held = _parts(spec)
    for mount in container.get("volumeMounts") or ():
        path, sub = _in_sandbox(mount["mountPath"], container), mount.get("subPath")
        for part in held.get(mount["name"], ()):
            for key, file in _files(part, sources, sub).items():
                volume = task.container.volumes.add(container_path=path if sub else f"{path}/{file}")
                volume.source.type = mesos.Volume.Source.SECRET
                volume.source.secret.type = mesos.Secret.VALUE
                volume.source.secret.value.data = _content(part.source, key, sources)


def _files(part: Part, sources: Sources | None, only: str | None) -> Mapping[str, str]:
    """Return the paths of files in a volume by their keys; `only` the one at this path."""
    known = (sources or {}).get(part.source, ())
    paths = part.paths if part.paths is not None else {key: key for key in known}
    if only is None:
        return paths
    keys = [key for key, path in paths.items() if path == only] or ([only] if part.paths is None else [])
    return dict.fromkeys(keys, only)


def _in_sandbox(path: str, container: Object) -> str:
    """Return where a process has what a container has at a path.

    The sandbox is where a process begins: it stands for the working directory, where the container names one.
    """
    folder = container.get("workingDir")
    if folder and (path == folder or path.startswith(f"{folder}/")):
        return posixpath.relpath(path, folder)
    return path.removeprefix(f"{SANDBOX}/")


def _set_volumes(task: mesos.TaskInfo, pod: Object, container: Object) -> None:
    """Give a task its persistent volumes, as an agent has them: the namespace stands for the role."""
    claims = claims_of(pod)
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in claims:
            volume = task.resources.add(
                name="disk", type=mesos.Value.SCALAR, role=pod["metadata"]["namespace"]
            )
            volume.disk.persistence.id = claims[mount["name"]]
            volume.disk.volume.container_path = _in_sandbox(mount["mountPath"], container)
            volume.disk.volume.mode = mesos.Volume.RW


def _set_command(command: mesos.CommandInfo, container: Object, variables: Mapping[str, str]) -> None:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise CannotBeRun("a container without a command: a process kubelet does not look into images")
    argv = [expanded(word, variables) for word in words]
    command.shell, command.value = False, argv[0]
    command.arguments.extend(argv)


def _set_amounts(task: mesos.TaskInfo, amounts: Mapping[str, Fraction]) -> None:
    for name, key, unit in (
        ("cpus", "cpu", 1), ("mem", "memory", MEGABYTE), ("disk", "ephemeral-storage", MEGABYTE)
    ):  # fmt: skip
        if amounts.get(key):
            value = mesos.Value.Scalar(value=float(amounts[key] / unit))
            task.resources.add(name=name, type=mesos.Value.SCALAR, scalar=value)


def _set_check(check: mesos.HealthCheck, probe: Object | None, command: mesos.CommandInfo) -> None:
    if not probe:
        return
    check.delay_seconds = probe.get("initialDelaySeconds") or 0
    check.interval_seconds = probe.get("periodSeconds") or 10
    check.timeout_seconds = probe.get("timeoutSeconds") or 1
    check.consecutive_failures = probe.get("failureThreshold") or 3
    if "exec" in probe:
        argv = probe["exec"]["command"]
        check.type = mesos.HealthCheck.COMMAND
        check.command.shell, check.command.value = False, argv[0]
        check.command.arguments.extend(argv)
        check.command.environment.CopyFrom(command.environment)
    elif "httpGet" in probe:
        get = probe["httpGet"]
        check.type = mesos.HealthCheck.HTTP
        check.http.scheme = (get.get("scheme") or "HTTP").lower()
        check.http.port, check.http.path = int(get["port"]), get.get("path") or "/"
    else:
        raise CannotBeRun("a process kubelet knows probes by exec and httpGet")
