"""The container of a pod template, as a container of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from peloton.api.v1alpha.pod import pod_pb2
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.quantities import megabytes, quantity
from peloton.web.kube.core.refusals import INVALID
from peloton.web.kube.core.secret_uses import SecretUses

DEFAULT_CORES, DEFAULT_MEMORY_MB, DEFAULT_DISK_MB = 0.1, 128.0, 64.0
"""What a container gets that names no amount: a task of Peloton always asks for some."""
MOST_CHARACTERS = 512_000
"""Of all variables together, and of the command line."""
INDEX_VARIABLE, INSTANCE_VARIABLE = "JOB_COMPLETION_INDEX", "PELOTON_INSTANCE_ID"
_INDEXED = f'export {INDEX_VARIABLE}="${INSTANCE_VARIABLE}"; '
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)", re.ASCII)
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_AMOUNTS = {
    "cpu": ("cpu_limit", quantity),
    "memory": ("mem_limit_mb", megabytes),
    "ephemeral-storage": ("disk_limit_mb", megabytes),
    "nvidia.com/gpu": ("gpu_limit", quantity),
}
_HINTS = {
    "readinessProbe": "Peloton has liveness checks alone",
    "startupProbe": "Peloton has liveness checks alone: use livenessProbe.initialDelaySeconds",
    "lifecycle": "Peloton runs no hooks",
    "workingDir": "a task begins in its sandbox: use `cd` in the command",
    "restartPolicy": "containers have the policy of their pod",
}
_PULLS = ("IfNotPresent", "Always")


def container_of(
    node: Node, shared_host: bool, secrets: SecretUses, indexed: bool = False
) -> pod_pb2.ContainerSpec:
    """Translate a container. `shared_host`: whether the pod has its host's network.

    With `indexed`, a shell sets the variable that programs of indexed Jobs read, and likewise those that have
    their values from `secrets`.
    """
    node.require("name", "each container has a name")
    found = pod_pb2.ContainerSpec(name=node.text("name"), image=node.text("image"))
    secrets.all_variables(node)
    variables = _variables(node, secrets)
    command, arguments = _line(node, variables)
    _check_unknown(node, secrets)
    if not command:
        node.refuse(
            "command", "required: Peloton does not read the entrypoint of an image", "FieldValueRequired"
        )
    line = [*command, *arguments]
    script = secrets.script() + (_INDEXED if indexed else "")
    if script and command:
        line = ["/bin/sh", "-c", f'{script}exec "$@"', "sh", *line]
    if line:
        found.entrypoint.value = line[0]
        found.entrypoint.arguments.extend(line)
    found.environment.extend(pod_pb2.Environment(name=name, value=text) for name, text in variables.items())
    _amounts(node.node("resources"), found.resource)
    found.ports.extend(_ports(node, shared_host))
    for mount in node.nodes("volumeMounts"):
        if mount.text("name") in secrets.volumes:
            secrets.mount(mount)
            mount.close()
            continue
        found.volume_mounts.add(
            name=mount.text("name"), mount_path=mount.text("mountPath"), read_only=mount.flag("readOnly")
        )
        mount.close()
    if node.given("livenessProbe"):
        found.liveness_check.CopyFrom(_check(node.node("livenessProbe"), found.ports))
    node.only("imagePullPolicy", _PULLS, "Peloton pulls an image where it is not there")
    node.only("terminationMessagePath", ("/dev/termination-log",), "Peloton reads no termination message")
    node.only("terminationMessagePolicy", ("File",), "Peloton reads no termination message")
    for key in ("stdin", "stdinOnce", "tty"):
        node.only(key, (False,), "a task has no standard input")
    node.close(_HINTS)
    return found


def _variables(node: Node, secrets: SecretUses) -> dict[str, str]:
    """Return the variables, with references to earlier ones replaced as Kubernetes does."""
    found: dict[str, str] = {}
    left = MOST_CHARACTERS
    for each in node.nodes("env"):
        name = each.text("name")
        if not _VARIABLE.fullmatch(name):
            each.refuse("name", f"{name!r} is no name of a variable", INVALID)
        if each.given("valueFrom"):
            secrets.variable(each.node("valueFrom"), name)
            each.only("value", ("",), "not beside valueFrom")
            each.close()
            continue
        try:
            found[name] = _expanded(each.text("value"), found, left)
        except ValueError as error:
            each.refuse("value", str(error), INVALID)
            break
        left -= len(found[name])
        secrets.variables.pop(name, None)  # of envFrom: what is in env counts
        each.close()
    return found


def _check_unknown(node: Node, secrets: SecretUses) -> None:
    """Refuse references to variables whose values are not known here."""
    if not secrets.variables:
        return
    values = [each.text("value") for each in node.nodes("env")]
    for key, texts in (("env", values), ("command", node.texts("command")), ("args", node.texts("args"))):
        plain = [text.replace("$$", "") for text in texts]
        for name in secrets.variables:
            if any(f"$({name})" in text for text in plain):
                node.refuse(key, f"$({name}) is of a Secret, and not known here: use ${name} in a shell")


def _line(node: Node, variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the command and the arguments, with references to variables replaced."""
    left, lists = MOST_CHARACTERS, []
    for key in ("command", "args"):
        found = []
        for each in node.texts(key):
            try:
                found.append(_expanded(each, variables, left))
            except ValueError as error:
                node.refuse(key, str(error), INVALID)
                break
            left -= len(found[-1])
        lists.append(found)
    return lists[0], lists[1]


