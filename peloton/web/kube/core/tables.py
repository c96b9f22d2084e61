"""Tables: what `kubectl get` shows of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from peloton.web.kube.core.values import Object

_UNKNOWN = "<unknown>"
_NONE = "<none>"


class Column(NamedTuple):
    """A column; those of a priority above 0 are shown by `-o wide`."""

    name: str
    kind: str
    cell: Callable[[Mapping[str, Any], float], Any]
    priority: int = 0


def seconds_of(text: str | None) -> float | None:
    """Return a time of an object in seconds since 1970."""
    if not text:
        return None
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def age(text: str | None, now: float) -> str:
    """Return how long ago a time is, as kubectl writes it."""
    since = seconds_of(text)
    return _UNKNOWN if since is None else span(max(0.0, now - since))


def span(seconds: float) -> str:
    """Return a time as kubectl writes it: `5m20s`, `3h`, `12d`."""
    whole = int(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if whole < 120:
        return _joined((whole, "s"))
    if minutes < 10:
        return _joined((minutes, "m"), (second, "s"))
    if minutes < 180:
        return _joined((minutes, "m"))
    if hours < 8:
        return _joined((hours, "h"), (minute, "m"))
    return _joined((hours, "h")) if hours < 48 else _joined((hours // 24, "d"))


def _joined(first: tuple[int, str], *others: tuple[int, str]) -> str:
    """Join amounts with their units as Kubernetes does, without those that are zero."""
    return "".join(str(amount) + unit for amount, unit in (first, *(each for each in others if each[0])))


def _at(found: Mapping[str, Any], *path: str) -> Any:
    value: Any = found
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _name(found: Mapping[str, Any], now: float) -> Any:
    return found["metadata"]["name"]


def _age(found: Mapping[str, Any], now: float) -> str:
    return age(_at(found, "metadata", "creationTimestamp"), now)


def _container(
    what: str, template: tuple[str, ...] = ("spec", "template")
) -> Callable[[Mapping[str, Any], float], str]:
    def cell(found: Mapping[str, Any], now: float) -> str:
        containers = _at(found, *template, "spec", "containers") or []
        return ",".join(str(each.get(what, "")) for each in containers if isinstance(each, Mapping))

    return cell


def _selector(found: Mapping[str, Any], now: float) -> str:
    labels = _at(found, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _completions(found: Mapping[str, Any], now: float) -> str:
    return f"{_at(found, 'status', 'succeeded') or 0}/{_at(found, 'spec', 'completions') or 1}"


def _job_status(found: Mapping[str, Any], now: float) -> str:
    if _at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    conditions = _at(found, "status", "conditions") or []
    return next((str(each["type"]) for each in conditions if each["status"] == "True"), "Running")


def _duration(found: Mapping[str, Any], now: float) -> str:
    begun = seconds_of(_at(found, "status", "startTime"))
    if begun is None:
        return ""
    ended = seconds_of(_at(found, "status", "completionTime"))
    if ended is None and _job_status(found, now) != "Running":
        return ""
    return span(max(0.0, (now if ended is None else ended) - begun))


def _ready_pods(found: Mapping[str, Any], now: float) -> str:
    statuses = _at(found, "status", "containerStatuses") or []
    return f"{sum(bool(each['ready']) for each in statuses)}/{len(statuses)}"


def _pod_status(found: Mapping[str, Any], now: float) -> str:
    if _at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    for each in _at(found, "status", "containerStatuses") or []:
        state = each["state"]
        ended = state.get("terminated") or state.get("waiting")
        if ended:
            return str(_at(found, "status", "reason") or ended["reason"])
    return str(_at(found, "status", "phase"))


def _restarts(found: Mapping[str, Any], now: float) -> int:
    return sum(each["restartCount"] for each in _at(found, "status", "containerStatuses") or [])


def _replicas(field: str) -> Callable[[Mapping[str, Any], float], Any]:
    return lambda found, now: _at(found, "status", field) or 0


def _deployed(found: Mapping[str, Any], now: float) -> str:
    wanted = _at(found, "spec", "replicas")
    return f"{_at(found, 'status', 'readyReplicas') or 0}/{1 if wanted is None else wanted}"


def _quota(part: str) -> Callable[[Mapping[str, Any], float], str]:
    def cell(found: Mapping[str, Any], now: float) -> str:
        status = found["status"]
        return ", ".join(
            f"{name}: {status['used'][name]}/{amount}"
            for name, amount in status["hard"].items()
            if name.startswith(f"{part}.")
        )

    return cell


def _node_status(found: Mapping[str, Any], now: float) -> str:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in found["status"]["conditions"]
    )
    text = "Ready" if ready else "NotReady"
    return f"{text},SchedulingDisabled" if _at(found, "spec", "unschedulable") else text


def _told(*path: str, default: str = _NONE) -> Callable[[Mapping[str, Any], float], Any]:
    return lambda found, now: _at(found, *path) or default


def _owner(found: Mapping[str, Any], now: float) -> str:
    owners = _at(found, "metadata", "ownerReferences") or []
    return ",".join(f"{each['kind'].lower()}.apps/{each['name']}" for each in owners) or _NONE


def _last_schedule(found: Mapping[str, Any], now: float) -> str:
    last = _at(found, "status", "lastScheduleTime")
    return age(last, now) if last else _NONE


def _involved(found: Mapping[str, Any], now: float) -> str:
    of = found["involvedObject"]
    return f"{str(of.get('kind', '')).lower()}/{of.get('name', '')}"


_OF_RUNS = ("spec", "jobTemplate", "spec", "template")
_NAME = Column("Name", "string", _name)
_AGE = Column("Age", "string", _age)
_CONTAINERS = (
    Column("Containers", "string", _container("name"), 1),
    Column("Images", "string", _container("image"), 1),
    Column("Selector", "string", _selector, 1),
)
COLUMNS: Mapping[str, Sequence[Column]] = {
    "jobs": (
        _NAME,
        Column("Status", "string", _job_status),
        Column("Completions", "string", _completions),
        Column("Duration", "string", _duration),
        _AGE,
        *_CONTAINERS,
    ),
    "cronjobs": (
        _NAME,
        Column("Schedule", "string", _told("spec", "schedule")),
        Column("Timezone", "string", _told("spec", "timeZone")),
        Column("Suspend", "boolean", lambda found, now: bool(_at(found, "spec", "suspend"))),
        Column("Active", "integer", lambda found, now: len(_at(found, "status", "active") or ())),
        Column("Last Schedule", "string", _last_schedule),
        _AGE,
        Column("Containers", "string", _container("name", _OF_RUNS), 1),
        Column("Images", "string", _container("image", _OF_RUNS), 1),
    ),
    "pods": (
        _NAME,
        Column("Ready", "string", _ready_pods),
        Column("Status", "string", _pod_status),
        Column("Restarts", "integer", _restarts),
        _AGE,
        Column("IP", "string", _told("status", "podIP"), 1),
        Column("Node", "string", _told("spec", "nodeName"), 1),
    ),
    "deployments": (
        _NAME,
        Column("Ready", "string", _deployed),
        Column("Up-to-date", "integer", _replicas("updatedReplicas")),
        Column("Available", "integer", _replicas("availableReplicas")),
        _AGE,
        *_CONTAINERS,
    ),
    "daemonsets": (
        _NAME,
        Column("Desired", "integer", _replicas("desiredNumberScheduled")),
        Column("Current", "integer", _replicas("currentNumberScheduled")),
        Column("Ready", "integer", _replicas("numberReady")),
        Column("Up-to-date", "integer", _replicas("updatedNumberScheduled")),
        Column("Available", "integer", _replicas("numberAvailable")),
        _AGE,
        *_CONTAINERS,
    ),
    "replicasets": (
        _NAME,
        Column("Desired", "integer", lambda found, now: found["spec"]["replicas"]),
        Column("Current", "integer", _replicas("replicas")),
        Column("Ready", "integer", _replicas("readyReplicas")),
        _AGE,
        *_CONTAINERS,
    ),
    "controllerrevisions": (
        _NAME,
        Column("Controller", "string", _owner),
        Column("Revision", "integer", lambda found, now: found["revision"]),
        _AGE,
    ),
    "statefulsets": (_NAME, Column("Ready", "string", _deployed), _AGE, *_CONTAINERS[:2]),
    "priorityclasses": (
        _NAME,
        Column("Value", "integer", lambda found, now: found["value"]),
        Column("Global-Default", "boolean", lambda found, now: found["globalDefault"]),
        _AGE,
        Column("Description", "string", _told("description", default=""), 1),
    ),
    "resourcequotas": (
        _NAME,
        Column("Request", "string", _quota("requests")),
        Column("Limit", "string", _quota("limits")),
        _AGE,
    ),
    "secrets": (
        _NAME,
        Column("Type", "string", _told("type")),
        Column("Data", "integer", lambda found, now: len(found["data"])),
        _AGE,
    ),
    "namespaces": (_NAME, Column("Status", "string", _told("status", "phase")), _AGE),
    "nodes": (
        _NAME,
        Column("Status", "string", _node_status),
        Column("Roles", "string", lambda found, now: _NONE),
        _AGE,
        Column("Version", "string", _told("status", "nodeInfo", "kubeletVersion")),
    ),
    "events": (
        Column("Last Seen", "string", lambda found, now: age(found["lastTimestamp"], now)),
        Column("Type", "string", _told("type")),
        Column("Reason", "string", _told("reason")),
        Column("Object", "string", _involved),
        Column("Message", "string", _told("message", default="")),
        Column("Name", "string", _name, 1),
    ),
}


def table(
    plural: str, found: Iterable[Object], now: float, metadata: Object, include: str, columns: bool
) -> Object:
    """Return objects as a table. `include`: what is in each row, `Metadata`, `Object` or `None`.

    `columns`: whether their definitions are there; in a watch, only the first table has them.
    """
    known = COLUMNS[plural]
    rows = []
    for each in found:
        row: Object = {"cells": [column.cell(each, now) for column in known]}
        if include == "Object":
            row["object"] = each
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": each["metadata"],
            }
        rows.append(row)
    definitions = [
        {
            "name": column.name,
            "type": column.kind,
            "format": "name" if column.name == "Name" else "",
            "description": column.name,
            "priority": column.priority,
        }
        for column in known
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if columns else [],
        "rows": rows,
    }
