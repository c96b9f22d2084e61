"""Pod templates: what a site or a job adds to the pods of its tasks on Kubernetes.

A template is a pod in the form that Kubernetes has. What Peloton says of a task is merged over it, so that a
template has no field of Peloton's own: such a field is refused, with what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from peloton.errors import InvalidArgument
from peloton.model.system_labels import SYSTEM_PREFIX

Tree = Mapping[str, Any]
CONTAINER = "task"
"""The name of the container that runs the task."""
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label of pods that are runs."""
OWN_PREFIX = "peloton/"
"""Of Peloton's annotations."""
OWN_VOLUMES = re.compile(r"v\d+|persistent|sandbox|secrets")
"""Names of the volumes that Peloton gives to pods."""
_CONSTRAINT = "allowed: a constraint of the task says which nodes will do"
_COMMAND = "allowed: the command of the task counts"
_CHECK = "allowed: the health check of the task counts"
_AMOUNTS = "allowed: the resources of the task count"
_BINDS = "allowed: Peloton binds the pod to its node"
_SPEC: Mapping[str, str] = {
    "activeDeadlineSeconds": "allowed: the SLA of the job says how long a run may take",
    "affinity": _CONSTRAINT,
    "ephemeralContainers": "allowed: they are added to pods that run",
    "nodeName": _CONSTRAINT,
    "nodeSelector": _CONSTRAINT,
    "overhead": "allowed: the runtime class says it",
    "resourceClaims": "allowed: nobody allocates devices for pods that Peloton binds",
    "resources": _AMOUNTS,
    "restartPolicy": "allowed: Peloton begins the next run by itself",
    "schedulerName": _BINDS,
    "schedulingGates": _BINDS,
    "terminationGracePeriodSeconds": "allowed: the kill grace period of the task counts",
    "tolerations": "allowed: the setting kubernetes.tolerations has them",
    "topologySpreadConstraints": _CONSTRAINT,
}
_TASK: Mapping[str, str] = {
    "args": _COMMAND,
    "command": _COMMAND,
    "image": "allowed: the container of the task has the image, or kubernetes.default_image",
    "livenessProbe": _CHECK,
    "ports": "allowed: the ports of the task count",
    "readinessProbe": _CHECK,
    "resizePolicy": _AMOUNTS,
    "resources": _AMOUNTS,
    "restartPolicy": "allowed: Peloton begins the next run by itself",
    "startupProbe": _CHECK,
}
_INIT: Mapping[str, str] = {
    "ports": "allowed: the ports of the task count",
    "resources": "allowed: Peloton does not count them",
}
_KEYS: Mapping[str, str] = {
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists whose elements have keys: they are merged by these, others are replaced."""
_MERGED = frozenset({"containers"})
"""Lists whose elements are merged in themselves."""


def check_template(template: object, where: str) -> None:
    """Refuse what a template cannot say. `where` is the path of the template.

    Raises InvalidArgument with the path of the field, and with what would be right.
    """
    tree = _mapping(template, where)
    for name, value in tree.items():
        if (name, value) not in (("apiVersion", "v1"), ("kind", "Pod")) and name not in ("metadata", "spec"):
            expected = "metadata or spec of a Pod of the version v1"
            raise InvalidArgument(where, _told(name, value), expected)
    _check_metadata(_mapping(tree.get("metadata", {}), f"{where}.metadata"), f"{where}.metadata")
    _check_spec(_mapping(tree.get("spec", {}), f"{where}.spec"), f"{where}.spec")


def _check_metadata(metadata: Tree, where: str) -> None:
    for name, value in metadata.items():
        if name not in ("labels", "annotations"):
            raise InvalidArgument(f"{where}.{name}", value, "allowed: Peloton names the pods of tasks")
        for key, text in _mapping(value, f"{where}.{name}").items():
            if key == MANAGED_BY or key.startswith((SYSTEM_PREFIX, OWN_PREFIX)):
                raise InvalidArgument(
                    f"{where}.{name}", _told(key, text), f"one of yours: {key} is Peloton's"
                )


def _check_spec(spec: Tree, where: str) -> None:
    _refuse(spec, _SPEC, where)
    for path, container in _elements(spec, "containers", where):
        if container.get("name") != CONTAINER:
            expected = f"{CONTAINER}: a pod has the container of its task alone"
            raise InvalidArgument(f"{path}.name", container.get("name"), expected)
        _refuse(container, _TASK, path)
    for path, container in _elements(spec, "initContainers", where):
        _refuse(container, _INIT, path)
    for path, volume in _elements(spec, "volumes", where):
        if OWN_VOLUMES.fullmatch(str(volume.get("name", ""))):
            raise InvalidArgument(
                f"{path}.name", volume["name"], "another name: Peloton gives this one to volumes of tasks"
            )


def _refuse(tree: Tree, own: Mapping[str, str], where: str) -> None:
    for name in tree:
        if name in own:
            raise InvalidArgument(f"{where}.{name}", tree[name], own[name])


def _elements(tree: Tree, name: str, where: str) -> Iterator[tuple[str, Tree]]:
    """Iterate over the elements of a list, each with its path."""
    found, path = tree.get(name, ()), f"{where}.{name}"
    if isinstance(found, str | Mapping) or not isinstance(found, Sequence):
        raise InvalidArgument(path, found, "a list")
    for place, each in enumerate(found):
        yield f"{path}[{place}]", _mapping(each, f"{path}[{place}]")


def _mapping(value: object, where: str) -> Tree:
    if not isinstance(value, Mapping):
        raise InvalidArgument(where, value, "a mapping, with the fields of a pod of Kubernetes")
    return value


def _told(name: str, value: object) -> str:
    return f"{name}: {value}"


def check_field(field: str) -> None:
    """Refuse a path of the setting of what jobs may set that no template can have. Raises ValueError."""
    parts = field.split(".")
    own = {"spec": _SPEC, "spec.containers": _TASK, "spec.initContainers": _INIT}
    for length in range(1, len(parts)):
        reason = own.get(".".join(parts[:length]), {}).get(parts[length])
        if reason:
            raise ValueError(f"{field} cannot be set by any template: it is not {reason}")
    if parts[:2] not in (["metadata", "labels"], ["metadata", "annotations"]) and (
        parts[0] != "spec" or len(parts) < 2
    ):
        raise ValueError(
            f"{field} is no field of a template, such as spec.runtimeClassName, metadata.annotations or "
            "spec.containers.env"
        )


def check_allowed(template: Tree, fields: Sequence[str], where: str) -> None:
    """Refuse what a job sets beyond some fields, which are paths without the places in lists.

    Raises InvalidArgument.
    """
    leaves = (leaf for name, value in template.items() for leaf in _leaves(value, name, name))
    for path, shown, value in leaves:
        named = path in ("apiVersion", "kind", "spec.containers.name")
        if not named and not any(path == each or path.startswith(f"{each}.") for each in fields):
            expected = f"one of the fields that jobs may set: {', '.join(fields)}"
            raise InvalidArgument(
                f"{where}.{shown}",
                value,
                expected if fields else "allowed: kubernetes.job_template_fields lets jobs set nothing",
            )


def _leaves(value: object, path: str, shown: str) -> Iterator[tuple[str, str, object]]:
    """Iterate over the values in a tree: path, path with places in lists, and value."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}", f"{shown}.{name}")
    elif isinstance(value, list | tuple) and value:
        for place, each in enumerate(value):
            yield from _leaves(each, path, f"{shown}[{place}]")
    else:
        yield path, shown, value


def merge(base: Tree, over: Tree) -> dict[str, Any]:
    """Return a pod merged over another: mappings by their keys, lists of named elements by these names.

    Elements of the upper one come last, and replace those of the same name but for containers, which are
    merged. Anything else is replaced.
    """
    result = dict(base)
    for name, value in over.items():
        held = result.get(name)
        if isinstance(held, Mapping) and isinstance(value, Mapping):
            result[name] = merge(held, value)
        elif name in _KEYS and isinstance(held, list | tuple) and isinstance(value, list | tuple):
            result[name] = _merge_lists(name, held, value)
        else:
            result[name] = value
    return result


def _merge_lists(name: str, base: Sequence[Tree], over: Sequence[Tree]) -> list[Tree]:
    key = _KEYS[name]
    held = {each.get(key): each for each in base}
    taken = {each.get(key) for each in over}
    kept = [each for each in base if each.get(key) not in taken]
    if name not in _MERGED:
        return [*kept, *over]
    return [*kept, *(merge(held.get(each.get(key), {}), each) for each in over)]