def _expanded(text: str, variables: Mapping[str, str], most: int) -> str:
    """Replace `$(NAME)` by the variable, and `$$` by `$`. A name that is unknown stays as it is.

    Raises ValueError where more than `most` characters come out: each variable may repeat one before.
    """
    pieces, length, end = [], 0, 0
    for match in _REFERENCE.finditer(text):
        value = "$" if match[1] is None else variables.get(match[1], match[0])
        pieces += [text[end : match.start()], value]
        length += match.start() - end + len(value)
        end = match.end()
        if length > most:
            break
    else:
        pieces.append(text[end:])
        length += len(text) - end
    if length > most:
        raise ValueError(f"variables and references to them come to more than {MOST_CHARACTERS:,} characters")
    return "".join(pieces)


def _amounts(node: Node, resource: pod_pb2.ResourceSpec) -> None:
    """Fill in the resources. A task may have what it asks for, so that requests are limits."""
    requests, limits = node.node("requests"), node.node("limits")
    given = {**_read(requests), **_read(limits)}
    for name, amount in _read(requests).items():
        if given[name] != amount:
            text = (
                f"a task may have what it asks for: give the same as in {requests.at(name)}, or one of them"
            )
            limits.refuse(name, text)
    found = {"cpu": DEFAULT_CORES, "memory": DEFAULT_MEMORY_MB, "ephemeral-storage": DEFAULT_DISK_MB, **given}
    for name, amount in found.items():
        setattr(resource, _AMOUNTS[name][0], amount)
    node.close()


def _read(node: Node) -> dict[str, float]:
    found = {}
    for name in node.keys():  # noqa: SIM118 - no dict
        value: Any = node.value(name)
        if name not in _AMOUNTS:
            node.refuse(name, f"Peloton schedules {', '.join(_AMOUNTS)}")
            continue
        try:
            found[name] = _AMOUNTS[name][1](value)
        except ValueError as error:
            node.refuse(name, str(error), INVALID)
    return found


def _ports(node: Node, shared_host: bool) -> list[pod_pb2.PortSpec]:
    """Return the ports. Pods of Peloton have no address of their own: a port is one of the host."""
    found = []
    for port in node.nodes("ports"):
        number = port.integer("containerPort", 0, 1, 65535)
        host = port.integer("hostPort", number if shared_host else 0, 0, 65535)
        if number != host:
            port.refuse(
                "hostPort", f"a pod has its host's network: give {number} here, or spec.hostNetwork: true"
            )
        port.only("protocol", ("TCP", "UDP"), "TCP or UDP")
        port.only("hostIP", ("", "0.0.0.0"), "a task listens where its program does")
        found.append(pod_pb2.PortSpec(name=port.text("name") or f"port-{number}", value=number))
        port.close()
    return found


def _check(node: Node, ports: Any) -> pod_pb2.HealthCheckSpec:
    """Translate a liveness probe; Kubernetes' defaults count."""
    check = pod_pb2.HealthCheckSpec(
        enabled=True,
        initial_interval_secs=node.integer("initialDelaySeconds", 0),
        interval_secs=node.integer("periodSeconds", 10, 1),
        timeout_secs=node.integer("timeoutSeconds", 1, 1),
        max_consecutive_failures=node.integer("failureThreshold", 3, 1),
    )
    node.only("successThreshold", (1,), "1 is what liveness probes have")
    if node.given("exec"):
        check.type = pod_pb2.HealthCheckSpec.HEALTH_CHECK_TYPE_COMMAND
        command = node.node("exec")
        words = command.texts("command")
        if not words:
            command.refuse("command", "give a command", "FieldValueRequired")
        check.command.value, check.command.arguments[:] = (words or [""])[0], words[1:]
        command.close()
    elif node.given("httpGet"):
        check.type = pod_pb2.HealthCheckSpec.HEALTH_CHECK_TYPE_HTTP
        _get(node.node("httpGet"), ports, check.http_get)
    else:
        node.refuse("exec", "give exec or httpGet: Peloton has no other checks", "FieldValueRequired")
    node.close({"tcpSocket": "Peloton has exec and httpGet", "grpc": "Peloton has exec and httpGet"})
    return check


def _get(node: Node, ports: Any, found: pod_pb2.HTTPGetSpec) -> None:
    port = node.value("port")
    named = {each.name: each.value for each in ports}
    number = named.get(port, 0) if isinstance(port, str) else port
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 65535:
        node.refuse("port", f"{port!r} is no port of the container", INVALID)
        number = 0
    node.only("scheme", ("HTTP", "HTTPS"), "HTTP or HTTPS")
    found.scheme = (node.text("scheme") or "HTTP").lower()
    found.port, found.path = number, node.text("path") or "/"
    node.close({"httpHeaders": "Mesos sends no headers", "host": "the host of the task is asked"})
